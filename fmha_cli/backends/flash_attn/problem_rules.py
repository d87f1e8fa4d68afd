"""Rules K420-K479 of FlashAttention-2: what its kernels need of a problem, in one table.

- K420-K435 and K446: limits of the kernels.
- K436-K445: caches, splits and empty sequences.
- K450-K456: sizes.
- K460-K466: what a kernel is compiled for.
- K470-K472: rules of order, which say which of several fitting kernels upstream takes. They refuse nothing.
- K479: the device has no kernels at all.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.cache_limits import CACHE_LIMITS
from fmha_cli.backends.flash_attn.citations import API, SRC
from fmha_cli.backends.flash_attn.compiled_for import COMPARED_RULES, FIT
from fmha_cli.backends.flash_attn.index_limits import WIDTHS
from fmha_cli.backends.flash_attn.limits import LIMITS
from fmha_cli.backends.flash_attn.situation import Situation, situation_of
from fmha_cli.backends.gpu.conditions import Condition
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.rules import ARCH_RULE, DIRECTION_RULE, Reason, Rule, Severity, refuses_nothing

CONDITIONS: tuple[Condition[Situation], ...] = (*LIMITS, *CACHE_LIMITS, *WIDTHS, *FIT)
PLACE_RULES = (ARCH_RULE, DIRECTION_RULE)
SHARED_RULES: tuple[Rule, ...] = (*COMPARED_RULES, *PLACE_RULES)
"""The core's rules that apply to this backend. The conditions replace the others, except the one about left padding,
which the kernels serve."""
SPLITS, EVEN, OWN_ARCH = "K470", "K471", "K472"
"""Rules of order."""
NO_KERNELS = "K479"


def no_kernels(device: DeviceFacts) -> Reason:
    """The Reason for a device that FlashAttention-2 has no kernels for."""
    text = f"FlashAttention-2 has no kernels for {', '.join(device.archs) or 'this device'}"
    return Reason(NO_KERNELS, text, "--backend cpu", Severity.PLACE)


ORDER_RULES: tuple[Rule, ...] = (
    Rule(
        SPLITS,
        "order: plain forward, or split-KV",
        refuses_nothing,
        "Upstream calls the split-KV kernel for more than one split, pages and appended keys, else the plain one. The "
        "other one, where it fits, is offered behind it.",
        f"{API} run_mha_fwd",
    ),
    Rule(
        EVEN,
        "order: as even as the sizes",
        refuses_nothing,
        "Upstream takes the kernels for even lengths and head dims whenever they fit. More general ones work too, and "
        "are offered behind them.",
        f"{SRC}/flash_fwd_launch_template.h run_flash_fwd",
    ),
    Rule(
        OWN_ARCH,
        "order: the device's own architecture, without suffix",
        refuses_nothing,
        "Kernels use no instruction of a suffixed architecture, so sm_90 comes before sm_90a. Tiles are chosen for the "
        "architecture that a kernel is compiled for; those of an older one are offered last.",
        f"{SRC}/flash_fwd_launch_template.h run_mha_fwd_hdim128: is_sm8x",
    ),
    Rule(
        NO_KERNELS,
        "there are kernels for the architecture",
        refuses_nothing,
        "FlashAttention-2 needs compute capability 8.0.",
        f"{API} mha_fwd: FlashAttention only supports Ampere GPUs or newer",
    ),
)

PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule(situation_of) for c in CONDITIONS), *ORDER_RULES)
RULES: tuple[Rule, ...] = (*SHARED_RULES, *PROBLEM_RULES)
"""All rules about problems. The backend adds the rules about kernels (``kernel_rules``)."""
