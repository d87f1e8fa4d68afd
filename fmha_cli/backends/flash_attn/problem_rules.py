"""The rules K420-K479 of FlashAttention-2: what its kernels need of a problem, in one table.

K420-K435 and K446 limits of the kernels, K436-K445 caches, splits and empty sequences, K450-K456 sizes, K460-K466 what a kernel
is compiled for, K470-K472 rules of order (which of several fitting kernels upstream takes: they refuse nothing), K477-K478
dispatch keys, K479 no kernels at all.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.cache_limits import CACHE_LIMITS
from fmha_cli.backends.flash_attn.condition import API, SRC, Condition
from fmha_cli.backends.flash_attn.fit import COMPARED_RULES, FIT
from fmha_cli.backends.flash_attn.limits import LIMITS
from fmha_cli.backends.flash_attn.widths import WIDTHS
from fmha_cli.device import DeviceFacts
from fmha_cli.kernel import KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import CORE_RULES, Reason, Rule, Severity

CONDITIONS: tuple[Condition, ...] = (*LIMITS, *CACHE_LIMITS, *WIDTHS, *FIT)
PLACE_RULES: tuple[Rule, ...] = tuple(rule for rule in CORE_RULES if rule.id in ("K021", "K025"))
SHARED_RULES: tuple[Rule, ...] = (*COMPARED_RULES, *PLACE_RULES)
"""The core's rules that hold here. The others are said in upstream's terms above, left padding is served."""
NO_KERNELS = "K479"


def no_kernels(device: DeviceFacts) -> Reason:
    """The Reason for a device that FlashAttention-2 has no kernels for."""
    text = f"FlashAttention-2 has no kernels for {', '.join(device.archs) or 'this device'}"
    return Reason(NO_KERNELS, text, "--backend cpu", Severity.PLACE)


def _refuses_nothing(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
    return None


ORDER_RULES: tuple[Rule, ...] = (
    Rule(
        "K470",
        "order: plain forward, or split-KV",
        _refuses_nothing,
        "Upstream calls the split-KV kernel for more than one split, pages and appended keys, else the plain one. The "
        "other one, where it fits, is offered behind it.",
        f"{API} run_mha_fwd",
    ),
    Rule(
        "K471",
        "order: as even as the sizes",
        _refuses_nothing,
        "Upstream takes the kernels for even lengths and head dims whenever they fit. More general ones work too, and "
        "are offered behind them.",
        f"{SRC}/flash_fwd_launch_template.h run_flash_fwd",
    ),
    Rule(
        "K472",
        "order: the device's own architecture, without suffix",
        _refuses_nothing,
        "Kernels use no instruction of a suffixed architecture, so sm_90 comes before sm_90a. Tiles are chosen for the "
        "architecture that a kernel is compiled for; those of an older one are offered last.",
        f"{SRC}/flash_fwd_launch_template.h run_mha_fwd_hdim128: is_sm8x",
    ),
    Rule(
        "K477",
        "dispatch keys: the axes of a key agree",
        _refuses_nothing,
        "A key that is written by hand can say what no problem says: causal and a window, pages without a cache. Keys "
        "of problems agree.",
        "fmha_cli/backends/flash_attn/lookup.py validate",
    ),
    Rule(
        "K478",
        "dispatch keys: the kernel is listed",
        _refuses_nothing,
        "A strict lookup admits what fmha list-kernels shows, and nothing that merely could be.",
        "fmha_cli/backends/flash_attn/lookup.py strict_lookup",
    ),
    Rule(
        NO_KERNELS,
        "there are kernels for the architecture",
        _refuses_nothing,
        "FlashAttention-2 needs compute capability 8.0.",
        f"{API} mha_fwd: FlashAttention only supports Ampere GPUs or newer",
    ),
)

PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule() for c in CONDITIONS), *ORDER_RULES)
RULES: tuple[Rule, ...] = (*SHARED_RULES, *PROBLEM_RULES)
"""All rules of problems; the backend adds those of kernels (``kernel_rules``)."""
