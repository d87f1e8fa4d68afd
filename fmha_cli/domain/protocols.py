"""``Backend`` and ``Session``: the protocols that a backend implements. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated, Literal, Protocol, runtime_checkable

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.members import Count, Least, Named, ShownAs
from fmha_cli.domain.phases import Tell, silent
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule


@dataclass(frozen=True)
class BuildContext:
    """The limits and settings of a build.

    Attributes:
        jobs: number of compilers that may run at once.
        timeout: seconds of processor time for one compile.
        offline: whether fetching sources is forbidden.
        notify: takes one line for people.
        phase: takes the phases of the work; a backend reports its fetches.
        stop: once set, the build should end soon.
        options: the backends' own options that the user gave, by flag name (``ck-home``).
        prepared: what the backend's own ``Batched.prepare`` returned for this context.
    """

    cache_root: Path
    jobs: int = 1
    offline: bool = False
    timeout: float = 600.0
    notify: Callable[[str], None] = field(default=lambda text: None, compare=False)
    phase: Tell = field(default=silent, compare=False)
    stop: Event | None = field(default=None, compare=False)
    options: Mapping[str, str] = field(default_factory=dict)
    prepared: object = field(default=None, compare=False)


@dataclass(frozen=True)
class BoundTensor:
    """One tensor inside the arena.

    Attributes:
        offset: byte offset of element 0 from the arena's start.
        dtype: element type, a name of ``fmha_cli.domain.tensors``.
        shape: in the problem's own axis order.
        strides: in elements, in the same order. The last axis is contiguous; other axes may have gaps.
    """

    name: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Session(Protocol):
    """One open device, inside the worker. The core calls load, bind, then upload, launch and download in a loop."""

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        """Load one verified artifact for each stage.

        Raises:
            KernelFailure: an artifact does not load, or its ABI differs from the host's.
        """

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        """Take the host arena that holds every tensor, guards included.

        A device backend mirrors the whole arena in one allocation, so guards and poison work alike everywhere.
        """

    def upload(self) -> None:
        """Copy the host arena to the device (nothing to do on a CPU)."""

    def launch(self) -> tuple[int, ...]:
        """Run all stages once and wait. Returns nanoseconds per stage (host clock or device events).

        The worker takes its own clock around the call: no time may be longer than that. Afterwards the outputs are those
        of one launch, and nothing writes to the arena any more.

        Raises:
            KernelFailure: the launch was refused.
            DeviceLost: a kernel ruined the device's context; the worker ends after this reply.
            MemoryError: the device is out of memory.
        """

    def download(self) -> None:
        """Copy the device's arena to the host (nothing to do on a CPU)."""

    def evict_caches(self) -> None:
        """Evict the tensors from the last-level cache, for cold timing."""

    def close(self) -> None:
        """Free everything."""


@runtime_checkable
class Placed(Protocol):
    """A session of a CPU backend whose tensors may lie anywhere in this process's memory (``api.session(in_process=True)``)."""

    def place(self, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        """As ``Session.bind``, but each offset is an address; workspaces too."""

    def move(self, addresses: Mapping[str, int]) -> None:
        """Tensors of the same form at other addresses, by name; the others stay."""


class HostSession:
    """The parts of a Session that are trivial when the kernel works on host memory.

    A subclass adds load, bind and launch.
    """

    def upload(self) -> None:
        """Does nothing: the arena is the device's memory."""

    def download(self) -> None:
        """Does nothing: the arena is the device's memory."""

    def evict_caches(self) -> None:
        """Writes twice the size of the largest last-level cache."""
        bytearray(HOST_EVICTION_BYTES)

    def close(self) -> None:
        """Does nothing: the end of the worker frees the memory."""


HOST_EVICTION_BYTES = 1 << 30


@runtime_checkable
class Remarking(Protocol):
    """A session that reports what it saw while it was bound: the library's kernels, the copies, the time of a compile."""

    def remarks(self) -> tuple[str, ...]:
        """One line for each remark. The core asks once, after ``bind``, and the row's notes hold the answer."""


@runtime_checkable
class Backend(Protocol):
    """A family of kernels. It answers five questions: are you here, what do you have, can you, build this, run this.

    Attributes:
        name: as in ``--backend``.
        algorithm: the dataclass of its kernels' free choices.
        dropout_stream: name of the stream from which its kernels draw.
        probes_in_parent: True only if ``probe`` opens no device and loads no driver.
        automatic: whether ``--backend auto`` may choose it.
    """

    name: str
    algorithm: type[Algorithm]
    dropout_stream: str
    probes_in_parent: bool
    automatic: bool

    def probe(self) -> Availability:
        """Whether the backend can run here, and on which devices. The worker calls it unless ``probes_in_parent``."""

    def archs(self) -> tuple[str, ...]:
        """The architectures for which it has kernels. This is cheap."""

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """Every kernel that exists for an architecture, lazily, without device, sources or compiler."""

    def rules(self) -> tuple[Rule, ...]:
        """All rules that ``decide`` uses, core rules included."""

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        """One decision for every candidate on this device, with all reasons of a refusal; never empty."""

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        """The stages around a supported main kernel, and the workspaces."""

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        """Build (or find in the cache) the stage's kernel.

        Raises:
            KernelFailure: it does not compile; the log is kept.
            EnvironmentProblem: no compiler, or no sources.
        """

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        """The needs of the artifact: registers, spills, vector width, ``instructions``, ``matrix_instructions``."""

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        """The stem of the kernel's file in its own project; None if it has none."""

    def open(self, device: DeviceFacts) -> Session:
        """Open the device. Only the worker calls this.

        Raises:
            EnvironmentProblem: the device or its runtime is missing.
        """


@runtime_checkable
class Refusing(Protocol):
    """A backend that explains why a kernel with a valid name cannot exist."""

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        """Why a kernel cannot be built for its architecture; empty if it can."""


@runtime_checkable
class Profiled(Refusing, Protocol):
    """A backend with its own profiles. ``kernels`` lists the kernels that can be built."""

    def profile_kernels(self, arch: ArchSpec, profile: str) -> Iterable[KernelSpec]:
        """The kernels of one of its profiles, lazily. Its project may list some that cannot be built; ``refusals``
        gives the reasons."""


@runtime_checkable
class Catalogued(Refusing, Protocol):
    """A backend whose kernels come in revisions of their source and in named sets.

    ``kernels`` lists the kernels of the default revision that can be built.
    """

    def revisions(self) -> tuple[str, ...]:
        """Names of the revisions, the default first."""

    def catalogue(
        self, arch: ArchSpec, profile: str | None, revision: str | None, families: Sequence[Family] | None = None
    ) -> Iterable[KernelSpec]:
        """The kernels of a profile in a revision, lazily; without a profile, all that can be built.

        ``families`` limits the answer to the families that the caller needs. A profile may hold kernels that its
        project lists although they cannot be built; ``refusals`` gives the reasons. The call checks the names; the iteration
        makes the kernels.

        Raises:
            UsageError: no such revision, or a profile that this revision does not have.
            EmptySelection: the revision has nothing for the architecture; names the first that has.
        """


@runtime_checkable
class Counting(Catalogued, Protocol):
    """A backend that can count its kernels without making them."""

    def count(self, arch: ArchSpec, revision: str | None, families: Sequence[Family]) -> int:
        """The number of kernels that ``catalogue`` yields without a profile.

        Raises:
            UsageError, EmptySelection: as ``catalogue``.
        """


@runtime_checkable
class Revised(Protocol):
    """A backend that can decide with the kernels of another revision of its source.

    Attributes:
        revision: the one with which it decides.
    """

    revision: str

    def at_revision(self, name: str) -> Backend:
        """The backend whose kernels, decisions and plans are those of a revision.

        Raises:
            UsageError: no such revision.
        """


@dataclass(frozen=True, kw_only=True)
class KernelArgument:
    """One kernel argument. ``offset`` and ``bytes`` are its place in the packed arguments.

    A pointer's value is ``q`` or ``arena+256``.
    """

    name: str
    offset: Count
    bytes: Annotated[int, Least(1)]
    kind: Annotated[str, ShownAs(Literal["signed", "unsigned", "float", "pointer", "bool", "bytes"])]
    value: Annotated[
        int | float | bool | str | None, "a pointer: the tensor that it points into, null for a null pointer"
    ]


Extent = Annotated[tuple[Count, Count, Count], Named("extent")]


@dataclass(frozen=True, kw_only=True)
class LaunchView:
    """One kernel launch as the host code makes it.

    Attributes:
        family, kernel: of the stage.
        grid: in blocks.
        block: in work-items.
        notes: the meaning of this launch, for people.
    """

    family: Annotated[str, ShownAs(Family)]
    kernel: str
    symbol: Annotated[str, "the function in the code object"]
    grid: Extent
    block: Extent
    lds_static: Annotated[int, Least(0), "bytes"]
    lds_dynamic: Annotated[int, Least(0), "bytes"]
    argument_bytes: Count
    arguments: tuple[KernelArgument, ...] = ()
    notes: tuple[str, ...] = ()


@runtime_checkable
class DryRun(Protocol):
    """A backend that can show its launches without a device, for ``run --dry-run``."""

    def build_recorder(self, context: BuildContext) -> Artifact | None:
        """Build (or find) the replacement for the device's runtime; None if the host code needs none.

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
        """The launches of a plan, one for each stage, made in a separate process.

        Tensors have addresses but no contents.

        Raises:
            KernelFailure: a library does not load, or refuses its arguments.
        """


@runtime_checkable
class Batched(Protocol):
    """A backend whose builds share preparations or need much memory."""

    def prepare(self, context: BuildContext) -> object:
        """Prepare the inputs that every build of a batch needs. The builds get the result as ``BuildContext.prepared``.

        Raises:
            EnvironmentProblem: no compiler, or no sources; none of the batch can be built.
        """

    def compile_bytes(self, kernel: KernelSpec) -> int:
        """Peak bytes of memory to compile a kernel. A compile starts only when that much is free."""


@runtime_checkable
class Estimated(Protocol):
    """A backend whose compiles take long and were measured, so that a build of many kernels says what it will take."""

    def compile_seconds(self, stage: Stage, context: BuildContext) -> tuple[float, float] | None:
        """The least and the most processor seconds of compiling a kernel.

        None if ``build`` would not compile it now, or nothing was measured.
        """


@runtime_checkable
class Keyed(Protocol):
    """A backend that knows the cache key of a kernel before the build, for ``fmha cache why``."""

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        """The ``fmha_cli.toolchain.cache.key.BuildKey`` under which ``build`` keeps the stage's kernel.

        Raises:
            EnvironmentProblem: as ``Backend.build``.
        """


@runtime_checkable
class Explained(Protocol):
    """A backend with its own errors, for ``fmha explain CODE``. Its rules have their pages without it."""

    @property
    def errors(self) -> Mapping[str, tuple[str, str]]:
        """Code -> the meaning of the error, and the remedy."""
