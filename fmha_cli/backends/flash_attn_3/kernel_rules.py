"""Rules K650 and K651: which kernels FlashAttention-3 has."""

from __future__ import annotations

from fmha_cli.backends.flash_attn_3.catalogue import kernels
from fmha_cli.backends.gpu.listed import listed_rules
from fmha_cli.codegen.flash_attn_3.facts import NAME
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Rule

_RULES = listed_rules(NAME, "K650", "K651", kernels)
KERNEL_RULES: tuple[Rule, ...] = _RULES.rules()


def refusals(kernel: KernelSpec) -> tuple[Reason, ...]:
    """Every Reason why a kernel cannot be built; empty for one that can."""
    return _RULES.refusals(kernel)
