"""Upstream's names of kernels."""

from __future__ import annotations

from fmha_cli.codegen.flash_attn_3.instance import FORWARD, WRITTEN, algorithm_of, instance_of
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Need

_TYPES = {DType.FP16: "fp16", DType.BF16: "bf16", DType.FP8_E4M3: "e4m3"}
COMBINE, PREPARE = "flash_fwd_combine", "flash_prepare_scheduler"


def upstream_name(kernel: KernelSpec) -> str | None:
    """The stem of the generated file that compiles a kernel (``generate_kernels.py`` ``Kernel.filename``).

    A file holds the kernels of all masks, dense and varlen. All combine kernels are in one file, which nothing generates, and so are all
    prepare kernels.
    The stages of a backward pass are compiled in the file of each main kernel that they serve; the result is the first.
    """
    s, a = kernel.signature, algorithm_of(kernel)
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        return COMBINE
    if kernel.family is Family.FWD_PREPARE:
        return PREPARE
    forward = kernel.family in FORWARD
    both = f"_{s.hdim_v}" if s.hdim_v != s.hdim else ""
    softcap = "_softcap" if s.softcap is Need.YES else ""
    flags = (
        ("_paged" * a.paged, "_split" * (s.split is Need.YES), softcap, "_packgqa" * _named(kernel))
        if forward
        else (softcap,)
    )
    return f"flash_{'fwd' if forward else 'bwd'}_hdim{s.hdim}{both}_{_TYPES[s.dtype]}{''.join(flags)}_sm90"


def _named(kernel: KernelSpec) -> bool:
    """Whether the file's name says that query heads are packed: with pages and splits they always are."""
    a = algorithm_of(kernel)
    return a.pack_gqa and not (a.paged or kernel.signature.split is Need.YES)


def template(kernel: KernelSpec) -> str:
    """The function of upstream's launch code that launches a kernel, with its arguments."""
    return instance_of(kernel).template_id if kernel.family in WRITTEN else kernel.family.value
