"""Rules K650 to K652: which kernels FlashAttention-3 has, and which of them this tool can build."""

from __future__ import annotations

from fmha_cli.backends.cuda.listed import listed_rules
from fmha_cli.backends.flash_attn_3.catalogue import kernels
from fmha_cli.codegen.flash_attn_3.facts import NAME
from fmha_cli.codegen.flash_attn_3.instance import WRITTEN
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Rule


def _has_no_text(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if kernel.family in WRITTEN:
        return None
    text = f"{kernel.family.value}: this version of fmha has no text for the kernels of this family"
    return Refusal(text, "a kernel of the family fwd or fwd_splitkv")


_RULES = listed_rules(NAME, "K650", "K651", kernels, {"K652": _has_no_text})
KERNEL_RULES: tuple[Rule, ...] = _RULES.rules()


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel cannot be built; empty for one that can."""
    return _RULES.refusals(kernel)
