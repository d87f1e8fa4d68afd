"""The outcome of a case from the results of both sides, and the exit code of all outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from fmha_cli.domain.counterpart import Reading, Said
from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.parity import Outcome

_EXIT = {
    **dict.fromkeys((Outcome.AGREE_PASS, Outcome.AGREE_UNSUPPORTED, Outcome.NOT_COMPARABLE), ExitCode.OK),
    **dict.fromkeys((Outcome.AGREE_FAIL, Outcome.WE_FAIL, Outcome.THEY_FAIL), ExitCode.WRONG),
    **dict.fromkeys((Outcome.CRASHED, Outcome.TIMED_OUT), ExitCode.FAILED),
    **dict.fromkeys((Outcome.NOT_RUN, Outcome.MISSING_BINARY), ExitCode.ENVIRONMENT),
}
_PRECEDENCE = (ExitCode.INTERRUPTED, ExitCode.WRONG, ExitCode.FAILED, ExitCode.ENVIRONMENT)

WRONG = frozenset({Verdict.WRONG, Verdict.NONDETERMINISTIC, Verdict.HAZARD, Verdict.OUT_OF_BOUNDS, Verdict.MISTRUSTED})
"""Verdicts of a kernel that ran and gave a bad result."""


def judge(verdict: Verdict, reading: Reading) -> Outcome:
    """The outcome of a case that ran, or was meant to run, on both sides. Doubt counts as disagreement."""
    said = reading.said
    if verdict is Verdict.NOT_RUN or said is Said.NO_DEVICE:
        return Outcome.NOT_RUN
    if verdict is Verdict.CRASHED or said is Said.CRASHED:
        return Outcome.CRASHED
    if verdict is Verdict.TIMED_OUT or said is Said.TIMED_OUT:
        return Outcome.TIMED_OUT
    if said in (Said.IGNORED, Said.OTHER):
        return Outcome.NOT_COMPARABLE
    if said is Said.VALID:
        return Outcome.AGREE_PASS if verdict is Verdict.PASSED else Outcome.WE_FAIL
    if verdict is Verdict.PASSED:
        return Outcome.THEY_FAIL
    if said is Said.UNSUPPORTED:
        return Outcome.AGREE_UNSUPPORTED if verdict is Verdict.UNSUPPORTED else Outcome.WE_FAIL
    if said is Said.WRONG:
        return Outcome.AGREE_FAIL if verdict in WRONG else Outcome.THEY_FAIL
    return Outcome.THEY_FAIL


def exit_code_of(outcomes: Iterable[Outcome], *, interrupted: bool = False) -> ExitCode:
    """The exit code of all cases. A run in which nothing could be compared proves nothing, and gives 4."""
    rows = list(outcomes)
    codes = {_EXIT[outcome] for outcome in rows}
    if rows and all(outcome is Outcome.NOT_COMPARABLE for outcome in rows):
        codes.add(ExitCode.ENVIRONMENT)
    if interrupted:
        codes.add(ExitCode.INTERRUPTED)
    return next((code for code in _PRECEDENCE if code in codes), ExitCode.OK)
