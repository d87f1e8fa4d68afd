"""``Preference``: the order in which ``auto`` takes backends, loaded from ``arch_specs/_preference.json``, with an explanation.

On one device, backends whose kernels were confirmed on their architecture come before the others, and between equals the
default order decides. Nothing else orders backends: not the table of the built-in ones, and not the order of plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.codec import DecodeError, from_json
from fmha_cli.domain.errors import InternalError

FILE, SCHEMA = "_preference.json", "fmha.preference/1"


@dataclass(frozen=True, kw_only=True)
class PreferredPlace:
    """A backend of the default order, and the source of its place."""

    backend: str
    source: str


@dataclass(frozen=True, kw_only=True)
class DeviceConfirmation:
    """What ``benchmarks/gpu_check.py`` confirmed: every judged row of a backend's kernels for an architecture passed.

    Attributes:
        device: the name of the device that ran them.
        passed: how many rows were judged and passed.
        record: the file of the record in the repository.
    """

    backend: str
    arch: str
    device: str
    passed: int
    record: str


@dataclass(frozen=True)
class Preference:
    """The default order, and the backends that come before it on some architectures."""

    order: tuple[PreferredPlace, ...] = ()
    confirmed: tuple[DeviceConfirmation, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(place.backend for place in self.order)

    def place(self, backend: str) -> int:
        """The place in the default order, from 0; backends that are not in it share the last."""
        return self.names.index(backend) if backend in self.names else len(self.order)

    def source(self, backend: str) -> str | None:
        """The source of a backend's place; None if it is not in the default order."""
        return next((place.source for place in self.order if place.backend == backend), None)

    def confirmation(self, backend: str, arch: str) -> DeviceConfirmation | None:
        """The confirmation of a backend's kernels for an architecture; None without one."""
        return next((row for row in self.confirmed if (row.backend, row.arch) == (backend, arch)), None)

    def sorted(self, backends: Iterable[str]) -> list[str]:
        """Names in the default order; unknown names come last, as given."""
        return sorted(backends, key=self.place)

    def reason(self, best: tuple[str, str], other: tuple[str, str]) -> str:
        """Why one backend's kernel comes before another's on the same device, with the source.

        Args:
            best, other: the backend and the architecture of the kernel.
        """
        (name, arch), (second, another) = best, other
        here, there = self.confirmation(*best), self.confirmation(*other)
        if here is not None and there is None:
            told = f"{here.passed} rows on {here.device}, {here.record}"
            return f"gpu_check confirmed its kernels on {arch} ({told}), and not those of {second} on {another}"
        source = self.source(name)
        if source is None:
            return f"neither is in the default order of arch_specs/{FILE}, and {name} was found first"
        where = "the default order" if self.source(second) is not None else "the default order, which has no plugin"
        known = "gpu_check confirmed both" if here is not None else "gpu_check confirmed neither"
        archs = " and ".join(dict.fromkeys((arch, another)))
        return f"it comes before {second} in {where}, and {known} on {archs} (arch_specs/{FILE}: {source})"


@cache
def load_preference() -> Preference:
    """The preference of this installation.

    Raises:
        InternalError: the file is damaged.
    """
    return preference_of(arch_document(FILE, SCHEMA))


def preference_of(document: Mapping[str, Any]) -> Preference:
    """The preference that a document of the schema holds.

    Raises:
        InternalError: a member is missing or of another type, a source is empty, or a name or a confirmation stands twice.
    """
    where = f"arch_specs/{FILE}"
    try:
        order = tuple(from_json(PreferredPlace, row, f"order[{n}]") for n, row in enumerate(document["order"]))
        rows = tuple(
            from_json(DeviceConfirmation, row, f"confirmed[{n}]") for n, row in enumerate(document["confirmed"])
        )
    except (DecodeError, KeyError, TypeError) as fault:
        raise InternalError(f"{where}: {fault}", where=where) from fault
    names, pairs = [place.backend for place in order], [(row.backend, row.arch) for row in rows]
    if len(set(names)) < len(names) or len(set(pairs)) < len(pairs):
        raise InternalError(f"{where}: a name or a confirmation stands twice", where=where)
    if not all(place.source for place in order) or not all(row.passed > 0 and row.record for row in rows):
        raise InternalError(
            f"{where}: an order without a source, or a confirmation without rows or a record", where=where
        )
    return Preference(order, rows)
