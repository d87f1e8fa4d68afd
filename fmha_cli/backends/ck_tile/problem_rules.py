"""The rules K300-K399 of CK-Tile: what a kernel needs of a problem, in one table.

K300-K309 upstream's generated conditions, K310-K319 stages, K320-K339 limits of runners and kernels, K350-K359
rules of order (which of several fitting kernels upstream takes: they refuse nothing), K390 no kernels at all.
"""

from __future__ import annotations

from fmha_cli.backends.ck_tile.api_conditions import API_CONDITIONS
from fmha_cli.backends.ck_tile.condition import Condition
from fmha_cli.backends.ck_tile.limits import LIMITS
from fmha_cli.backends.ck_tile.preferences import ORDER_RULES
from fmha_cli.backends.ck_tile.stage_conditions import STAGE_CONDITIONS
from fmha_cli.backends.ck_tile.widths import WIDTHS
from fmha_cli.device import DeviceFacts
from fmha_cli.kernel import KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.rules import Reason, Rule, Severity

NO_KERNELS = "K390"
CONDITIONS: tuple[Condition, ...] = (*API_CONDITIONS, *STAGE_CONDITIONS, *LIMITS, *WIDTHS)


def no_kernels(device: DeviceFacts) -> Reason:
    """The Reason for a device that the baseline has no kernels for."""
    text = f"the baseline revision of CK has no kernels for {', '.join(device.archs) or 'this device'}"
    return Reason(NO_KERNELS, text, "--backend cpu", Severity.PLACE)


def _kernels_exist(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Reason | None:
    return None  # there is a kernel to ask about


_EXISTENCE = Rule(
    NO_KERNELS,
    "the baseline revision has kernels for the architecture",
    _kernels_exist,
    "Kernels that only a later revision of CK has can be listed (fmha list-kernels --ck-rev) and not built.",
    "arch_specs/gfx*.json",
)

PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule() for c in CONDITIONS), *ORDER_RULES, _EXISTENCE)
