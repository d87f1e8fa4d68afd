"""The rules K300-K399 of CK-Tile: what a kernel needs of a problem, in one table.

K300-K309 upstream's generated conditions, K310-K319 stages, K320-K339 limits of runners and kernels, K350-K359
rules of order (which of several fitting kernels upstream takes: they refuse nothing).
"""

from __future__ import annotations

from fmha_cli.backends.ck_tile.api_conditions import API_CONDITIONS
from fmha_cli.backends.ck_tile.condition import Condition
from fmha_cli.backends.ck_tile.limits import LIMITS
from fmha_cli.backends.ck_tile.preferences import ORDER_RULES
from fmha_cli.backends.ck_tile.stage_conditions import STAGE_CONDITIONS
from fmha_cli.backends.ck_tile.widths import WIDTHS
from fmha_cli.rules import Rule

CONDITIONS: tuple[Condition, ...] = (*API_CONDITIONS, *STAGE_CONDITIONS, *LIMITS, *WIDTHS)

PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule() for c in CONDITIONS), *ORDER_RULES)
