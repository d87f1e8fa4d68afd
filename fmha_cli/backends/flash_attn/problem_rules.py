"""Rules K420-K479 of FlashAttention-2: its kernels' needs of a problem, in one table.

- K420-K435 and K446: limits of the kernels.
- K436-K445 and K447: caches, splits and empty sequences.
- K450-K456: sizes.
- K460-K466: what a kernel is compiled for.
- K470-K472: rules of order, which say which of several fitting kernels upstream takes. They refuse nothing.
- K479: the device has no kernels.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.cache_limits import CACHE_LIMITS
from fmha_cli.backends.flash_attn.compiled_for import COMPARED_RULES, FIT
from fmha_cli.backends.flash_attn.index_limits import WIDTHS
from fmha_cli.backends.flash_attn.limits import LIMITS
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.gpu.conditions import Condition
from fmha_cli.backends.gpu.rule_rows import unchecked_rules
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.rules import ARCH_RULE, DIRECTION_RULE, OWN_V_RULE, Reason, Rule, Severity

CONDITIONS: tuple[Condition[FlashSituation], ...] = (*LIMITS, *CACHE_LIMITS, *WIDTHS, *FIT)
PLACE_RULES = (ARCH_RULE, DIRECTION_RULE, OWN_V_RULE)
SHARED_RULES: tuple[Rule, ...] = (*COMPARED_RULES, *PLACE_RULES)
"""The core's rules that apply to this backend. The conditions replace the others, except those about left padding,
rotary angles and the index of a cache, which the kernels serve."""
SPLITS, EVEN, OWN_ARCH = "K470", "K471", "K472"
"""Rules of order."""
NO_KERNELS = "K479"


def no_kernels(device: DeviceFacts) -> Reason:
    """The Reason for a device that FlashAttention-2 has no kernels for."""
    text = f"FlashAttention-2 has no kernels for {', '.join(device.archs) or 'this device'}"
    return Reason(NO_KERNELS, text, "--backend cpu", Severity.PLACE)


ORDER_RULES = unchecked_rules(NAME, (SPLITS, EVEN, OWN_ARCH, NO_KERNELS))

PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule(situation_of) for c in CONDITIONS), *ORDER_RULES)
RULES: tuple[Rule, ...] = (*SHARED_RULES, *PROBLEM_RULES)
"""All rules about problems. The backend adds the rules about kernels (``kernel_rules``)."""
