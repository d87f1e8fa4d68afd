"""The common part of ``run``, ``validate`` and ``bench``: the walk over all points, its rows, its exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from fmha_cli.cli.call import Call
from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.measure.compare import Speed
from fmha_cli.report.record import Record
from fmha_cli.walk.request import Command, Request


def walk_points(call: Call) -> int:
    """Do all points of the command that was called; every row is printed, also after Ctrl-C.

    Raises:
        FmhaError: before the first row: a usage error, a missing environment.
    """
    from fmha_cli.cli.asked import problems_of, request_of
    from fmha_cli.report.documents.report import report_document
    from fmha_cli.report.parts import environment
    from fmha_cli.walk.run import run_points

    problems = problems_of(call)
    request = request_of(call, Command(call.command))
    if request.dry_run:
        return dry_run(call, problems, request)
    streamed: list[Record] = []

    def on_record(record: Record) -> None:
        if call.output.streams:
            streamed.append(record)
            call.output.row(record.to_dict())

    with call.console.progress(call.command) as progress:
        outcome = run_points(
            problems, request, call.registry, on_record=on_record, notify=call.console.say, progress=progress
        )
    if call.output.streams:
        told = {id(record) for record in streamed}
        for record in outcome.records:
            if id(record) not in told:
                call.output.row(record.to_dict())
    else:
        call.output.document(report_document(outcome.records, environment(outcome.availability)))
    if outcome.interrupted:
        call.console.error("interrupted")
        if outcome.journal is not None:
            call.console.error(f"  = help: `{resume_line(call.argv, outcome.journal)}` continues")
    return int(exit_code(outcome.records, interrupted=outcome.interrupted))


def resume_line(argv: Sequence[str], journal: str) -> str:
    """The command line that resumes a journal."""
    words = iter(argv)
    kept = []
    for word in words:
        if word in ("--journal", "--resume"):
            next(words, None)
        elif not word.startswith(("--journal=", "--resume=")):
            kept.append(word)
    return shlex.join(("fmha", *kept, "--resume", journal))


def dry_run(call: Call, problems: Sequence[Problem], request: Request) -> int:
    """Show every row with its kernel and stages, and with launches if the backend can show them. Nothing runs, so
    NOT_RUN is not a failure. Kernels are built only to show their launches; without a compiler the exit code is 4."""
    from fmha_cli.cli.asked import found_by
    from fmha_cli.report.documents.report import report_document
    from fmha_cli.report.parts import environment
    from fmha_cli.walk.dry_run import dry_fates
    from fmha_cli.walk.emulation import refuse_timing
    from fmha_cli.walk.records import record_of
    from fmha_cli.walk.rows import plan_rows
    from fmha_cli.walk.tensor_io import check_out

    check_out(problems, request)
    refuse_timing(request)
    found = found_by(call, request.wanted)
    rows = plan_rows(problems, request, call.registry, found)
    fates, missing = dry_fates(rows, request, call.registry, call.console.say)
    pairs = zip(rows, fates, strict=True)
    records = [record_of(row, fate, request, call.registry, request.files) for row, fate in pairs]
    call.output.document(report_document(records, environment(found), missing))
    if missing is not None:
        call.console.error(missing.render())
        return int(missing.exit_code)
    failed = [r.verdict for r in records if r.verdict not in (Verdict.NOT_RUN, Verdict.UNSUPPORTED)]
    if failed:
        return int(exit_code_of(failed))
    unsupported = [r for r in records if r.verdict is Verdict.UNSUPPORTED]
    return int(ExitCode.UNSUPPORTED if len(unsupported) == len(records) else ExitCode.OK)


def exit_code(records: Iterable[Record], *, interrupted: bool) -> ExitCode:
    """The exit code of the rows; a regression is as bad as WRONG."""
    rows = list(records)
    verdicts = [r.verdict for r in rows]
    if any(r.baseline is not None and r.baseline.speed is Speed.SLOWER for r in rows):
        verdicts.append(Verdict.WRONG)
    return exit_code_of(verdicts, interrupted=interrupted)
