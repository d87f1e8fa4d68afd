"""``Upstream``: the interface between one project's kernels and host code and the code that GPU backends share.

A backend derives one class from it, or from ``CubinUpstream`` where they are compiled for NVIDIA GPUs, creates one
object of that class, and passes it to its ``UpstreamBackend``. The other modules of this package and of the vendor's
provide sessions, dry runs and the choice of kernels.

Listing kernels imports the derived class, so its module must not import numpy, a driver's bindings or the rules about
problems. Each method imports what it needs in its own body; ``own`` makes methods that do nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule

if TYPE_CHECKING:
    from fmha_cli.backends.gpu.arena_views import Array, Bytes
    from fmha_cli.backends.gpu.call import Call
    from fmha_cli.backends.gpu.launching import Launch


_SHARED = tuple(f"fmha_cli.backends.{name}." for name in ("gpu", "cuda", "hip"))
"""Where classes derived from ``Upstream`` are not yet a project's."""


class Upstream(ABC):
    """One project's kernels, and its host code.

    A *situation* is what the project's host code derives from a problem on a device. Each backend has its own type.

    Attributes:
        name: the backend's name, as in ``--backend``.
        algorithm: the dataclass of the kernels' free choices.
        dropout_stream: the named stream that the kernels draw from; any stream's name if they have no dropout.
        source: the pinned source that the kernels come from or include; None if there is none.
        home_option: the option that names the user's own tree of that source; None if it cannot be replaced.
        package: the package of the class, and of those derived from it, by its full name.
    """

    name: str
    algorithm: type[Algorithm]
    dropout_stream: str
    source: str | None = None
    home_option: str | None = None
    package: str = ""

    def __init_subclass__(cls) -> None:
        if not cls.package and not cls.__module__.startswith(_SHARED):
            cls.package = cls.__module__.rpartition(".")[0]

    # The existing kernels.

    @abstractmethod
    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """Every kernel that exists for an architecture."""

    @abstractmethod
    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        """Why there is no such kernel; empty for a kernel that can be built."""

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        """The kernel's file stem in its own project; None where there is none."""
        return None

    # The kernels that serve a problem.

    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """All rules that ``decide`` and ``refusals`` use, core rules included."""

    @abstractmethod
    def situation_of(self, problem: Problem, device: DeviceFacts) -> Any:
        """The situation of a problem on a device."""

    @abstractmethod
    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        """A decision about every candidate for a problem of one direction: Supported, or all Reasons against it. See
        ``gpu.index.decisions``."""

    @abstractmethod
    def plan_of(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        """The stages around a supported main kernel of a problem of one direction, and the workspaces."""

    def discord(self, problem: Problem, forward: KernelSpec, backward: KernelSpec) -> Sequence[Reason]:
        """Why a backward kernel cannot read, on the device, the O and LSE that a forward kernel has left there. By
        default every pair is allowed.
        """
        return ()

    def passes(self) -> TwoPasses:
        """The answers about problems of any direction."""
        return TwoPasses(self.decide, self.plan_of, self.discord)

    def promises(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance] | None:
        """What a kernel promises (``domain.invariance`` Promising); by default nothing is known."""
        return None

    # The arguments of a launch. None of these methods reads the tensors' contents.

    @abstractmethod
    def params_of(self, stage: Stage, call: Call[Any]) -> object:
        """The stage's parameter block: a dataclass of ``codegen.struct``.

        Raises:
            InternalError: a tensor that the stage needs is missing, or no kernel can read its layout.
        """

    @abstractmethod
    def launch_of(self, stage: Stage, call: Call[Any]) -> Launch:
        """The stage's grid, block, shared memory, and the parameters that follow the parameter block."""

    def auxiliaries_of(self, situation: Any) -> Mapping[str, Array]:
        """Small arrays that kernels read besides the tensors, by name."""
        return {}

    def list_zeroed(self, plan: Plan) -> tuple[str, ...]:
        """Workspaces that must be zero. They are filled before each launch, outside the timed part."""
        return ()

    def launches(self, situation: Any) -> bool:
        """Whether the host code launches any kernel. If not, there is nothing to attend to (``upstream_session.fill_outputs``).

        By default the situation's own ``launches``, if it has one.
        """
        return bool(getattr(situation, "launches", True))

    # The host's conversions, outside the timed launches.

    def before_upload(self, call: Call[Any], arena: Bytes) -> None:
        """Change the host's arena before it is copied to the device. Where nothing will be launched, this is not called.

        Kernels that read the contract's tensors as they are need nothing. Where ``call.follows``, the forward kernels
        will write O and LSE.

        Raises:
            InternalError: a workspace is missing or too small.
        """
        return

    def after_download(self, call: Call[Any], arena: Bytes) -> None:
        """Convert the kernels' results in the host's arena to the contract's outputs.

        Kernels that write those need nothing. Where nothing was launched, this is not called.

        Raises:
            InternalError: a workspace is missing or too small.
        """
        return
