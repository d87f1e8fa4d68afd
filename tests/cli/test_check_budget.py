"""``--check-budget`` decides how many rows are compared, and every form of output says how many they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import CLOSED_FILLS, FILLS
from fmha_cli.domain.kernel import Family
from tests.cli.conftest import Fmha, Result

SMALL = ("--backend", "null", "-s", "64", "-H", "3", "-d", "32", "--causal", "--kernel")
HONEST = (*SMALL, null_kernel(DType.FP16, Family.FWD, Behaviour.HONEST).digest[:16])
LITTLE = ("--check-budget", "1e-9")


def checks(result: Result) -> dict[str, Any]:
    return {fill["o"]["fill"]: fill["o"] for fill in result.document["records"][0]["fills"]}


@pytest.mark.promise(
    "`validate` runs five fills with poison, guard zones and repeats, and counts the rows compared.",
    "A row says which share of its output was judged; fills with known answers judge all of it.",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", ["run", "bench", "validate"])
def test_every_command_says_how_many_rows_it_compared(fmha: Fmha, command: str) -> None:
    more = ("--budget", "0.02", "--peak", "spec") if command == "bench" else ()
    part = checks(fmha(command, *HONEST, *LITTLE, *more, "--json"))
    assert all(part[fill]["rows_total"] == 192 for fill in part)
    assert 3 <= part["normal"]["rows"] < 192
    whole = checks(fmha(command, *HONEST, "--check-budget", "all", *more, "--json"))
    assert {check["rows"] for check in whole.values()} == {192}
    assert "rows" not in fmha(command, *HONEST, *more).out.splitlines()[2]
    table = fmha(command, *HONEST, *LITTLE, *more)
    assert table.code == 0
    share = 100 * min(check["rows"] for check in part.values()) / 192
    assert f"%), {share:.0f} % of rows" in table.out, table.out


@pytest.mark.slow
@pytest.mark.ci
def test_validate_judges_every_row_with_two_more_fills(fmha: Fmha) -> None:
    part = checks(fmha("validate", *HONEST, *LITTLE, "--json"))
    assert tuple(part) == (*FILLS, *CLOSED_FILLS)
    assert [part[fill]["rows"] for fill in CLOSED_FILLS] == [192, 192]
    assert tuple(checks(fmha("validate", *HONEST, "--json"))) == FILLS
    table = fmha("validate", *HONEST, *LITTLE).out
    assert "means, pointer: all rows" in table
    assert tuple(checks(fmha("validate", *HONEST, *LITTLE, "--fill", "normal", "--json"))) == ("normal",)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("kind", CLOSED_FILLS)
def test_a_closed_fill_can_be_asked_for(fmha: Fmha, kind: str) -> None:
    found = fmha("run", *HONEST, *LITTLE, "--fill", kind, "--json")
    assert found.document["records"][0]["verdict"] == "PASSED"
    assert checks(found)[kind]["rows"] == 192


@pytest.mark.promise("A row says which share of its output was judged; fills with known answers judge all of it.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_variable_and_the_command_that_repeats_a_row(fmha: Fmha) -> None:
    found = fmha("run", *HONEST, "--json", FMHA_CHECK_BUDGET="1e-9")
    assert checks(found)["normal"]["rows"] < 192
    assert found.document["records"][0]["repro"].endswith(" --check-budget 1e-09")
    every = fmha("run", *HONEST, "--json", FMHA_CHECK_BUDGET="all").document["records"][0]
    assert every["repro"].endswith(" --check-budget all")
    assert "--check-budget" not in fmha("run", *HONEST, "--json").document["records"][0]["repro"]


@pytest.mark.parametrize("text", ["0", "-1", "some", "nan", "inf"])
def test_a_bad_budget_is_refused(fmha: Fmha, text: str) -> None:
    found = fmha("run", *HONEST, f"--check-budget={text}")
    assert found.code == 2
    assert "seconds above 0, or all" in found.err


def test_non_finite_files_are_noted(fmha: Fmha, home: Path) -> None:
    q = np.ones((1, 3, 64, 32), np.float16)
    q[0, 1, 5, 7] = np.nan
    np.save(home / "work" / "q.npy", q)
    found = fmha("run", "--backend", "null", "--q", "q.npy", "--k", "filled", "--v", "filled", "--causal", *HONEST[-2:])
    assert found.code == 0, found.out
    assert "inputs hold 1 non-finite value\n" in found.out
