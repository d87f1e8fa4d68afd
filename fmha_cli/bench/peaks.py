"""Peaks of this machine, and settings of its kernels: measured once and kept in the cache under a description of the machine.

On a busy machine the measured peak is too low, never too high, so a stored peak only grows. :func:`measured_peaks`
with ``again`` measures once more before a kernel is reported to beat it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.bench.roofline import PeakKind, Peaks
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.processor import CPUINFO, Processor, cpu_fields, cpu_text, processor_of
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.memo import recall, remember

PEAKS_DIR = "peaks"
"""Directory under the cache root, one file per machine."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The properties that determine a machine's peaks.

    Attributes:
        processor: its model.
        flags_digest: digest of the instruction set flags.
        cores: number of logical cores that may be used.
        threads: number of threads that run the loops.
        toolchain: version of the compiler that built the loops.
        arch: architecture for which the loops were built.
    """

    processor: Processor
    flags_digest: str
    cores: int
    threads: int
    toolchain: str
    arch: str

    @property
    def digest(self) -> str:
        """sha256 over every field."""
        return digest_of(to_json(self))


def this_machine(threads: int, toolchain: str, arch: str, cpuinfo: Path = CPUINFO) -> Machine:
    """The machine that this process runs on; ``cpuinfo`` is the file in which Linux describes it.

    Other systems get the platform module's processor name, and their flags are unknown.
    """
    text = cpu_text(cpuinfo)
    fields = cpu_fields(text)
    flags = fields.get("flags") or fields.get("features") or ""
    return Machine(
        processor=processor_of(text),
        flags_digest=digest_of(sorted(flags.split())),
        cores=usable_cores(),
        threads=threads,
        toolchain=toolchain,
        arch=arch,
    )


def load_peaks(root: Path, machine: Machine) -> Peaks | None:
    """The stored peaks of a machine; None if there are none or the file is damaged."""
    answer = recall(_peaks_file(root, machine), to_json(machine))
    return from_json(Peaks, answer) if isinstance(answer, dict) else None


def measured_peaks(root: Path, machine: Machine, measure: Callable[[], Peaks], *, again: bool = False) -> Peaks:
    """The machine's peaks: stored, or measured now and stored, atomically, where they are better than stored ones.

    Args:
        measure: runs the peak loops (the backend supplies them); called only when needed or ``again``.

    Raises:
        EnvironmentProblem: the cache cannot be written, or the loops do not run.
    """
    if not again and (found := load_peaks(root, machine)) is not None:
        return found
    measured = measure()
    best = best_of(load_peaks(root, machine), measured)
    with as_environment_problem("storing this machine's peaks"):
        remember(_peaks_file(root, machine), to_json(machine), to_json(best), {})
    return best


def best_of(one: Peaks | None, other: Peaks) -> Peaks:
    """The larger of both values for each peak."""
    if one is None:
        return other
    rates = [rate for rate in (one.bandwidth, other.bandwidth) if rate is not None]
    names = sorted({*one.flops, *other.flops})
    return Peaks(
        kind=other.kind,
        flops={name: max(one.flops.get(name, 0.0), other.flops.get(name, 0.0)) for name in names},
        bandwidth=max(rates, default=None),
        llc_bytes=other.llc_bytes if other.llc_bytes is not None else one.llc_bytes,
        source=other.source,
    )


def spec_peaks(arch: ArchSpec, device: str = "") -> Peaks | None:
    """Peaks of the data sheet, from the facts ``peak_flops`` {dtype: FLOP/s} and ``peak_bandwidth`` (bytes/s).

    Without ``device`` they are those of the product that the architecture's facts name. ``device`` is the name that a
    device reports. If the facts state ``device_names`` {name: product}, the peaks are those of the device's product,
    from ``other_products`` if necessary. The peaks of a device with another name are unknown, because it may be faster.

    None where the architecture states neither fact: a CPU's peak depends on its clock and cores, which an architecture
    does not state.
    """
    facts = arch.facts
    row = {name: arch.fact(name) for name in ("peak_flops", "peak_bandwidth", "llc_bytes") if name in facts}
    source = "; ".join(str(facts[name]["source"]) for name in row if name != "llc_bytes")
    if not row.keys() - {"llc_bytes"}:
        return None
    if device and "device_names" in facts:
        product = arch.fact("device_names").get(device)
        if product is None:
            return None
        if product != arch.fact("product"):
            row, source = arch.fact("other_products")[product], f"{product}: {facts['other_products']['source']}"
    return Peaks(
        kind=PeakKind.SPEC,
        flops=dict(row.get("peak_flops", {})),
        bandwidth=row.get("peak_bandwidth"),
        llc_bytes=row.get("llc_bytes"),
        source=source,
    )


def _peaks_file(root: Path, machine: Machine) -> Path:
    return root / PEAKS_DIR / f"{machine.digest}.json"


SETTINGS_DIR = "settings"
"""Directory under the cache root."""


@dataclass(frozen=True, kw_only=True)
class MeasuredKernel:
    """What was measured.

    Attributes:
        machine: its ``toolchain`` is the digest of the kernel's artifact, so a new build is measured again.
        kernel: name of the kernel.
    """

    machine: Machine
    kernel: str


def kept_settings(root: Path, subject: MeasuredKernel) -> Settings | None:
    """The settings that were measured for a kernel on a machine; None without any, or if the file is damaged."""
    found = recall(_settings_file(root, subject), to_json(subject))
    return None if not isinstance(found, dict) else Settings(values=found, source=SettingsFrom.MEASURED)


def measured_once(root: Path, subject: MeasuredKernel, measure: Callable[[], Mapping[str, int]]) -> Settings:
    """The settings of a kernel on a machine: kept, or measured now and kept, atomically.

    Raises:
        EnvironmentProblem: the cache cannot be written, or the measurement does not run.
    """
    if (found := kept_settings(root, subject)) is not None:
        return found
    values = dict(sorted(measure().items()))
    with as_environment_problem("storing the settings of this machine"):
        remember(_settings_file(root, subject), to_json(subject), values, {})
    return Settings(values=values, source=SettingsFrom.MEASURED)


def every_kept(root: Path) -> Iterator[tuple[MeasuredKernel, Settings]]:
    """All settings that are kept; a file that cannot be read is passed over."""
    for path in sorted((root / SETTINGS_DIR).glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, DecodeError):
            subject = from_json(MeasuredKernel, json.loads(path.read_bytes())["question"], str(path))
            found = kept_settings(root, subject)
            if found is not None:
                yield subject, found


def _settings_file(root: Path, subject: MeasuredKernel) -> Path:
    return root / SETTINGS_DIR / f"{digest_of(to_json(subject))}.json"
