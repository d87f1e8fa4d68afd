"""What ``run``, ``validate`` and ``bench`` share: the walk over all points, its rows, its exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from fmha_cli.cli.call import Call
from fmha_cli.errors import ExitCode
from fmha_cli.measure.compare import Speed
from fmha_cli.report.record import Record
from fmha_cli.verdict import Verdict, exit_code_of
from fmha_cli.walk.request import Command


def walk(call: Call, command: Command) -> int:
    """Do all points; every row is printed, also after Ctrl-C.

    Raises:
        FmhaError: before the first row: a usage error, a missing environment.
    """
    from fmha_cli.cli.problems import problems_of
    from fmha_cli.cli.request import request_of
    from fmha_cli.report.document import report_document
    from fmha_cli.walk.run import run_points

    problems = problems_of(call)
    request = request_of(call, command, problems)
    on_record = (lambda record: call.output.row(record.to_dict())) if call.output.streams else (lambda record: None)
    with call.voice.progress(call.command) as progress:
        outcome = run_points(
            problems, request, call.registry, on_record=on_record, notify=call.voice.say, progress=progress
        )
    call.output.document(report_document(outcome.records, outcome.environment))
    if outcome.interrupted:
        call.voice.error("interrupted")
        if outcome.journal is not None:
            call.voice.error(f"  = help: `fmha {shlex.join((*call.argv, '--resume', str(outcome.journal)))}` goes on")
    return int(exit_code(outcome.records, interrupted=outcome.interrupted, dry=request.dry_run))


def exit_code(records: Iterable[Record], *, interrupted: bool, dry: bool) -> ExitCode:
    """The exit code of the rows. What a dry run did not run is as asked for; a regression is as bad as WRONG."""
    rows = list(records)
    verdicts = [Verdict.UNCHECKED if dry and r.verdict is Verdict.NOT_RUN else r.verdict for r in rows]
    if any(r.baseline is not None and r.baseline.speed is Speed.SLOWER for r in rows):
        verdicts.append(Verdict.WRONG)
    return exit_code_of(verdicts, interrupted=interrupted)
