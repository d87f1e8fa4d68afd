"""``CubinUpstream``: an ``Upstream`` whose kernels are compiled for NVIDIA GPUs, one cubin each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fmha_cli.backends.gpu.upstream import Upstream
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.tables import Expected


class CubinUpstream(Upstream):
    """One project's kernels for NVIDIA GPUs, and its host code. A parameter block is the dataclass that ``expect_exports`` names.

    Attributes:
        folders: the header folders of ``source``, name -> folder in it, in search order.
        as_option: the option that names the revision by whose rules the user's own tree is built.
        known_files: the file of ``arch_specs/`` that lists the files of that source (``sources.homes``).
        shims: for each compiler (``CudaKind``), the names of the shim folders, searched in order before ``folders``.
        flags: for each compiler, the project's own flags in order, after the architecture and before the headers. A
            compiler without an entry cannot compile the kernels.
        calls: functions outside the cubin that kernels call on purpose. The build reports any other.
        compile_bytes: bytes of memory that compiling one kernel of a family may take, from measurements.
    """

    folders: Mapping[str, Path] = MappingProxyType({})
    as_option: str | None = None
    known_files: str | None = None
    shims: Mapping[str, tuple[str, ...]]
    flags: Mapping[str, tuple[str, ...]]
    calls: frozenset[str] = frozenset()
    compile_bytes: Mapping[Family, int]

    def profile_kernels(self, arch: ArchSpec, profile: str) -> Iterable[KernelSpec]:
        """The kernels that a profile of this backend holds for an architecture, whether or not they can be built."""
        return self.kernels(arch)

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
