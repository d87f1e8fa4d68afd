"""``Emulator``: devices that execute kernels instruction by instruction on the CPU, and what they see meanwhile.

An emulator is a library that stands in for a device's runtime. The worker attaches it before the session opens, so that
the backend's own code runs on it unchanged; a program of others gets it loaded before its own libraries. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fmha_cli.device import Availability, DeviceFacts
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext


class FindingKind(StrEnum):
    """What hardware would hide."""

    OUT_OF_BOUNDS = "out-of-bounds"
    """A global, scratch or LDS access outside of what is allocated, or into the guards between tensors."""
    MISSING_WAIT = "missing-wait"
    """A register or LDS word consumed while its load is outstanding."""
    LDS_RACE = "lds-race"
    """Two waves use an LDS word, one of them writing, with no barrier between."""
    UNINITIALISED_LDS = "uninitialised-lds"
    UNINITIALISED_REGISTER = "uninitialised-register"
    DIVERGENT_BARRIER = "divergent-barrier"
    """Waves of a workgroup wait at a barrier that others never reach."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One place in a kernel where something was found, with its first example.

    Attributes:
        kernel: symbol of the function in the code object; instruction: its text; address: its offset in the code object.
        text: a sentence with the lane, the address and the nearest allocation, or the register.
        wave, lane, group: of the first example; lane is -1 where it is no matter of one lane.
        count: how often.
    """

    kind: FindingKind
    kernel: str
    instruction: str
    address: int
    text: str
    wave: int = 0
    lane: int = -1
    group: tuple[int, int, int] = (0, 0, 0)
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {**asdict(self), "kind": self.kind.value, "group": list(self.group)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Finding:
        """The inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: not a finding.
        """
        group = data["group"]
        return Finding(**{**data, "kind": FindingKind(data["kind"]), "group": (group[0], group[1], group[2])})

    def line(self) -> str:
        """One line for people."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.kind.value} at {self.address:#x}, {self.instruction}: {self.text} ({times})"


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What the launches of one kernel did, summed over their waves.

    Attributes:
        instructions: executed by a wave each; classes: class -> how many of them.
        matrix_flops: two for each multiply-add of a matrix instruction.
        lds_conflict_cycles: cycles beyond those of an access without bank conflicts.
        buffer_out_of_range: lanes beyond a buffer's num_records: read as zero or dropped, as the ISA says.
        barriers: arrivals of waves.
    """

    kernel: str
    launches: int = 1
    instructions: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    matrix_flops: int = 0
    global_read_bytes: int = 0
    global_written_bytes: int = 0
    scratch_read_bytes: int = 0
    scratch_written_bytes: int = 0
    scalar_read_bytes: int = 0
    lds_read_bytes: int = 0
    lds_written_bytes: int = 0
    lds_accesses: int = 0
    lds_conflict_cycles: int = 0
    buffer_out_of_range: int = 0
    barriers: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {**asdict(self), "classes": dict(sorted(self.classes.items()))}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Executed:
        """The inverse of :meth:`to_dict`.

        Raises:
            TypeError: not such counts.
        """
        return Executed(**data)

    def plus(self, other: Executed) -> Executed:
        """Both together, under this one's name."""
        names = set(self.classes) | set(other.classes)
        classes = {name: self.classes.get(name, 0) + other.classes.get(name, 0) for name in sorted(names)}
        plain = (name for name in asdict(self) if name not in ("kernel", "classes"))
        return replace(self, classes=classes, **{name: getattr(self, name) + getattr(other, name) for name in plain})


@dataclass(frozen=True)
class Observed:
    """What was seen since somebody last asked.

    Attributes:
        executed: one entry for each kernel, in the order of their first launches.
        fault: why a launch stopped (an instruction that is not implemented, with mnemonic, address and kernel).
    """

    findings: tuple[Finding, ...] = ()
    executed: tuple[Executed, ...] = ()
    fault: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """What was seen, as JSON."""
        return {
            "executed": [counts.to_dict() for counts in self.executed],
            "fault": self.fault,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Observed:
        """The inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: not such a document.
        """
        findings = tuple(Finding.from_dict(finding) for finding in data["findings"])
        return Observed(findings, tuple(Executed.from_dict(counts) for counts in data["executed"]), data["fault"])


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each place once, with the counts of all; the first example stays."""
    places: dict[tuple[FindingKind, str, int], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.kernel, finding.address)
        seen = places.get(key)
        places[key] = finding if seen is None else replace(seen, count=seen.count + finding.count)
    return tuple(places.values())


def summed(counts: Iterable[Executed]) -> tuple[Executed, ...]:
    """Each kernel once, with the counts of all its launches."""
    kernels: dict[str, Executed] = {}
    for one in counts:
        kernels[one.kernel] = kernels[one.kernel].plus(one) if one.kernel in kernels else one
    return tuple(kernels.values())


@dataclass(frozen=True, kw_only=True)
class EmulatorOptions:
    """How to execute.

    Attributes:
        seed: of the order in which the waves of a workgroup run between barriers.
        turn: instructions that a wave executes before another one's turn; 0: up to a barrier. Short turns keep waves in
            step, as a GPU mostly does; without them one wave is as far ahead of another as barriers let it.
        threads: workgroups at once. checks: look for everything but accesses out of bounds, which are always seen.
        cache: a private folder for what is worth keeping between processes; None: keep nothing.
    """

    seed: int = 0
    turn: int = 0
    threads: int = 1
    checks: bool = True
    cache: str | None = None


@dataclass(frozen=True)
class Region:
    """One tensor inside watched memory: bytes ``start`` to ``end`` of it; an access belongs into one region."""

    name: str
    start: int
    end: int
    writable: bool = True


class Attached(Protocol):
    """An emulator inside this process."""

    def order(self, seed: int) -> None:
        """From now on, waves take turns in the order of this seed."""

    def watch(self, start: int, size: int, regions: Sequence[Region]) -> None:
        """Wherever these host bytes are copied to as one piece, only the regions may be accessed; addresses are of this
        process."""

    def take(self) -> Observed:
        """What was seen since the last call."""


@runtime_checkable
class Emulator(Protocol):
    """A family of emulated devices.

    Attributes:
        name: as in ``fmha doctor``.
        runtime: which runtime it stands in for (``hip``); backends of that ``runtime`` run on it.
    """

    name: str
    runtime: str

    def devices(self) -> tuple[DeviceFacts, ...]:
        """The devices, ``emu:ARCH`` each; cheap, and nothing is compiled or loaded."""

    def probe(self) -> Availability:
        """Whether what it needs is here; cheap too."""

    def build(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        """The library, built or from the cache.

        Raises:
            KernelFailure, EnvironmentProblem: as ``Backend.build``.
        """

    def attach(self, library: Path, device: DeviceFacts, options: EmulatorOptions) -> Attached:
        """Load the verified library into this process with its symbols visible to all that is loaded later.

        Raises:
            EnvironmentProblem: it does not load.
        """

    def program_environment(
        self, library: Path, device: DeviceFacts, options: EmulatorOptions, report: Path
    ) -> Mapping[str, str]:
        """The variables with which a program runs on the device, and leaves in ``report`` what was seen."""

    def read_report(self, text: str) -> Observed:
        """What a program left in its report.

        Raises:
            ValueError: not a report.
        """


@runtime_checkable
class UsesRuntime(Protocol):
    """A backend that says which runtime its sessions call, so that an emulator of it can take its place."""

    runtime: str
