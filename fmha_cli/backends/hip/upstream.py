"""``CodeObjectUpstream``: an ``Upstream`` whose kernels are code objects that its project has published."""

from __future__ import annotations

from abc import abstractmethod

from fmha_cli.backends.gpu.upstream import Upstream
from fmha_cli.domain.kernel import KernelSpec


class CodeObjectUpstream(Upstream):
    """One project's code objects for AMD GPUs, and its host code. ``source`` names the pinned source that holds them; a parameter
    block is the kernel's arguments as they are.
    """

    source: str

    @abstractmethod
    def path(self, kernel: KernelSpec) -> str:
        """The path of a kernel's code object in the source."""

    @abstractmethod
    def symbol(self, kernel: KernelSpec) -> str:
        """The kernel's name in its code object."""
