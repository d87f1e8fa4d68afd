"""``Emulator``: devices that execute kernels instruction by instruction on the CPU, and their observations.

An emulator is a library that replaces a device's runtime. The worker attaches it before the session opens, so the
backend's own code runs on it unchanged. A program of another project loads it before its own libraries. Standard
library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.features import Arithmetic
from fmha_cli.domain.members import Count, Least
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext


class FindingKind(StrEnum):
    """Kinds of errors that hardware would hide."""

    OUT_OF_BOUNDS = "out-of-bounds"
    """A global, scratch or LDS access outside of what is allocated, or into the guards between tensors."""
    MISSING_WAIT = "missing-wait"
    """A register or LDS word consumed while its load is outstanding."""
    LDS_RACE = "lds-race"
    """Two waves use an LDS word, one of them writing, with no barrier between."""
    UNINITIALISED_LDS = "uninitialised-lds"
    """An LDS word that is read before anything was written there."""
    UNINITIALISED_REGISTER = "uninitialised-register"
    """A register that is read before anything was written there."""
    DIVERGENT_BARRIER = "divergent-barrier"
    """Waves of a workgroup wait at a barrier that others never reach, or lanes of a warp at an instruction that needs all."""
    MISALIGNED = "misaligned"
    """An address that is not a multiple of the access's size."""
    SHARED_RACE = "shared-race"
    """As ``lds-race``, in the shared memory of an NVIDIA device."""
    UNINITIALISED_SHARED = "uninitialised-shared"
    """As ``uninitialised-lds``, in the shared memory of an NVIDIA device."""
    WRITE_CONFLICT = "write-conflict"
    """Two blocks write different values to the same bytes of global memory, and nothing orders them."""
    MISSING_FENCE = "missing-fence"
    """The asynchronous proxy reads what the generic proxy wrote, or wgmma uses registers, with no fence between."""
    MBARRIER_MISUSE = "mbarrier-misuse"
    """An mbarrier that is not initialised, gets too many arrivals, or whose bytes never come."""
    TENSOR_MEMORY_MISUSE = "tensor-memory-misuse"
    """Tensor memory outside of an allocation or of a warp's quarter, freed twice, or never freed."""
    CLUSTER_MISUSE = "cluster-misuse"
    """A block signals, or copies to, a block of its cluster that has ended or does not exist."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One place in a kernel where something was found, with its first example.

    Attributes:
        text: a sentence with the lane, the address and the nearest allocation, or the register.
        wave, lane, group: where the first example occurred.
        count: how often it was observed.
    """

    kind: FindingKind
    kernel: Annotated[str, "symbol of the function in the code object"]
    instruction: str
    address: Annotated[int, Least(0), "of the instruction, in the code object; its line, where the code is text"]
    text: Annotated[str, "lane, address and nearest allocation, or the register"]
    wave: Annotated[int, Least(0), "in its workgroup; of the first example, like what follows"] = 0
    lane: Annotated[int, Least(-1), "-1: no matter of one lane"] = -1
    group: tuple[Count, Count, Count] = (0, 0, 0)
    count: Annotated[int, Least(1)] = 1

    def line(self) -> str:
        """One line for people. Of a list of three registers or more it has the first and the last."""
        times = "once" if self.count == 1 else f"{self.count} times"
        registers = re.sub(r"\{\s*([^\s,{}]+),[^{}]*,\s*([^\s,{}]+)\s*\}", r"{\1 ... \2}", self.instruction)
        return f"{self.kind.value} at {self.address:#x}, {' '.join(registers.split())}: {self.text} ({times})"


@dataclass(frozen=True, kw_only=True)
class Executed:
    """The counts of one GPU kernel's launches on an emulated device, summed over its waves."""

    kernel: Annotated[str, "symbol of the function in the code object"]
    launches: Count = 1
    instructions: Annotated[int, Least(0), "each executed by a wave"] = 0
    classes: Annotated[Mapping[str, Count], "class -> instructions"] = field(default_factory=dict)
    matrix_flops: Annotated[int, Least(0), "two for each multiply-add of a matrix instruction"] = 0
    global_read_bytes: Count = 0
    global_written_bytes: Count = 0
    scratch_read_bytes: Count = 0
    scratch_written_bytes: Count = 0
    scalar_read_bytes: Count = 0
    lds_read_bytes: Count = 0
    lds_written_bytes: Count = 0
    lds_accesses: Count = 0
    lds_conflict_cycles: Annotated[int, Least(0), "beyond those of accesses without bank conflicts"] = 0
    buffer_out_of_range: Annotated[int, Least(0), "lanes beyond num_records: read as zero or dropped"] = 0
    barriers: Annotated[int, Least(0), "arrivals of waves"] = 0
    global_sectors: Annotated[
        int | None, Least(0), "of 32 bytes of global memory that waves touched; null: not counted"
    ] = None

    def plus(self, other: Executed) -> Executed:
        """The sum of both, under this one's name."""
        names = set(self.classes) | set(other.classes)
        classes = {name: self.classes.get(name, 0) + other.classes.get(name, 0) for name in sorted(names)}
        plain = (item.name for item in fields(self) if item.name not in ("kernel", "classes", "global_sectors"))
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in plain}
        if self.global_sectors is not None and other.global_sectors is not None:
            sums["global_sectors"] = self.global_sectors + other.global_sectors
        return replace(self, classes=classes, **{"global_sectors": None, **sums})


@dataclass(frozen=True)
class Observed:
    """The observations since the last call of ``Attached.take``.

    Attributes:
        executed: one entry for each kernel, in the order of their first launches.
        fault: why a launch stopped (an instruction that is not implemented, with mnemonic, address and kernel).
    """

    findings: tuple[Finding, ...] = ()
    executed: tuple[Executed, ...] = ()
    fault: str | None = None


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each place, with the sum of all counts and the first example."""
    places: dict[tuple[FindingKind, str, int], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.kernel, finding.address)
        seen = places.get(key)
        places[key] = finding if seen is None else replace(seen, count=seen.count + finding.count)
    return tuple(places.values())


def summed(counts: Iterable[Executed]) -> tuple[Executed, ...]:
    """One entry for each kernel, with the counts of all its launches."""
    kernels: dict[str, Executed] = {}
    for one in counts:
        kernels[one.kernel] = kernels[one.kernel].plus(one) if one.kernel in kernels else one
    return tuple(kernels.values())


@dataclass(frozen=True, kw_only=True)
class EmulatorOptions:
    """The settings of an execution.

    Attributes:
        seed: of the order in which the waves of a workgroup run between barriers.
        turn: instructions that a wave executes before another wave's turn; 0 = up to the next barrier. Short turns keep
            waves in step, as a GPU mostly does; with 0, one wave runs as far ahead of another as barriers allow.
        threads: number of workgroups that execute at once.
        checks: whether to look for all findings. Accesses out of bounds are always reported.
        cache: a private folder for results that are worth keeping between processes; None = keep nothing.
        careful: take no short way through the checks and products. Every result, count and finding stays as it is.
        arithmetic: of matrix instructions; DOCUMENT unless the emulator ``ChoosesArithmetic``.
    """

    seed: int = 0
    turn: int = 0
    threads: int = 1
    checks: bool = True
    careful: bool = False
    cache: str | None = None
    arithmetic: Arithmetic = Arithmetic.DOCUMENT


@dataclass(frozen=True)
class Region:
    """One tensor inside watched memory: its bytes ``start`` to ``end``. Every access must fall into one region."""

    name: str
    start: int
    end: int
    writable: bool = True


class Attached(Protocol):
    """An emulator that is loaded into this process."""

    def order(self, seed: int) -> None:
        """From now on, waves take turns in the order that this seed gives."""

    def watch(self, start: int, size: int, regions: Sequence[Region]) -> None:
        """Restrict accesses to the regions, wherever these host bytes are copied to as one piece.

        Addresses are those of this process.
        """

    def take(self) -> Observed:
        """The observations since the last call."""


@runtime_checkable
class Emulator(Protocol):
    """A family of emulated devices.

    Attributes:
        name: as in ``fmha doctor``.
        runtime: the runtime that it replaces (``hip``); backends whose ``runtimes`` hold it run on it.
    """

    name: str
    runtime: str

    def devices(self) -> tuple[DeviceFacts, ...]:
        """The devices, each ``emu:ARCH``. This is cheap: it compiles and loads nothing."""

    def probe(self) -> Availability:
        """Whether everything that the emulator needs is installed. This is cheap too."""

    def build(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        """The library, newly built or from the cache.

        Raises:
            KernelFailure, EnvironmentProblem: as ``Backend.build``.
        """

    def attach(self, library: Path, device: DeviceFacts, options: EmulatorOptions) -> Attached:
        """Load the verified library into this process; all libraries that are loaded later see its symbols.

        Raises:
            EnvironmentProblem: the library does not load.
        """

    def program_environment(
        self, library: Path, device: DeviceFacts, options: EmulatorOptions, report: Path
    ) -> Mapping[str, str]:
        """The variables that make a program run on the device and write the observations to ``report``."""

    def read_report(self, text: str) -> Observed:
        """The content of a program's report.

        Raises:
            ValueError: the file is not a report.
        """


@runtime_checkable
class ChoosesArithmetic(Protocol):
    """An emulator whose matrix instructions have more than the document's arithmetic."""

    arithmetics: tuple[Arithmetic, ...]


@runtime_checkable
class UsesRuntime(Protocol):
    """A backend that names the runtimes that its sessions call (``hip``, ``cuda``), so an emulator can replace one."""

    runtimes: tuple[str, ...]
