"""Upstream's names of a kernel: its instance file, and its template-id in the launch code.

Source: ``csrc/flash_attn/src/generate_kernels.py`` ``Kernel.filename`` (without its suffix), and the ``auto kernel =``
lines of ``flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h``.
"""

from __future__ import annotations

from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import MaskKey

_FILES = {
    Family.FWD: "fwd",
    Family.FWD_SPLITKV: "fwd_split",
    Family.FWD_SPLITKV_COMBINE: "fwd_split",
    Family.BWD_DOT_DO_O: "bwd",
    Family.BWD_DQ_DK_DV: "bwd",
    Family.BWD_CONVERT_DQ: "bwd",
}
"""The ``direction`` in the name of the file whose launch code instantiates the kernel."""


def upstream_name(kernel: KernelSpec) -> str | None:
    """The stem of the instance file that compiles a kernel; None for a family that upstream does not have.

    Upstream compiles stage kernels in both the causal and the non-causal file; the result is the non-causal one. The
    names contain ``sm80`` for every architecture.
    """
    if kernel.family not in _FILES:
        return None
    s = kernel.signature
    causal = "causal_" if s.mask is MaskKey.CAUSAL else ""
    return f"flash_{_FILES[kernel.family]}_hdim{s.hdim}_{s.dtype.value}_{causal}sm80"


def template_text(kernel: KernelSpec) -> str:
    """The kernel's template-id with all arguments, as upstream's launch code writes it.

    Raises:
        ValueError: the kernel is not one of FlashAttention's.
    """
    from fmha_cli.codegen.flash_attn.instance import instance_of  # imported late: listing kernels needs only file names

    return instance_of(kernel).template_id
