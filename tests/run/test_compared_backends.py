"""``--backend a,b`` and ``--backend all``: one row for each problem and backend, interleaved where they share a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.parts import SelectedBy
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal
from fmha_cli.results.plans import state_of
from fmha_cli.run import protocol
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run
from tests.support.fixtures.trio import trio
from tests.support.generators.journals import keeping

__all__ = ["trio"]

PROBLEM = api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32")
OTHER = api.Problem.from_cli("-H 2 -s 8 -d 8 --dtype fp32")


def walked(
    backend: str, *problems: api.Problem, command: Command = Command.BENCH, said: list[str] | None = None, **more: Any
) -> list[Record]:
    request = Request(command=command, backend=backend, budget_s=0.02, peak="spec", **more)
    voice = SILENT if said is None else Voice(said.append)
    return list(Run(problems or (PROBLEM,), request, build_registry(), voice=voice).records())


def names(records: Sequence[Record]) -> list[str | None]:
    return [record.backend for record in records]


@pytest.mark.promise("`--backend a,b` interleaves the backends on one device, and a bad row costs only itself.")
@pytest.mark.usefixtures("trio")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("command", Command)
def test_one_row_for_each_problem_and_backend_in_the_order_of_the_names(command: Command) -> None:
    records = walked("two,one", PROBLEM, OTHER, command=command, fills=("normal",))
    plain = [record for record in records if "lse" not in record.problem or not record.problem["lse"]]
    assert [(r.backend, r.problem["heads"]) for r in plain] == [("two", 1), ("one", 1), ("two", 2), ("one", 2)]
    with_lse = [(r.backend, r.problem["heads"]) for r in records if r not in plain]
    assert with_lse == ([("two", 1), ("one", 1), ("two", 2), ("one", 2)] if command is Command.VALIDATE else [])
    assert {r.verdict for r in records} == {Verdict.PASSED}
    assert {r.selected_by for r in records} == {SelectedBy.BACKEND}
    assert all(r.ab is None for r in records) is (command is not Command.BENCH)
    assert all(f"--backend {record.backend}" in record.repro for record in records)
    assert all(
        record.kernel is not None and record.kernel.name.startswith(f"{r}:")
        for record, r in zip(plain, ["two", "one"] * 2, strict=True)
    )


@pytest.mark.promise("`--backend a,b` interleaves the backends on one device, and a bad row costs only itself.")
@pytest.mark.slow
@pytest.mark.ci
def test_bench_times_them_in_turns_and_compares_each_with_the_first(trio: Path) -> None:
    first, *others = walked("one,two,three")
    assert first.ab is None
    assert first.kernel is not None
    for record in others:
        assert record.ab is not None
        assert (record.ab.against, record.ab.paired) == (first.kernel.name, True)
    counts = {len(r.measurement.samples_ns) if r.measurement else 0 for r in (first, *others)}
    assert len(counts) == 1
    assert min(counts) >= 10
    assert sorted(trio.read_text().split()) == ["one", "three", "two"], (
        "no kernel is loaded again while they take turns"
    )


@pytest.mark.slow  # the rows of ``test_one_row_for_each_problem_and_backend_in_the_order_of_the_names`` show it too
@pytest.mark.usefixtures("trio")
def test_run_and_validate_compare_no_times() -> None:
    for command in (Command.RUN, Command.VALIDATE):
        assert [record.ab for record in walked("one,two", command=command, fills=("normal",))][:2] == [None, None]


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_each_cache_mode_is_compared_by_itself() -> None:
    records = walked("one,two", cache="both")
    assert [(r.backend, r.measurement.cache.value if r.measurement else "") for r in records] == [
        *(("one", "hot"), ("two", "hot"), ("one", "cold"), ("two", "cold")),
    ]
    assert [record.ab is None for record in records] == [True, False, True, False]


@pytest.mark.promise("`--backend a,b` interleaves the backends on one device, and a bad row costs only itself.")
@pytest.mark.usefixtures("trio")
@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    ("bad", "word", "verdict"),
    [
        # ``test_one_that_is_left_alone_is_timed_alone`` has this one by default.
        pytest.param("one", "wrong_value", Verdict.WRONG, marks=pytest.mark.slow),
        ("two", "late", Verdict.LAUNCH_FAILED),
        ("one", "liar", Verdict.MISTRUSTED),
        ("two", "segfault", Verdict.CRASHED),
        ("one", "build_error", Verdict.BUILD_FAILED),
    ],
)
def test_a_bad_kernel_costs_its_own_row(monkeypatch: pytest.MonkeyPatch, bad: str, word: str, verdict: Verdict) -> None:
    monkeypatch.setenv(f"TRIO_{bad.upper()}", word)
    records = {record.backend: record for record in walked("one,two,three")}
    assert {name: r.verdict for name, r in records.items()} == {
        **dict.fromkeys(("one", "two", "three"), Verdict.PASSED),
        bad: verdict,
    }
    good = "two" if bad == "one" else "one"
    assert records[bad].measurement is None
    assert records[bad].ab is None
    assert records[good].ab is None
    ratio, first = records["three"].ab, records[good].kernel
    assert ratio is not None
    assert first is not None
    assert (ratio.against, ratio.paired) == (first.name, True)


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_one_that_is_left_alone_is_timed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIO_ONE", "wrong_value")
    wrong, good = walked("one,two")
    assert (wrong.measurement, good.ab) == (None, None)
    assert good.measurement is not None


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_backends_on_two_devices_take_no_turns() -> None:
    one, apart, two = walked("one,apart,two")
    assert [r.device for r in (one, apart, two)] == ["null", "other", "null"]
    assert one.kernel is not None
    assert apart.ab is not None
    assert two.ab is not None
    assert (apart.ab.against, apart.ab.paired) == (one.kernel.name, False)
    assert (two.ab.against, two.ab.paired) == (one.kernel.name, True)


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_what_does_not_fit_together_is_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fitting = 0

    def available() -> int:
        """Memory for the first arena that is asked for, and again once it was closed."""
        nonlocal fitting
        fitting += 1
        return 1 << 30 if fitting != 2 else 1

    monkeypatch.setattr(protocol, "available_bytes", available)
    one, two = walked("one,two")
    assert (one.verdict, two.verdict) == (Verdict.PASSED, Verdict.PASSED)
    assert two.ab is not None
    assert not two.ab.paired
    assert all("timed by itself: no memory for 2 sets" in record.notes[-1] for record in (one, two))


@pytest.mark.usefixtures("trio")
def test_refusals_are_rows_with_the_backend_and_its_reasons() -> None:
    dropped = api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32 --dropout 0.5")
    records = walked("one,two", dropped, command=Command.RUN)
    assert [(r.backend, r.verdict, r.reasons[0].id) for r in records] == [
        ("one", Verdict.UNSUPPORTED, "K009"),
        ("two", Verdict.UNSUPPORTED, "K009"),
    ]
    assert {r.selected_by for r in records} == {None}
    assert [r.repro.split("--backend ")[1].split()[0] for r in records] == ["one", "two"]


@pytest.mark.usefixtures("trio")
def test_a_named_backend_without_a_device_is_not_run() -> None:
    here, away = walked("one,away", command=Command.RUN)
    assert (here.verdict, away.verdict, away.backend) == (Verdict.PASSED, Verdict.NOT_RUN, "away")
    assert [(reason.id, reason.text) for reason in away.reasons] == [("K023", "away: it is out")]


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_all_is_every_backend_for_one_device_and_says_what_it_leaves_out() -> None:
    said: list[str] = []
    records = walked("all", command=Command.RUN, said=said, device="null")
    assert names(records) == ["null", "one", "two", "three"]
    (line,) = [text for text in said if text.startswith("--backend all")]
    assert line.startswith("--backend all on null: null, one, two, three; left out: ")
    assert "apart (it runs on other)" in line
    assert "away (no device here)" in line
    on_other = walked("all", command=Command.RUN, device="other")
    assert names(on_other) == ["apart"]
    by_arch = walked("all", command=Command.RUN, arch="null")
    assert names(by_arch) == ["null", "one", "two", "three", "apart", "away"]
    assert by_arch[-1].verdict is Verdict.NOT_RUN  # its kernel is built


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_all_kernels_of_several_backends_have_one_default() -> None:
    records = walked("three,one,two", all_kernels=True)
    assert [(r.backend, r.default_choice) for r in records] == [("three", True), ("one", False), ("two", False)]
    assert records[0].regret is not None
    assert {(r.selected_by, r.ab) for r in records} == {(SelectedBy.ALL_KERNELS, None)}
    judged = walked("three,one,two", command=Command.VALIDATE, all_kernels=True)
    assert {r.regret for r in judged} == {None}  # one launch of each says nothing about speed


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_a_journal_keeps_the_rows_of_a_turn_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, together = str(tmp_path / "journal"), keeping(monkeypatch)
    done = walked("one,two,three", PROBLEM, OTHER, journal=journal)
    assert len(set(state_of(Path(journal), None)[1].start.keys)) == 6
    assert together == [3, 3]
    assert walked("one,two,three", PROBLEM, OTHER, resume=journal) == done
    with pytest.raises(UsageError, match="--backend is one,three here"):
        walked("one,three", PROBLEM, OTHER, resume=journal)


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_a_journal_knows_the_device_as_each_backend_describes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backends share the device, and its facts differ by backend: none hides another's, and only real changes are
    reported.
    """
    monkeypatch.setenv("TRIO_ONE_UNITS", "4")
    journal = str(tmp_path / "journal")
    walked("one,two", journal=journal)
    with pytest.raises(UsageError) as fewer:
        walked("one", resume=journal)
    assert "device null of one" not in str(fewer.value)
    for changed in ("one", "two"):
        with monkeypatch.context() as patch:
            patch.setenv(f"TRIO_{changed.upper()}_UNITS", "7")
            with pytest.raises(UsageError, match=f"device null of {changed} is numpy, null, 7 units here"):
                walked("one,two", resume=journal)


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_an_interrupted_comparison_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, kept = str(tmp_path / "journal"), Journal.done
    request = Request(command=Command.BENCH, backend="one,two", budget_s=0.02, peak="spec", journal=journal)

    def interrupted(self: Journal, rows: Any) -> None:
        kept(self, rows)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "done", interrupted)
        ended = Run((PROBLEM, OTHER), request, build_registry()).finish()
    assert ended.interrupted
    assert len(ended.records) == 4
    again = walked("one,two", PROBLEM, OTHER, resume=journal)
    assert {r.verdict for r in again} == {Verdict.PASSED}
    assert [r.ab is None for r in again] == [True, False, True, False]


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_unsupported_rows_of_several_backends_have_keys_of_their_own(tmp_path: Path) -> None:
    dropped = api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32 --dropout 0.5")
    journal = str(tmp_path / "journal")
    done = walked("one,two,three", dropped, command=Command.RUN, journal=journal)
    again = walked("one,two,three", dropped, command=Command.RUN, resume=journal)
    assert [record.to_dict() for record in again] == [record.to_dict() for record in done]


@pytest.mark.usefixtures("trio")
@pytest.mark.slow
@pytest.mark.ci
def test_a_pair_is_looked_for_among_the_named_backends() -> None:
    kernels = {record.backend: record.kernel for record in walked("one,two", command=Command.RUN)}
    pair = tuple(kernel.digest[:16] for kernel in kernels.values() if kernel is not None)
    first, second = walked("one,two", ab=pair)
    assert (first.backend, second.backend) == ("one", "two")
    assert first.ab is not None
    assert second.ab is not None
    assert {first.selected_by, second.selected_by} == {SelectedBy.PAIR}
    with pytest.raises(UsageError, match="no such kernel"):
        walked("one,three", ab=pair)


@pytest.mark.usefixtures("trio")
def test_one_kernel_cannot_be_named_for_several_backends() -> None:
    with pytest.raises(UsageError, match="--kernel names one kernel"):
        walked("one,two", kernel="12345678")


@pytest.mark.usefixtures("trio")
def test_arrays_go_to_one_backend() -> None:
    q = np.zeros((1, 1, 8, 8), np.float32)
    with pytest.raises(UsageError, match="names several"):
        api.attention(q, q, q, backend="one,two")
