"""``Upstream``: the interface between one project's CUDA kernels and host code and the code that CUDA backends share.

A backend derives one class from it, creates one object of that class, and passes it to ``CubinBackend``. The other
modules of this package provide building, inspection, prebuilt archives, dry runs and sessions.

Listing kernels imports the derived class, so its module must not import numpy, cuda-python or the rules about problems.
Each method imports what it needs in its own body; ``own`` makes methods that do nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.passes import TwoPasses
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.launch import Launch
    from fmha_cli.backends.cuda.tables import Expected
    from fmha_cli.backends.gpu.arena_views import Array, Bytes
    from fmha_cli.backends.gpu.call import Call


class Upstream(ABC):
    """One project's kernels for NVIDIA GPUs, and its host code.

    A *situation* is what the project's host code derives from a problem on a device. Each backend has its own type.

    Attributes:
        name: the backend's name, as in ``--backend``.
        algorithm: the dataclass of the kernels' free choices.
        dropout_stream: the named stream that the kernels draw from; any stream's name if they have no dropout.
        source: the pinned source that the kernels' text includes; None if it includes the shims alone.
        folders: the header folders of that source, name -> folder in it, in search order.
        home_option, as_option: the options that name the user's own tree of that source, and the revision by whose rules
            it is built; None if it cannot be replaced.
        known_files: the file of ``arch_specs/`` that lists the files of that source (``sources.homes``).
        shims: for each compiler (``CudaKind``), the names of the shim folders, searched in order before ``folders``.
        flags: for each compiler, the project's own flags in order, after the architecture and before the headers. A
            compiler without an entry cannot compile the kernels.
        calls: functions outside the cubin that kernels call on purpose. The build reports any other.
        compile_bytes: bytes of memory that compiling one kernel of a family may take, from measurements.
        package: the package of the class, and of those derived from it, by its full name.
    """

    name: str
    algorithm: type[Algorithm]
    dropout_stream: str
    source: str | None = None
    folders: Mapping[str, Path] = MappingProxyType({})
    home_option: str | None = None
    as_option: str | None = None
    known_files: str | None = None
    shims: Mapping[str, tuple[str, ...]]
    flags: Mapping[str, tuple[str, ...]]
    calls: frozenset[str] = frozenset()
    compile_bytes: Mapping[Family, int]
    package: str = ""

    def __init_subclass__(cls) -> None:
        home, shared = (name.rpartition(".")[0] for name in (cls.__module__, __name__))
        if not cls.package and home != shared:
            cls.package = home

    # The existing kernels.

    @abstractmethod
    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """Every kernel that exists for an architecture."""

    @abstractmethod
    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        """Why there is no such kernel; empty for a kernel that can be built."""

    def profile_kernels(self, arch: ArchSpec, profile: str) -> Iterable[KernelSpec]:
        """The kernels that a profile of this backend holds for an architecture, whether or not they can be built."""
        return self.kernels(arch)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        """The kernel's file stem in its own project; None where there is none."""
        return None

    @abstractmethod
    def template(self, kernel: KernelSpec) -> str:
        """Upstream's own name for the compiled kernel, such as a template-id."""

    # The compiled text.

    @abstractmethod
    def emit(self, kernel: KernelSpec) -> str:
        """The translation unit of one cubin. It defines one kernel and the tables of ``cuda.tables``.

        The result depends on the kernel only. ``expect_exports`` has the kernel's name.
        """

    def derive_files(self, kernel: KernelSpec, tree: Path) -> Mapping[str, str]:
        """Files that the text includes and that are made from the source: name -> content.

        They are next to the text, in the compiler's working directory (``-I.``). The result depends on the kernel and
        the source only; where the code that makes it changes, the emitted text must change too.

        Args:
            tree: the folder of the unpacked source.

        Raises:
            EnvironmentProblem: the source lacks an expected part.
        """
        return {}

    def shim_folder(self, name: str) -> Path:
        """The folder of a name in ``shims``: the one that all upstreams share, or a folder of ``src`` in the package of
        ``codegen`` that has the name of this package."""
        from fmha_cli.codegen.cuda import shim_folder

        return shim_folder(name, self.package.replace(".backends.", ".codegen."))

    @abstractmethod
    def expect_exports(self, kernel: KernelSpec) -> Expected:
        """The host's expectations of a kernel. Its cubin must export the same."""

    def instructions(self, kernel: KernelSpec) -> frozenset[str]:
        """Instructions in the kernel's code that a fact of its architecture may list.

        If one of them is listed under ``nvrtc_assembler_fails_on``, ptxas assembles the kernel from NVRTC's PTX.
        """
        return frozenset()

    def compile_seconds(self, family: Family) -> tuple[float, float] | None:
        """The least and the most processor seconds that compiling a kernel of a family took; None if not measured."""
        return None

    def defects(self, cubin: bytes, remarks: Sequence[str]) -> Iterable[str]:
        """Why a cubin that was just compiled is not kept; nothing by default.

        Args:
            remarks: of the assembler (``toolchain.cuda.remarks``).
        """
        return ()

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
        """The stage's parameter block: the dataclass that ``expect_exports`` names.

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
        """Whether the host code launches any kernel. If not, there is nothing to attend to (``cuda.copies.fill_outputs``).

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
