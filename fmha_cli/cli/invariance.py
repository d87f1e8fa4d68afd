"""``fmha validate --invariant``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.problems import ProblemPoint
from fmha_cli.cli.request import request_of
from fmha_cli.cli.store import tuned_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.fields import asks_fill
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.report.documents.invariance import InvarianceOutcome, InvariantRow, invariance_document
from fmha_cli.report.parts import environment
from fmha_cli.report.target import Unread
from fmha_cli.run.invariance import InvarianceProbe, blank_row
from fmha_cli.run.process import WorkerProcess
from fmha_cli.run.request import Request


def deliver_invariance(call: CliCall, points: Sequence[ProblemPoint], worker: WorkerProcess | None) -> int:
    """Print a row for each property, also after Ctrl-C. Returns the exit code.

    Raises:
        UsageError: E002, a file of tensors, or several fills.
    """
    request, rows, interrupted = _request(call), list[InvariantRow](), False
    left = [(point.problem, property) for point in points for property in Invariance]
    with (
        call.console.progress("validate") as progress,
        InvarianceProbe(request, call.registry, call.console.voice(progress), tuned_of(call), worker) as probe,
    ):

        def tell(row: InvariantRow) -> None:
            rows.append(row)
            if call.output.streams:
                call.output.row(row)
                if call.output.gone:
                    raise Unread

        try:
            for number, point in enumerate(points):
                progress(number, len(points), point.problem.repro())
                for row in probe.rows_of(point.problem):
                    left = [one for one in left if one != (point.problem, row.property)]
                    tell(row)
        except Unread:
            pass
        except KeyboardInterrupt:
            interrupted = True
            for problem, property in left:
                tell(blank_row(problem, request, property, InvarianceOutcome.NOT_RUN, "interrupted before this row"))
    if not call.output.streams:
        call.output.document(invariance_document(rows, environment(probe.found)))
    if interrupted:
        call.console.error("interrupted")
    return int(exit_code_of(_verdicts(rows), interrupted=interrupted))


def _verdicts(rows: Sequence[InvariantRow]) -> list[Verdict]:
    """Verdicts with the effects of the rows: of each property, and of the sequence alone."""
    found = [row.outcome.verdict(row.verdict or Verdict.NOT_RUN) for row in rows]
    return found + [row.verdict for row in rows if row.verdict is not None]


def _request(call: CliCall) -> Request:
    request = request_of(call)
    given = next((key for key, spec in request.files.items() if not asks_fill(key, spec)), None)
    if given is not None:
        flag = f"--{given.replace('_', '-')}"
        why = "a sequence stands in other tensors, which are generated"
        raise UsageError(f"--invariant and {flag} FILE", code="E002", where=flag, why=why, help=f"leave {flag} out")
    named = bool(call.settings.many("fill"))
    if named and len(request.fills) > 1:
        what, help = f"--invariant with {len(request.fills)} fills", "one fill: what is compared does not need more"
        raise UsageError(what, code="E002", where="--fill", help=help)
    return replace(request, fills=request.fills if named else FILLS[:1], peak="spec")
