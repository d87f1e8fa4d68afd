"""Documents of ``fmha tune``, for the tests of reports and schemas."""

from __future__ import annotations

from typing import Any

from fmha_cli.bench.difference import SureRule
from fmha_cli.bench.entry import RememberedChoice, Result, Scope
from fmha_cli.bench.search import Method, Stop
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.explain import TunedRow
from fmha_cli.report.documents.tune import Tune, TuneCandidate, Tuned, TuneRow
from fmha_cli.report.documents.tuned import TunedEntry, TunedPage, tuned_document
from fmha_cli.results.comparison import compared
from tests.support.generators.runs_to_compare import processes, timed

PROBLEM = Problem.of(seqlen=512, heads=1, hdim=64, dtype="fp32")
SCOPE = Scope(
    device="a processor",
    units=2,
    driver="cpu, x86_64",
    compiler="g++ 12.2.0",
    source="ab" * 32,
    codegen="fmha 0.1.0, encoding 1",
    threads=1,
    cache="hot",
)


def entry(seqlen: int = 512, result: Result = Result.TUNED, **changes: Any) -> RememberedChoice:
    """An entry of the store."""
    told = result is Result.TUNED
    members: dict[str, Any] = {
        "problem": Problem.of(seqlen=seqlen, heads=1, hdim=64, dtype="fp32"),
        "scope": SCOPE,
        "result": result,
        "default": "cpu:fwd:x86_64_v4:dtype=fp32:kind=prefill",
        "kernel": "cpu:fwd:x86_64_v4:dtype=fp32:kind=decode" if told else "cpu:fwd:x86_64_v4:dtype=fp32:kind=prefill",
        "gain": 0.07 if told else None,
        "gain_ci95": (0.05, 0.09) if told else None,
        "run": "0" * 32,
        "made": "2026-11-25T19:00:00Z",
        "why": None if told else "the default is the fastest of 24",
    }
    return RememberedChoice(**(members | changes))


def _candidate(**changes: Any) -> TuneCandidate:
    members: dict[str, Any] = {"kernel": "cpu:fwd", "digest": "a" * 64, "default": True, "tuning_only": False}
    members |= {"verdict": Verdict.PASSED, "samples": 80, "level_ns": 1000.5, "rounds": 4, "reasons": (), "notes": ()}
    return TuneCandidate(**(members | changes))


def _row(state: Tuned, **changes: Any) -> TuneRow:
    late = Reason("X070", "not built: 60 s of --build-budget were used up", "--build-budget S")
    before, after = [timed(processes(1_000_000, 1))], [timed(processes(900_000, 2))]
    members: dict[str, Any] = {
        "problem": PROBLEM.to_dict(),
        "flags": PROBLEM.repro(),
        "backend": "cpu",
        "device": "cpu",
        "state": state,
        "kernel": "b" * 64,
        "default": "a" * 64,
        "gain": 0.11,
        "gain_ci95": (0.1, 0.12),
        "candidates": (
            _candidate(),
            _candidate(digest="b" * 64, default=False, tuning_only=True, samples=10, rounds=1, notes=("a note",)),
            _candidate(
                digest="c" * 64, default=False, verdict=None, samples=0, level_ns=None, rounds=0, reasons=(late,)
            ),
        ),
        "samples": 90,
        "share": 0.3,
        "stop": Stop.ONE_LEFT,
        "build_ns": 3_000_000_000,
        "search_ns": 2_000_000_000,
        "confirm_ns": 9_000_000_000,
        "difference": compared(before, after, SureRule()).rows[0].difference,
        "why": None,
    }
    return TuneRow(**(members | changes))


_NOTHING: dict[str, Any] = {"kernel": None, "gain": None, "gain_ci95": None, "samples": 0, "share": None, "stop": None}
_NOTHING |= {"difference": None}


def tune_documents() -> list[Tune]:
    """Rows of every state, a dry run, and nothing."""
    kept = _row(Tuned.KEPT, kernel="a" * 64, gain=None, gain_ci95=None, why="UNSURE whether it is more than 2 % faster")
    unserved = {**_NOTHING, "backend": None, "device": None, "default": None, "candidates": ()}
    rows = [
        _row(Tuned.TUNED),
        kept,
        _row(Tuned.FAILED, **_NOTHING, why="no kernel ran and was right"),
        _row(Tuned.UNSUPPORTED, **unserved, why="K001 no"),
        _row(Tuned.INTERRUPTED, **_NOTHING, why="interrupted"),
    ]
    planned = [_row(Tuned.PLANNED, **_NOTHING)]
    return [
        Tune(method=Method.HALVING, min_gain=0.02, processes=5, store="/data/results.sqlite", rows=tuple(rows)),
        Tune(method=Method.RACE, min_gain=0.02, processes=5, store=None, rows=tuple(planned)),
        Tune(method=Method.EXHAUSTIVE, min_gain=0.0, processes=1, store=None, rows=()),
    ]


def tuned_documents() -> list[TunedPage]:
    """Every action, with entries that count and one that does not."""
    reason = Reason("X071", "threads 1 then, 2 now")
    rows = [TunedEntry.of(entry()), TunedEntry.of(entry(1024, Result.KEPT))]
    verified = [TunedEntry.of(entry(), counts=True), TunedEntry.of(entry(1024), counts=False, reasons=(reason,))]
    return [
        tuned_document("ls", "/data/results.sqlite", rows),
        tuned_document("verify", "/data/results.sqlite", verified),
        tuned_document("rm", "/data/results.sqlite", rows[:1]),
        tuned_document("export", "/data/results.sqlite", rows),
        tuned_document("ls", "/data/results.sqlite", ()),
    ]


def tuned_row(*, used: bool = True) -> TunedRow:
    """The answer of explain about an entry."""
    reasons = () if used else (Reason("X071", "threads 1 then, 2 now"),)
    text = f"tuned as `{PROBLEM.repro()}`" + ("" if used else ", not used: threads 1 then, 2 now")
    made = "2026-11-25T19:00:00Z"
    digest = "a" * 64 if used else None
    return TunedRow(
        used=used, kernel="cpu:fwd", digest=digest, flags=PROBLEM.repro(), made=made, reasons=reasons, text=text
    )
