"""``Processor``: the model of a CPU, and what ``arch_specs/_processors.json`` knows of its microarchitecture."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.members import Count

FILE, SCHEMA = "_processors.json", "fmha.processors/1"
CPUINFO = Path("/proc/cpuinfo")
_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, kw_only=True)
class Processor:
    """A model of CPU.

    Attributes:
        vendor: as CPUID says it (``AuthenticAMD``); on Arm the implementer of MIDR_EL1 (``0x41``). Empty if unknown.
        family, model: of CPUID; on Arm the version of the architecture and the part number. None if unknown.
        name: for people. It need not tell two microarchitectures apart ("AMD EPYC").
        microarchitecture: its name in ``arch_specs/_processors.json``; None if that file does not know it.
    """

    vendor: str
    family: Count | None
    model: Count | None
    name: str
    microarchitecture: Annotated[str | None, "null: not known to this tool"]

    @property
    def text(self) -> str:
        """``AMD EPYC (AMD Zen 5, family 26 model 2)``."""
        known = microarchitecture(self)
        number = "" if self.model is None else f"family {self.family} model {self.model}"
        about = ", ".join(filter(None, (known.title if known else "", number)))
        return f"{self.name} ({about})" if about else self.name


@dataclass(frozen=True, kw_only=True)
class Microarchitecture:
    """One row of the file.

    Attributes:
        models: ranges of model numbers, both ends included.
        facts: name -> {"value": ..., "source": ...}.
    """

    name: str
    title: str
    vendor: str
    family: int
    models: tuple[tuple[int, int], ...]
    source: str
    facts: Mapping[str, Mapping[str, Any]]

    def fact(self, name: str) -> Any:
        """The value of a fact; None where it is not known."""
        return self.facts[name]["value"] if name in self.facts else None


@cache
def microarchitectures() -> tuple[Microarchitecture, ...]:
    """All rows, each with its sources.

    Raises:
        InternalError: the file is malformed, or a fact has no source.
    """
    rows = []
    for row in arch_document(FILE, SCHEMA)["processors"]:
        rows.append(Microarchitecture(**{**row, "models": tuple((first, last) for first, last in row["models"])}))
        bare = [name for name, fact in row["facts"].items() if not fact.get("source") or "value" not in fact]
        if bare or not row["source"]:
            raise InternalError(f"{FILE}: {row['name']}: no source of {', '.join(bare) or 'the row'}")
    return tuple(rows)


def microarchitecture(processor: Processor) -> Microarchitecture | None:
    """The known facts of a processor's microarchitecture; None without any."""
    return next((row for row in microarchitectures() if row.name == processor.microarchitecture), None)


def _recognised(vendor: str, family: int | None, model: int | None) -> str | None:
    for row in microarchitectures():
        fits = model is not None and any(first <= model <= last for first, last in row.models)
        if (row.vendor, row.family) == (vendor, family) and fits:
            return row.name
    return None


def cpu_fields(text: str) -> Mapping[str, str]:
    """The fields of the first processor in the text of a ``/proc/cpuinfo``; the first of several with one name."""
    fields: dict[str, str] = {}
    for line in text.split("\n\n", 1)[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def processor_of(text: str) -> Processor:
    """The processor that the text of a ``/proc/cpuinfo`` describes; without a text, Python's own answer about this one."""
    fields = cpu_fields(text)
    vendor = fields.get("vendor_id") or fields.get("cpu implementer") or ""
    family = _number(fields.get("cpu family") or fields.get("cpu architecture"))
    model = _number(fields.get("model") or fields.get("cpu part"))
    return Processor(
        vendor=vendor,
        family=family,
        model=model,
        name=fields.get("model name") or fields.get("cpu part") or platform.processor() or platform.machine(),
        microarchitecture=_recognised(vendor, family, model),
    )


def this_processor(cpuinfo: Path = CPUINFO) -> Processor:
    """The processor of this machine, as far as Linux describes it."""
    return processor_of(cpu_text(cpuinfo))


def machine_here() -> str:
    """The instruction set of this machine as Linux spells it; Windows and macOS have other names for the same."""
    machine = platform.machine().lower()
    return _OTHER_NAMES.get(machine, machine)


def cpu_text(cpuinfo: Path = CPUINFO) -> str:
    """Linux's description of the processors; empty on other systems."""
    try:
        return cpuinfo.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _number(text: str | None) -> int | None:
    """A number as Linux writes it: decimal on x86, ``0xd40`` on Arm; None if it is none."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None
