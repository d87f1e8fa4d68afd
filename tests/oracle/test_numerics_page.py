"""``docs/explanation/numerics.md`` names every type, fill and dropout stream, and the numbers in the code."""

from __future__ import annotations

import math
import re

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import CLOSED_FILLS, DROPOUT_STREAMS, FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.budgets import EPS, SHORT_SUMS, SMALL_SAMPLE, budget_of
from fmha_cli.oracle.reference import SHAKES
from fmha_cli.run.request import Request
from tests.support.paths import ROOT

TEXT = " ".join((ROOT / "docs" / "explanation" / "numerics.md").read_text("utf-8").split())
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def test_every_fill_and_stream_has_a_row() -> None:
    for name in (*FILLS, *CLOSED_FILLS, *DROPOUT_STREAMS):
        assert f"| `{name}` " in TEXT, name


def test_every_type_has_its_unit_roundoff() -> None:
    part = TEXT.split("eps is the unit roundoff")[1].split("| rule |")[0]
    said = {
        name: int(power) for power, names in re.findall(r"2\^-(\d+) \(([^)]+)\)", part) for name in names.split(", ")
    }
    assert said == {dtype.value: -int(math.log2(eps)) for dtype, eps in EPS.items()}


def test_constants() -> None:
    for dtype in (DType.FP16, DType.BF16):
        budget = budget_of(Problem.from_cli(f"--dtype {dtype.value}"))
        assert f"row {budget.row:g}, element {budget.element:g}, rms {budget.rms:g}" in TEXT
        assert f"{budget.lse:g}".replace("e-0", "e-") + " · (1 + \\|ref\\|)" in TEXT
    assert f"(1 + {SMALL_SAMPLE} / √n)" in TEXT
    assert f"row {NUMBERS[SHAKES]} more times" in TEXT
    assert f"so 2^{math.log2(SHORT_SUMS):.0f} replaces 2^-24" in TEXT
    assert f"`validate` with {NUMBERS[len(FILLS)]}" in TEXT
    assert f"(default {Request().oracle_s:g} seconds of one core" in TEXT
