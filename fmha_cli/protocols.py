"""``Backend`` and ``Session``: the protocols that a backend implements. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol, runtime_checkable

from fmha_cli.arch import ArchSpec
from fmha_cli.decision import Decision
from fmha_cli.device import Availability, DeviceFacts
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.plan import Artifact, Plan, Stage
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule


@dataclass(frozen=True)
class BuildContext:
    """What a build may use.

    Attributes:
        jobs: compilers that may run at once; timeout: seconds for one compile.
        offline: fetching sources is forbidden.
        notify: takes one line for people. stop: once set, the build ends soon.
        options: what the user set of backends' own options, by flag name (``ck-home``).
        prepared: what the backend's own ``Batched.prepare`` found for this very context.
    """

    cache_root: Path
    jobs: int = 1
    offline: bool = False
    timeout: float = 600.0
    notify: Callable[[str], None] = field(default=lambda text: None, compare=False)
    stop: Event | None = field(default=None, compare=False)
    options: Mapping[str, str] = field(default_factory=dict)
    prepared: object = field(default=None, compare=False)


@dataclass(frozen=True)
class BoundTensor:
    """One tensor inside the arena.

    Attributes:
        offset: byte offset of element 0 from the arena's start.
        dtype: element type, a name of ``fmha_cli.tensors``.
        shape, strides: in the problem's own axis order; strides in elements. The last axis is
            contiguous; other axes may have gaps.
    """

    name: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Session(Protocol):
    """One open device, inside the worker. The core calls load, bind, then upload/launch/download in a loop."""

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        """Load one artifact for each stage (already verified).

        Raises:
            KernelFailure: it does not load, or its ABI differs from the host's.
        """

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        """Take the host arena that holds every tensor, guards included. A device backend mirrors the whole
        arena in one allocation, so that guards and poison work alike everywhere."""

    def upload(self) -> None:
        """Host arena -> device (nothing to do on a CPU)."""

    def launch(self) -> tuple[int, ...]:
        """Run all stages once and wait. Returns nanoseconds per stage (host clock or device events).

        Raises:
            KernelFailure: the launch was refused.
            DeviceLost: a kernel ruined the device's context; the worker ends with this answer.
            MemoryError: the device is out of memory.
        """

    def download(self) -> None:
        """Device -> host arena (nothing to do on a CPU)."""

    def evict_caches(self) -> None:
        """Push the tensors out of the last-level cache, for cold timing."""

    def close(self) -> None:
        """Free everything."""


class HostSession:
    """What a Session need not do when the kernel works on host memory. Derive from it: load, bind and launch are left."""

    def upload(self) -> None:
        """The arena is the device's memory."""

    def download(self) -> None:
        """The arena is the device's memory."""

    def evict_caches(self) -> None:
        """Write twice the last-level cache of any machine of today."""
        bytearray(HOST_EVICTION_BYTES)

    def close(self) -> None:
        """The worker's end frees what is left."""


HOST_EVICTION_BYTES = 1 << 30


@runtime_checkable
class Backend(Protocol):
    """A family of kernels. Small and dumb: are you here, what have you got, can you, build this, run this.

    Attributes:
        name: as in ``--backend``.
        algorithm: the dataclass of its kernels' free choices.
        dropout_stream: which named stream its kernels draw from.
        probes_in_parent: True only if ``probe`` opens no device and loads no driver.
        automatic: whether ``--backend auto`` may choose it.
    """

    name: str
    algorithm: type[Algorithm]
    dropout_stream: str
    probes_in_parent: bool
    automatic: bool

    def probe(self) -> Availability:
        """Are you here? Which devices? Called in the worker unless ``probes_in_parent``."""

    def archs(self) -> tuple[str, ...]:
        """Architectures for which it has kernels, cheap to ask."""

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """Every kernel that exists for an architecture, lazily, without device, sources or compiler."""

    def rules(self) -> tuple[Rule, ...]:
        """All rules that ``decide`` uses, core rules included."""

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        """Every candidate on this device with Supported or all Reasons; at least one decision."""

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        """The stages around a supported main kernel, and the workspaces."""

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        """Build (or find in the cache) the stage's kernel.

        Raises:
            KernelFailure: it does not compile; the log is kept.
            EnvironmentProblem: no compiler, or no sources.
        """

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        """What the artifact needs: registers, spills, vector width, ``instructions``, ``matrix_instructions``."""

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        """The kernel's file stem in its own project, None where there is none."""

    def open(self, device: DeviceFacts) -> Session:
        """Open the device; in the worker only.

        Raises:
            EnvironmentProblem: the device or its runtime is not there.
        """


@runtime_checkable
class Refusing(Protocol):
    """A backend that tells why there is no such kernel as a name says."""

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        """Why a kernel cannot be built for its architecture; empty for one that can."""


@runtime_checkable
class Catalogued(Refusing, Protocol):
    """A backend whose kernels come in revisions of their source and in named sets; ``kernels`` lists the default
    revision's buildable ones."""

    def revisions(self) -> tuple[str, ...]:
        """Names of the revisions, the default first."""

    def catalogue(
        self,
        arch: ArchSpec,
        profile: str | None,
        revision: str | None,
        families: Sequence[Family] | None = None,
    ) -> Iterable[KernelSpec]:
        """The kernels of a profile (all buildable ones without) in a revision, lazily; of some families alone, where
        the caller needs no others. A profile may hold kernels that its project lists and nobody can build:
        ``refusals`` tells why. Names are looked at when called, kernels when iterated.

        Raises:
            UsageError: no such revision, or a profile that this revision does not have.
            EmptySelection: the revision has nothing for the architecture; names the first that has.
        """


@dataclass(frozen=True, kw_only=True)
class KernelArgument:
    """One member of what a kernel gets.

    Attributes:
        offset, bytes: its place in the packed arguments.
        value: a number; for a pointer the tensor that it points into (``q``, ``arena+256``), None for a null pointer.
    """

    name: str
    offset: int
    bytes: int
    kind: str
    value: int | float | bool | str | None


@dataclass(frozen=True, kw_only=True)
class LaunchView:
    """One kernel launch as the host code makes it.

    Attributes:
        family, kernel: of the stage. symbol: of the function in the code object.
        grid, block: in blocks and in work-items. lds_static, lds_dynamic, argument_bytes: bytes.
        notes: what this launch stands for, for people.
    """

    family: str
    kernel: str
    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds_static: int
    lds_dynamic: int
    argument_bytes: int
    arguments: tuple[KernelArgument, ...] = ()
    notes: tuple[str, ...] = ()


@runtime_checkable
class DryRun(Protocol):
    """A backend whose host code can be watched without a device: ``run --dry-run`` shows the launches."""

    def build_recorder(self, context: BuildContext) -> Artifact | None:
        """Build (or find) what stands in for the device's runtime; None where the host code needs nothing for that.

        Raises:
            KernelFailure, EnvironmentProblem: as ``Backend.build``.
        """

    def describe_launches(
        self,
        plan: Plan,
        artifacts: Sequence[Path],
        tensors: Mapping[str, BoundTensor],
        device: DeviceFacts,
        recorder: Path | None,
    ) -> tuple[LaunchView, ...]:
        """The launches of a plan, one for each stage, in a process of their own. Tensors have places, no contents.

        Raises:
            KernelFailure: a library does not load, or refuses its arguments.
        """


@runtime_checkable
class PeakLoops(Protocol):
    """A backend that can measure its device's peaks: what a share of the peak is a share of."""

    def build_peaks(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        """Build (or find) the loops.

        Raises:
            KernelFailure, EnvironmentProblem: as ``Backend.build``.
        """

    def run_peaks(self, artifact: Path, threads: int) -> dict[str, object]:
        """Run the loops, in a process of their own: ``{"flops": {dtype: FLOP/s}, "bandwidth": bytes/s or None,
        "llc_bytes": bytes or None, "source": text}``."""


@runtime_checkable
class Batched(Protocol):
    """A backend whose builds share something that is worth finding once, or that need much memory."""

    def prepare(self, context: BuildContext) -> object:
        """Find what every build needs, before the first of a batch starts; ``BuildContext.prepared`` hands it on.

        Raises:
            EnvironmentProblem: no compiler, or no sources: none of the batch can be built.
        """

    def compile_bytes(self, kernel: KernelSpec) -> int:
        """Memory that compiling a kernel may take at its peak; compiles start only while that much is free."""


@runtime_checkable
class Keyed(Protocol):
    """A backend that can tell the cache key of a kernel without building it: ``fmha cache why`` asks."""

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        """The ``fmha_cli.build.key.BuildKey`` under which ``build`` keeps the stage's kernel.

        Raises:
            EnvironmentProblem: as ``Backend.build``.
        """
