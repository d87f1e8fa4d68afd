"""Rules K400 and K401: which kernels FlashAttention has."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.catalogue import kernels
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.gpu.listed import listed_rules
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Rule

_RULES = listed_rules(NAME, "K400", "K401", kernels)
KERNEL_RULES: tuple[Rule, ...] = _RULES.rules()


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why FlashAttention has no such kernel; empty for a kernel that it has."""
    return _RULES.refusals(kernel)
