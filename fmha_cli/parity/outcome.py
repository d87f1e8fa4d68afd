"""The outcome of a case from the results of both sides, and the exit code of all outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from fmha_cli.domain.counterpart import Reading, Said
from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.parity import ParityOutcome

_EXIT = {
    **dict.fromkeys(
        (ParityOutcome.AGREE_PASS, ParityOutcome.AGREE_UNSUPPORTED, ParityOutcome.NOT_COMPARABLE), ExitCode.OK
    ),
    **dict.fromkeys((ParityOutcome.AGREE_FAIL, ParityOutcome.WE_FAIL, ParityOutcome.THEY_FAIL), ExitCode.WRONG),
    **dict.fromkeys((ParityOutcome.CRASHED, ParityOutcome.TIMED_OUT), ExitCode.FAILED),
    **dict.fromkeys((ParityOutcome.NOT_RUN, ParityOutcome.MISSING_BINARY), ExitCode.ENVIRONMENT),
}
_PRECEDENCE = (ExitCode.INTERRUPTED, ExitCode.WRONG, ExitCode.FAILED, ExitCode.ENVIRONMENT)

WRONG = frozenset(verdict for verdict in Verdict if verdict.exit_code is ExitCode.WRONG)
"""Verdicts of a kernel that ran and gave a bad result."""


def judge(verdict: Verdict, reading: Reading) -> ParityOutcome:
    """The outcome of a case that ran, or was meant to run, on both sides. Doubt counts as disagreement."""
    said = reading.said
    if verdict is Verdict.NOT_RUN or said is Said.NO_DEVICE:
        return ParityOutcome.NOT_RUN
    if verdict is Verdict.CRASHED or said is Said.CRASHED:
        return ParityOutcome.CRASHED
    if verdict is Verdict.TIMED_OUT or said is Said.TIMED_OUT:
        return ParityOutcome.TIMED_OUT
    if said in (Said.IGNORED, Said.OTHER):
        return ParityOutcome.NOT_COMPARABLE
    if said is Said.VALID:
        return ParityOutcome.AGREE_PASS if verdict is Verdict.PASSED else ParityOutcome.WE_FAIL
    if verdict is Verdict.PASSED:
        return ParityOutcome.THEY_FAIL
    if said is Said.UNSUPPORTED:
        return ParityOutcome.AGREE_UNSUPPORTED if verdict is Verdict.UNSUPPORTED else ParityOutcome.WE_FAIL
    if said is Said.WRONG:
        return ParityOutcome.AGREE_FAIL if verdict in WRONG else ParityOutcome.THEY_FAIL
    return ParityOutcome.THEY_FAIL


def exit_code_of(outcomes: Iterable[ParityOutcome], *, interrupted: bool = False) -> ExitCode:
    """The exit code of all cases. A run in which nothing could be compared proves nothing, and gives 4."""
    rows = list(outcomes)
    codes = {_EXIT[outcome] for outcome in rows}
    if rows and all(outcome is ParityOutcome.NOT_COMPARABLE for outcome in rows):
        codes.add(ExitCode.ENVIRONMENT)
    if interrupted:
        codes.add(ExitCode.INTERRUPTED)
    return next((code for code in _PRECEDENCE if code in codes), ExitCode.OK)
