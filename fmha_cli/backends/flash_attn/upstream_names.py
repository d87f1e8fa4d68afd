"""Upstream's names of kernels: the instance file that holds one, and the template-id that its launch code writes.

Source: ``csrc/flash_attn/src/generate_kernels.py`` ``Kernel.filename`` (without its suffix), and the ``auto kernel =``
lines of ``flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from fmha_cli.arch import ArchSpec, load_arch
from fmha_cli.backends.flash_attn.catalogue import kernels
from fmha_cli.errors import UsageError
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.signature import MaskKey

_FILES = {
    Family.FWD: "fwd",
    Family.FWD_SPLITKV: "fwd_split",
    Family.FWD_SPLITKV_COMBINE: "fwd_split",
    Family.BWD_DOT_DO_O: "bwd",
    Family.BWD_DQ_DK_DV: "bwd",
    Family.BWD_CONVERT_DQ: "bwd",
}
"""The ``direction`` in the name of the file whose launch code has the kernel."""


def upstream_name(kernel: KernelSpec) -> str | None:
    """The stem of the instance file that compiles a kernel, None for a family that upstream has not.

    Upstream compiles stage kernels in the causal and in the other file; the other one is named. ``sm80`` stands in
    the names for every architecture.
    """
    if kernel.family not in _FILES:
        return None
    s = kernel.signature
    causal = "causal_" if s.mask is MaskKey.CAUSAL else ""
    return f"flash_{_FILES[kernel.family]}_hdim{s.hdim}_{s.dtype.value}_{causal}sm80"


def template_text(kernel: KernelSpec) -> str:
    """The kernel as a template-id with all its arguments, as upstream's launch code names it.

    Raises:
        ValueError: no kernel of FlashAttention's.
    """
    from fmha_cli.codegen.flash_attn.instance import instance_of  # listing kernels needs file names alone

    return instance_of(kernel).template_id


def kernel_of_template(text: str, arch: ArchSpec) -> KernelSpec:
    """The kernel of an architecture that a template-id names; the inverse of :func:`template_text`.

    Spaces do not matter, nor does a namespace before the kernel's name.

    Raises:
        UsageError: upstream's launch code instantiates no such kernel for the architecture.
    """
    found = _by_template(arch.name).get(_bare(text))
    if found is None:
        raise UsageError(
            f"{text!r} is no kernel of FlashAttention's for {arch.name}",
            code="E003",
            why="its launch templates do not instantiate it",
            help=f"fmha list-kernels --backend flash_attn --arch {arch.name}",
        )
    return found


def kernels_of_file(stem: str, arch: ArchSpec) -> tuple[KernelSpec, ...]:
    """The kernels of an architecture in one of upstream's instance files; empty where there is no such file."""
    return tuple(kernel for kernel in kernels(arch) if upstream_name(kernel) == stem)


@lru_cache(maxsize=16)
def _by_template(arch: str) -> Mapping[str, KernelSpec]:
    return MappingProxyType({_bare(template_text(kernel)): kernel for kernel in kernels(load_arch(arch))})


def _bare(text: str) -> str:
    head, _, arguments = "".join(text.split()).partition("<")
    return f"{head.rpartition('::')[2]}<{arguments}"
