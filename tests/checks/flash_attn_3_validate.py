"""Judge the problems of ``flash_attn_3_check.py`` as ``fmha validate`` does: all fills, gaps between rows, orders of warps.

``run`` has no gaps, so that a tensor that is bound wrongly may pass there. A row is good as it is in that check.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fmha_cli.domain.features import FILLS
from fmha_cli.run.request import Command
from tests.checks.check import Check, product
from tests.checks.flash_attn_3_check import GOOD, judged
from tests.checks.flash_attn_3_problems import PROBLEMS, Fa3Problem


def rows_of(problem: Fa3Problem) -> Iterator[dict[str, Any]]:
    """Validate a problem: a row without LSE and one with it, where the command has both."""
    for made in judged(problem.flags, command=Command.VALIDATE, fills=FILLS):
        yield {"feature": problem.feature, "flags": problem.flags, **made}


CHECK = Check(
    cases=lambda: PROBLEMS,
    name=lambda problem: problem.name,
    carry_out=rows_of,
    good=lambda row: row["verdict"] in GOOD,
    depends=lambda problem: product("fmha-nvptx-emu"),
    by=("feature", "verdict"),
)
