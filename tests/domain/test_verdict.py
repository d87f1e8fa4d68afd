"""Verdicts and exit codes, as the table of the contract, section 6, has them."""

from __future__ import annotations

from itertools import combinations

import pytest

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict, exit_code_of

CODES = {
    0: "PASSED UNCHECKED",
    1: "WRONG OUT_OF_BOUNDS HAZARD NONDETERMINISTIC MISTRUSTED",
    3: "UNSUPPORTED",
    4: "NOT_RUN",
    6: "CRASHED TIMED_OUT BUILD_FAILED LAUNCH_FAILED OUT_OF_MEMORY",
}
STRONGEST_FIRST = (130, 70, 1, 6, 4, 3, 0)
ROWS = [(code, verdict) for code, verdicts in CODES.items() for verdict in verdicts.split()]


@pytest.mark.promise("Exit code 1: a row is WRONG, OUT_OF_BOUNDS, HAZARD, NONDETERMINISTIC or MISTRUSTED.")
@pytest.mark.parametrize(("code", "verdict"), ROWS, ids=lambda value: str(value))
def test_a_verdict_has_its_code(code: int, verdict: str) -> None:
    assert Verdict(verdict).exit_code == code
    assert exit_code_of([Verdict(verdict)]) == code
    assert exit_code_of([Verdict(verdict)], interrupted=True) == ExitCode.INTERRUPTED == 130


def test_every_verdict_is_in_the_table() -> None:
    assert {verdict for _, verdict in ROWS} == set(Verdict)


def test_the_strongest_code_wins() -> None:
    for (one, first), (other, second) in combinations(ROWS, 2):
        codes = {one, other} - ({3} if len({one, other}) > 1 else set())
        assert exit_code_of([Verdict(first), Verdict(second)]) == min(codes, key=STRONGEST_FIRST.index)
