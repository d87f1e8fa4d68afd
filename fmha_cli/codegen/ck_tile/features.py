"""How CK's template arguments spell a signature's features."""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.cpp import CK, flag
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need

_BIAS = {
    BiasKey.NONE: f"{CK}BlockAttentionBiasEnum::NO_BIAS",
    BiasKey.ELEMENTWISE: f"{CK}BlockAttentionBiasEnum::ELEMENTWISE_BIAS",
    BiasKey.ALIBI: f"{CK}BlockAttentionBiasEnum::ALIBI",
}
_OWN_GFX950 = (Family.FWD, Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)
"""Families whose upstream generator distinguishes gfx950 from other gfx9 architectures."""


def grouped(kernel: KernelSpec) -> bool:
    """Whether the kernel is for group mode."""
    return kernel.signature.mode is ModeKey.GROUP


def masked(kernel: KernelSpec) -> bool:
    """Whether the kernel masks. With upstream's simplified mask, one kernel serves every kind of mask."""
    return kernel.signature.mask is not MaskKey.NONE


def mask_type(kernel: KernelSpec) -> str:
    """The mask class; upstream generates ``--mask simplified`` for every consumer."""
    return f"{CK}SimplifiedGenericAttentionMask<{flag(masked(kernel))}>"


def bias_value(kernel: KernelSpec) -> str:
    """The enumerator of the bias.

    Raises:
        InternalError: the signature allows any bias, which no CK kernel supports.
    """
    bias = kernel.signature.bias
    if bias not in _BIAS:
        raise InternalError(f"{kernel.name}: CK compiles in one kind of bias", where="codegen.ck_tile")
    return _BIAS[bias]


def on(need: Need) -> bool:
    """Whether the feature is compiled in. ``any`` counts as no, because the kernel does not compile the choice."""
    return need is Need.YES


def arch_class(family: Family, arch: str) -> str:
    """The most specific class of architectures under which upstream's generator emits a kernel.

    Raises:
        InternalError: the baseline's generator does not know the architecture.
    """
    if arch == "gfx950" and family in _OWN_GFX950:
        return "gfx950"
    for prefix, known in (("gfx9", "gfx9"), ("gfx125", ""), ("gfx12", "gfx12")):
        if arch.startswith(prefix) and known:
            return known
        if arch.startswith(prefix):
            break
    raise InternalError(f"the baseline CK generates no {family} kernel for {arch}", where="codegen.ck_tile")


def arch_tag(family: Family, arch: str) -> str:
    """The type that keeps the symbols of different classes apart (``core/arch/arch.hpp``); batch prefill has none."""
    return "void" if family is Family.BATCH_PREFILL else f"{CK}{arch_class(family, arch)}_t"


def is_wave32(arch: str) -> bool:
    """Whether waves have 32 lanes, as on RDNA (``host::is_wave32``: a major version above 9)."""
    return not arch.startswith("gfx9")
