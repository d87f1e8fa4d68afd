"""``fmha validate --invariant``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.problems import ProblemPoint
from fmha_cli.cli.request import request_of
from fmha_cli.cli.settings import FLAG
from fmha_cli.cli.store import tuned_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.report.documents.invariance import InvariantRow, invariance_document
from fmha_cli.report.parts import environment
from fmha_cli.report.target import Unread
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.request import Request

_OTHER = (
    *("q", "k", "v", "do", "bias_file", "block_table", "k_new", "v_new", "out", "save_failures", "all_kernels"),
    *("dry_run", "watch", "resume", "journal", "label"),
)
"""Options that say nothing about these rows, which are about generated tensors and are kept nowhere."""


def deliver_invariance(call: CliCall, points: Sequence[ProblemPoint]) -> int:
    """Print a row for each property, also after Ctrl-C. Returns the exit code.

    Raises:
        UsageError: E002, an option that --invariant does not take.
    """
    _refuse_options(call)
    request, rows, interrupted = _request(call), list[InvariantRow](), False
    with call.console.progress("validate") as progress:
        with InvarianceProbe(request, call.registry, call.console.voice(progress), tuned_of(call)) as probe:
            try:
                for number, point in enumerate(points):
                    progress(number, len(points), point.problem.repro())
                    for row in probe.rows_of(point.problem):
                        rows.append(row)
                        if call.output.streams:
                            call.output.row(row)
                            if call.output.gone:
                                raise Unread
            except Unread:
                pass
            except KeyboardInterrupt:
                interrupted = True
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
    return replace(request, fills=request.fills[:1] if call.settings.many("fill") else FILLS[:1], peak="spec")


def _refuse_options(call: CliCall) -> None:
    given = call.settings.values
    for key in _OTHER:
        if key in given and given[key].source == FLAG and given[key].value is not False:
            flag = f"--{key.replace('_', '-')}"
            why = "it compares launches of generated tensors, and keeps no rows"
            raise UsageError(f"--invariant and {flag}", code="E002", where=flag, why=why, help=f"leave {flag} out")
    fills = [name for text in call.settings.many("fill") for name in text.split(",")]
    if len(fills) > 1:
        what, help = f"--invariant with {len(fills)} fills", "one fill; the data do not change what is compared"
        raise UsageError(what, code="E002", where="--fill", help=help)
