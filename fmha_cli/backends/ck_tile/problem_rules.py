"""CK-Tile's rules K300-K399 in one table: the requirements of a kernel on a problem.

- K300-K309: upstream's generated conditions
- K310-K319: stages
- K320-K339: limits of runners and kernels
- K350-K359: order (which of several fitting kernels upstream takes); these refuse nothing
- K390: no kernels at all
"""

from __future__ import annotations

from fmha_cli.backends.ck_tile.api_conditions import API_CONDITIONS
from fmha_cli.backends.ck_tile.index_limits import WIDTHS
from fmha_cli.backends.ck_tile.limits import LIMITS
from fmha_cli.backends.ck_tile.preferences import ORDER_RULES
from fmha_cli.backends.ck_tile.revisions import NAME, revisions, serves
from fmha_cli.backends.ck_tile.situation import CkSituation, situation_of
from fmha_cli.backends.ck_tile.stage_conditions import STAGE_CONDITIONS
from fmha_cli.backends.gpu.conditions import Condition
from fmha_cli.backends.gpu.rule_rows import unchecked_rules
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.rules import Reason, Rule, Severity

NO_KERNELS = "K390"
CONDITIONS: tuple[Condition[CkSituation], ...] = (*API_CONDITIONS, *STAGE_CONDITIONS, *LIMITS, *WIDTHS)


def no_kernels(revision: str, device: DeviceFacts) -> Reason:
    """The Reason for a device for which a revision has no kernels. Its help names the first revision that has some."""
    text = f"the {revision} revision of CK has no kernels for {', '.join(device.archs) or 'this device'}"
    having = next((r.name for r in revisions() if any(serves(load_arch(arch), r.name) for arch in device.archs)), None)
    other = f"--ck-rev {having} (to explain, not to build), or " if having else ""
    return Reason(NO_KERNELS, text, f"{other}--backend cpu", Severity.PLACE)


_EXISTENCE = unchecked_rules(NAME, (NO_KERNELS,))
PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule(situation_of) for c in CONDITIONS), *ORDER_RULES, *_EXISTENCE)
