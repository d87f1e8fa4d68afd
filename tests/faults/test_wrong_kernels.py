"""The wrong kernels through the commands: each verdict is the one that the table of ``results/wrong_kernels.md`` states."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fmha_cli import api
from fmha_cli.bench.roofline import CONTRADICTED
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.record import Record
from fmha_cli.run.judge import Trial
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.wrong_kernels.backend import GATE, NAME, kernel
from tests.support.fakes.wrong_kernels.faults import Fault
from tests.support.fakes.wrong_kernels.verdicts import COMMANDS, DOCUMENT, OR, documented, line_of, registry, rows_of

FAULTS = list(Fault)[1:]
LATER = [
    Fault.STALE_BUFFER,
    Fault.STALE_LAUNCH,
    Fault.SKIPS_LATER,
    Fault.SEVENS_LATER,
    Fault.GUARD_LATER,
    Fault.INPUT_LATER,
    Fault.LATE_THREAD,
]
"""Right in the first launch only."""

TIMES = [
    Fault.NO_TIME,
    Fault.ONE_NS,
    Fault.SOME_ONE_NS,
    Fault.HUGE_TIME,
    Fault.NAN_TIME,
    Fault.NEGATIVE_TIME,
    Fault.HALF_TIME,
    Fault.WAITS_BEFORE,
]
QUICK = {
    "run": (Fault.NONE, *LATER, Fault.NO_TIME, Fault.HUGE_TIME),
    "validate": (Fault.STALE_MODULE, Fault.SEVENS_LATER, Fault.ONE_NS),
    "bench": (Fault.NONE, *LATER, *TIMES),
    "bench --ab": (*LATER, Fault.NO_TIME, Fault.HUGE_TIME, Fault.HALF_TIME),
}
"""What the default suite tries, in addition to a seeded sample of the others."""


class Kept(Supervisor):
    """One worker for all commands of a test."""

    def __exit__(self, *exc: object) -> None:
        return


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    one = Kept()
    monkeypatch.setattr("fmha_cli.run.run.Supervisor", lambda held=(), first=None: one)
    yield
    one.close()


def sampled(command: str) -> list[Fault]:
    rest = [fault for fault in FAULTS if fault not in QUICK[command] and fault is not Fault.ONE_ROW]
    return [*QUICK[command], *random.Random(command).sample(rest, 3)]


def said(rows: dict[Fault, Record]) -> dict[Fault, str]:
    return {fault: row.verdict.value for fault, row in rows.items()}


def expected(command: str, fault: Fault) -> list[str]:
    known = {**documented(), Fault.NONE: (Verdict.PASSED.value,) * len(COMMANDS)}
    return known[fault][COMMANDS.index(command)].split(OR)


@pytest.mark.promise(
    "README: Is it right for five kinds of data, and does it stay inside its memory?",
    "The verdict of every command on every wrong kernel is the documented one.",
)
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_documented_verdicts(kept: None, cache: Path, command: str) -> None:
    found = said(rows_of(command, sampled(command), cache))
    assert {f: v for f, v in found.items() if v not in expected(command, f)} == {}


@pytest.mark.promise("The verdict of every command on every wrong kernel is the documented one.")
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_documented_verdicts_of_all_faults(kept: None, cache: Path, command: str) -> None:
    found = said(rows_of(command, FAULTS, cache))
    assert {f: v for f, v in found.items() if v not in expected(command, f)} == {}


@pytest.mark.promise("Honest kernels pass the rules of judging.")
def test_the_table_has_every_fault_as_the_plugin_describes_it() -> None:
    lines = DOCUMENT.read_text("utf-8").splitlines()
    table = documented()
    assert list(table) == FAULTS
    assert [fault for fault, cells in table.items() if line_of(fault, cells) not in lines] == []
    assert {verdict for cells in table.values() for cell in cells for verdict in cell.split(OR)} <= set(Verdict)


@pytest.mark.promise("What the timed launches leave is judged, and times that cannot be true do not count.")
@pytest.mark.parametrize("command", ["bench", "bench --ab"])
def test_bench_catches_all_that_changes_after_the_first_launch(command: str) -> None:
    """A time that is too short by a factor is the one that nobody can disprove."""
    missed = [fault for fault in (*LATER, *TIMES) if Verdict.PASSED.value in expected(command, fault)]
    assert missed == [Fault.HALF_TIME, Fault.WAITS_BEFORE]


@pytest.mark.slow
@pytest.mark.ci
def test_rows_say_what_was_found_and_when(kept: None, cache: Path) -> None:
    faults = (Fault.SKIPS_LATER, Fault.STALE_BUFFER, Fault.GUARD_LATER, Fault.INPUT_LATER, Fault.WAITS_BEFORE)
    notes = {fault: "; ".join(row.notes) for fault, row in rows_of("bench", faults, cache).items()}
    again = "one more launch, V negated: o: 5120 of 5120 elements "
    assert again + "never written" in notes[Fault.SKIPS_LATER]
    assert again + "are those of an earlier launch" in notes[Fault.STALE_BUFFER]
    assert "timed launches: wrote 2 bytes, one element after the end of o" in notes[Fault.GUARD_LATER]
    assert "timed launches: input k was written to: 4608 elements" in notes[Fault.INPUT_LATER]
    assert "for a launch that is reported with" in notes[Fault.WAITS_BEFORE]


def write_between_looks(monkeypatch: pytest.MonkeyPatch, gate: Path) -> None:
    """The late thread writes after the outputs were taken and before they are looked at again, on a busy machine too."""
    look_late = Trial.look_late
    monkeypatch.setenv(GATE, str(gate))

    def spoiled(self: Trial, *args: Any) -> None:
        gate.touch()
        while not gate.with_suffix(".done").exists():
            time.sleep(0.002)
        look_late(self, *args)

    monkeypatch.setattr(Trial, "look_late", spoiled)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_single_launch_is_looked_at_again(
    kept: None, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """The launch leaves right outputs. A thread spoils them after they were taken, and no other launch follows."""
    write_between_looks(monkeypatch, tmp_path / "gate")
    monkeypatch.setattr("fmha_cli.run.execute._AGAIN_NS", 0)
    options = {"command": command, "fills": ("normal",), "repeats": 1, "cache_root": str(cache)}
    late = kernel(Fault.LATE_THREAD).digest
    (row,) = api.run(Fault.LATE_THREAD.problem, kernel=late, backend=NAME, registry=registry(), **options)
    assert row.verdict is Verdict.WRONG


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("fault", LATER)
def test_without_a_check_bench_still_sees_what_later_launches_do(
    kept: None, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Fault
) -> None:
    """The first launch itself tells what changes after it."""
    if fault is Fault.LATE_THREAD:
        write_between_looks(monkeypatch, tmp_path / "gate")
    options = {"command": "bench", "check": False, "budget_s": 0.01, "cache_root": str(cache)}
    late = kernel(fault).digest
    (row,) = api.run(fault.problem, kernel=late, backend=NAME, registry=registry(), **options)
    assert row.verdict in (Verdict.WRONG, Verdict.NONDETERMINISTIC, Verdict.OUT_OF_BOUNDS)


@pytest.mark.slow
@pytest.mark.ci
def test_a_row_without_a_believable_time_has_none(kept: None, cache: Path) -> None:
    for fault, row in rows_of("bench", (Fault.HUGE_TIME, Fault.SKIPS_LATER), cache).items():
        assert row.measurement is None
        assert [reason.id for reason in row.reasons] == ([CONTRADICTED] if fault is Fault.HUGE_TIME else [])


@pytest.mark.promise("What the timed launches leave is judged, and times that cannot be true do not count.")
def test_run_judges_the_launch_that_it_times(kept: None, cache: Path) -> None:
    """Its time is that of the second launch, which a kernel that is right only once gets wrong."""
    rows = rows_of("run", (Fault.NONE, Fault.SEVENS_LATER), cache)
    measured = rows[Fault.NONE].measurement
    assert measured is not None
    assert (len(measured.launches), measured.warmup) == (1, 1)
    assert rows[Fault.SEVENS_LATER].verdict is Verdict.WRONG
    assert rows[Fault.SEVENS_LATER].measurement is None
