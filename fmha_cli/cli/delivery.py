"""The rows of ``run``, ``validate`` and ``bench``: how they are kept and printed, and the exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from fmha_cli.bench.compare import Speed
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.invariance import deliver_invariance
from fmha_cli.cli.problems import ProblemPoint
from fmha_cli.cli.progress import ProgressLine
from fmha_cli.cli.request import request_of
from fmha_cli.cli.store import kept_in, tuned_of
from fmha_cli.cli.streams import UNKNOWN
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.domain.workload import Workload
from fmha_cli.report.documents.pages import EnvironmentLine
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.documents.workloads import WorkloadRow, refused_rows
from fmha_cli.report.form import Format
from fmha_cli.report.parts import Environment, environment
from fmha_cli.report.places import PlaceEffect
from fmha_cli.report.record import Record
from fmha_cli.report.target import Unread
from fmha_cli.run.events import Done, Ended, Event, Found, Planned, Started
from fmha_cli.run.process import WorkerProcess
from fmha_cli.run.request import Command
from fmha_cli.run.rows import Row
from fmha_cli.run.run import Run


def deliver_rows(
    call: CliCall, points: Sequence[ProblemPoint], worker: WorkerProcess | None, workload: Workload | None = None
) -> int:
    """Run every row, and print it, also after Ctrl-C. Returns the exit code."""
    if call.settings.on("invariant"):
        return deliver_invariance(call, points, worker)
    delivery = Delivery(call, refused_rows(workload))
    with call.console.progress(call.command) as progress:
        run = _run(call, points, worker=worker, voice=call.console.voice(progress), store=kept_in(call))
        ended = _deliver(run, delivery, progress)
    if call.output.gone and call.output.streams:
        return int(exit_code(delivery.streamed, interrupted=False))  # nobody reads: the rows so far, and no word
    if delivery.failed is not None:
        raise delivery.resumable(ended.journal)
    if call.settings.on("plot"):
        _plot(call, ended.records)
    if ended.interrupted:
        call.console.error("interrupted")
        if ended.journal is not None:
            call.console.error(f"  = help: `{resume_line(call.argv, ended.journal)}` continues")
    for text in (*ended.unwritten, *([] if ended.outside is None else [ended.outside])):
        call.console.warn(text)
    code = exit_code(ended.records, interrupted=ended.interrupted)
    lost = ended.unwritten and code in (ExitCode.OK, ExitCode.UNSUPPORTED)
    return int(ExitCode.ENVIRONMENT if lost else code)


def _run(call: CliCall, points: Sequence[ProblemPoint], **more: Any) -> Run:
    """The run of a command over its points; ``more`` as ``Run`` takes it."""
    problems, layers = [point.problem for point in points], [point.layer for point in points]
    request = request_of(call, Command(call.command))
    return Run(problems, request, call.registry, layers=layers, tuned=tuned_of(call), **more)


def _deliver(run: Run, delivery: Delivery, progress: ProgressLine) -> Ended:
    """Take a run to its end, which Ctrl-C or an output that nobody reads may bring near."""
    rows: Sequence[Row] = ()
    told = 0

    def take(event: Event) -> None:
        nonlocal rows, told
        match event:
            case Found():
                delivery.found(event.availability)
            case Planned():
                rows = event.rows
            case Started():
                progress(event.done, len(rows), rows[event.numbers[0]].problem.repro())
            case Done():
                delivery.record(event.record)
                told += 1
                progress(told, len(rows), rows[event.number].problem.repro())
            case Ended():
                delivery.end(event)

    try:
        return run.finish(take)
    except Unread:
        assert run.ended is not None
        delivery.end(run.ended)
        return run.ended


def _plot(call: CliCall, records: Sequence[Record]) -> None:
    """Draw the rows below the table; on stderr where stdout or the file of ``-o`` has another format."""
    from fmha_cli.pages.terminal import terminal_plot  # 20 ms

    if call.output.form is Format.TABLE and call.output.path is None:
        call.output.print(terminal_plot(records, call.output.width or UNKNOWN, color=call.color))
    else:
        call.console.draw(terminal_plot(records, call.console.width or UNKNOWN, color=call.console.color))


class Delivery:
    """Prints the rows of a walk: each at once (``--jsonl`` on stdout), or all in one document at
    the end.

    Args:
        refused: the calls of a workload that have no row.

    Attributes:
        streamed: the records that were printed at once.
        failed: why the output could not be written.
    """

    def __init__(self, call: CliCall, refused: Sequence[WorkloadRow] = ()) -> None:
        self._call, self._refused = call, refused
        self._found: Mapping[str, Availability] = {}
        self._environment: Environment | None = None
        self.streamed: list[Record] = []
        self.failed: EnvironmentProblem | None = None

    def found(self, found: Mapping[str, Availability]) -> None:
        """Take the answers of the backends, which are the environment of all rows."""
        self._found, self._environment = found, environment(found)

    def record(self, record: Record) -> None:
        """Raises ``Unread``: the rows have nowhere to go."""
        if self._call.output.streams:
            self.streamed.append(record)
            try:
                self._row(record)
            except EnvironmentProblem as fault:
                self.failed = fault
                raise Unread from fault
            if self._call.output.gone:
                raise Unread

    def _row(self, record: Record) -> None:
        """Print a row, and before the first one the environment. Raises EnvironmentProblem: X040."""
        if self._environment is not None:
            self._call.output.row(EnvironmentLine(environment=self._environment))
            self._environment = None
        self._call.output.row(record)

    def end(self, ended: Ended) -> None:
        """Raises EnvironmentProblem: X040, the output cannot be written; the run can be resumed."""
        before = self.failed
        self.all(ended.records)
        if self.failed is not before:
            raise self.resumable(ended.journal)

    def all(self, records: Sequence[Record], places: Sequence[PlaceEffect] = ()) -> None:
        """Print every record that was not printed at once. ``failed`` says what went wrong.

        Args:
            places: how the devices and hosts of a sweep compare.
        """
        output = self._call.output
        if self.failed is not None or output.gone:
            return
        try:
            if output.streams:
                told = {id(record) for record in self.streamed}
                for record in records:
                    if id(record) not in told:
                        self._row(record)
            else:
                output.document(report_document(records, environment(self._found), None, places, self._refused))
        except EnvironmentProblem as fault:
            self.failed = fault

    def resumable(self, journal: str | None) -> EnvironmentProblem:
        """The failure, with the command line that prints the rows without running them again."""
        fault = self.failed
        assert fault is not None
        if journal is not None:
            line = f"`{resume_line(self._call.argv, journal)}` continues; the finished rows are kept"
            fault.help = f"{fault.help}; then {line}" if fault.help else line
        return fault


def resume_line(argv: Sequence[str], journal: str) -> str:
    """The command line that resumes a journal, which belongs to one round of ``--watch``."""
    words = iter(argv)
    kept = []
    for word in words:
        if word in ("--journal", "--resume"):
            next(words, None)
        elif word != "--watch" and not word.startswith(("--journal=", "--resume=")):
            kept.append(word)
    return shlex.join(("fmha", *kept, "--resume", journal))


def dry_run(call: CliCall, points: Sequence[ProblemPoint], workload: Workload | None = None) -> int:
    """Show every row with its kernel and stages, and with launches if the backend can show them. Nothing runs, so
    NOT_RUN is not a failure. Kernels are built only to show their launches; without a compiler the exit code is 4."""
    run = _run(call, points, voice=Voice(call.console.say))
    found, planned, ended = cast(tuple[Found, Planned, Ended], tuple(run))
    records, missing = ended.records, ended.missing
    refused = refused_rows(workload)
    call.output.document(report_document(records, environment(found.availability), missing, refused=refused))
    if missing is not None:
        call.console.error(missing.render())
        return int(missing.exit_code)
    failed = [r.verdict for r in records if r.verdict not in (Verdict.NOT_RUN, Verdict.UNSUPPORTED)]
    if failed:
        return int(exit_code_of(failed))
    if any(row.absent for row in planned.rows):
        return int(ExitCode.ENVIRONMENT)
    unsupported = [r for r in records if r.verdict is Verdict.UNSUPPORTED]
    return int(ExitCode.UNSUPPORTED if len(unsupported) == len(records) else ExitCode.OK)


def exit_code(records: Iterable[Record], *, interrupted: bool) -> ExitCode:
    """The exit code of the rows; a regression is as bad as WRONG."""
    rows = list(records)
    verdicts = [r.verdict for r in rows]
    if any(r.baseline is not None and r.baseline.speed is Speed.SLOWER for r in rows):
        verdicts.append(Verdict.WRONG)
    return exit_code_of(verdicts, interrupted=interrupted)
