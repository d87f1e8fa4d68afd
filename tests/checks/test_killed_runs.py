"""The rounds of ``killed_runs``: one of each kind and signal here, all by ``python -m tests.checks killed_runs``."""

from __future__ import annotations

import sys

import pytest

from tests.checks.killed_runs import KINDS, ROUNDS, SIGNALS, KilledRun, good, row_of

if sys.platform == "win32":
    pytest.skip("these signals are of POSIX", allow_module_level=True)


def test_every_kind_meets_every_signal_several_times() -> None:
    cases = [KilledRun(number) for number in range(ROUNDS)]
    assert ROUNDS >= 80
    assert len({(case.kind, case.signal) for case in cases}) == len(KINDS) * len(SIGNALS)


@pytest.mark.parametrize("name", ["printed and not on the disk", "lost", "doubled", "changed"])
def test_a_round_with_a_fault_is_not_good(name: str) -> None:
    honest = dict.fromkeys(("printed and not on the disk", "lost", "doubled", "changed"), 0) | {"files left": []}
    assert good(honest)
    assert not good(honest | {name: 1})
    assert not good(honest | {"files left": [".results.sqlite.lock"]})


@pytest.mark.promise("Exit code 130: interrupted; no row is lost, and the run can be resumed.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("number", [0, 5, 10, 15])
def test_a_round_loses_doubles_and_changes_nothing(number: int) -> None:
    row = row_of(KilledRun(number))
    assert good(row), row
