"""The walk over all rows: probe, select and plan; then the ``Walker`` takes them on. Every requested row gets a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.device import Availability
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.phases import Tell, silent
from fmha_cli.domain.problem import Problem
from fmha_cli.execution.supervisor import Supervisor
from fmha_cli.report.record import Record
from fmha_cli.walk.baseline import Conditions
from fmha_cli.walk.builds import build_context
from fmha_cli.walk.completeness import generated, refuse_misfits
from fmha_cli.walk.emulation import emulation_of, refuse_timing
from fmha_cli.walk.given_cache import stored
from fmha_cli.walk.head_start import HeadStart
from fmha_cli.walk.host import this_host
from fmha_cli.walk.input_files import InputFiles, read_input_files
from fmha_cli.walk.invocation import parts_of
from fmha_cli.walk.journals import open_journal
from fmha_cli.walk.notices import notices
from fmha_cli.walk.origin import Origin
from fmha_cli.walk.outputs import check_outputs
from fmha_cli.walk.probing import probe_backends
from fmha_cli.walk.request import Command, Context, OnOutputs, Request
from fmha_cli.walk.revision import Revision
from fmha_cli.walk.rows import Row, plan_rows
from fmha_cli.walk.tuning.choice import EntriesOf
from fmha_cli.walk.tuning.choosing import chooser_of
from fmha_cli.walk.walker import Progress, Walker
from fmha_cli.walk.watch import Watch


@dataclass(frozen=True)
class Outcome:
    """The outcome of a walk.

    Attributes:
        records: one for each row, in the order of the rows.
        availability: of every probed backend.
        journal: the file to resume from; None if every row is done.
        unwritten: files of ``--out`` and ``--save-failures`` that could not be written, each with the reason.
    """

    records: tuple[Record, ...]
    interrupted: bool
    availability: Mapping[str, Availability]
    journal: str | None = None
    unwritten: tuple[str, ...] = ()


def run_points(
    points: Sequence[Problem],
    request: Request,
    registry: Registry,
    *,
    layers: Sequence[Layer | None] = (),
    given: InputFiles | None = None,
    tuned: EntriesOf | None = None,
    on_found: Callable[[Mapping[str, Availability]], None] = lambda found: None,
    on_record: Callable[[Record], None] = lambda record: None,
    deliver: Callable[[Outcome], None] = lambda outcome: None,
    on_outputs: OnOutputs = lambda index, outputs: None,
    notify: Callable[[str], None] = lambda text: None,
    progress: Progress = lambda done, total, what: None,
    phase: Tell = silent,
    watch: Watch | None = None,
    ahead: HeadStart | None = None,
) -> Outcome:
    """Run every problem.

    Args:
        layers: the layers of a model for which each point stands; empty without a model.
        given: the tensors that are not filled, if they do not come from the files of the request.
        tuned: what ``fmha tune`` remembered of a family of problems; None without a store of it.
        on_found: receives the answers of the backends before the first record.
        on_record: receives each record as soon as it is complete; may raise ``StopWalk``.
        deliver: receives the outcome, with its journal, before the journal of a complete walk is removed. If it raises,
            the journal stays.
        on_outputs: receives the outputs of a row that was judged, with the row's number from 0.
        progress: rows done, rows in all, the flags of the row that runs.
        phase: takes the phases of the work.
        watch: the hooks of a sweep worker.
        ahead: has a worker that was started before.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: before anything runs.
    """
    watch = watch or Watch()
    check_outputs(points, request)
    refuse_timing(request)
    files = read_input_files(request.files) if given is None else given
    points = [stored(point, files.arrays) for point in points]
    refuse_misfits(points, files)
    baseline = None
    if request.baseline:
        from fmha_cli.walk.baseline_file import load_baseline  # no other walk reads a report

        baseline = load_baseline(Path(request.baseline))
    with ExitStack() as stack:
        revision = stack.enter_context(Revision())
        supervisor = stack.enter_context(Supervisor(watch.held, None if ahead is None else ahead.take()))
        supervisor.start()  # it starts while rows are planned and kernels are built
        found = probe_backends(registry, wanted_backends(registry, request.wanted), supervisor, request.device)
        on_found(found)
        chooser = chooser_of(request, registry, found, tuned, notify)
        rows = plan_rows(points, request, registry, found, notify, layers, chooser)
        watch.planned(rows)
        check_outputs(points, request, len(rows))
        for line in notices(rows, registry, found, request):
            notify(line)
        building = build_context(request, notify, phase)
        runs = not request.dry_run and any(row.choice is not None and row.choice.runnable for row in rows)
        emulation = emulation_of(request, registry, building) if runs else None
        context = Context(
            request=_fitting_fills(request, files, rows),
            registry=registry,
            supervisor=supervisor,
            building=building,
            emulation=emulation,
            notify=notify,
            phase=phase,
            on_outputs=on_outputs,
            dbias_shape=files.arrays["bias"].shape if "bias" in files.arrays else None,
        )
        if baseline is not None:
            planned = _timed(rows, context)
            for line in baseline.coverage(planned):
                notify(line)
            baseline = baseline.among(planned)
        origin = Origin.new(this_host(), request)
        parts = partial(parts_of, rows, context, files, found, origin.host)
        journal, past = open_journal(rows, request, origin.run, parts, stack) if watch.journalled else (None, {})
        walk = Walker(
            context=context,
            origin=origin if journal is None else origin.within(journal.start),
            revision=revision,
            rows=rows,
            files=files,
            baseline=baseline,
            journal=journal,
            past={**past, **{rows[number].key: record for number, record in watch.past.items()}},
            watch=watch,
            on_record=on_record,
            progress=progress,
        )
        interrupted = walk.go()
    kept = None if journal is None else str(journal.path)
    outcome = Outcome(walk.complete(), interrupted, found, kept, tuple(walk.executor.unwritten))
    deliver(outcome)
    if journal is not None and not interrupted and not (request.resume or request.journal):
        journal.path.unlink(missing_ok=True)
    return outcome if interrupted else replace(outcome, journal=None)


def _timed(rows: Sequence[Row], context: Context) -> list[tuple[Conditions, str]]:
    """The conditions of every row that can be timed, and the name of its kernel."""
    return [
        (
            Conditions(
                problem=canonical_json(row.problem.to_dict()),
                backend=row.choice.kernel.backend,
                device=row.choice.device.id,
                arch=row.choice.kernel.arch,
                cache=row.cache.value,
                threads=context.threads,
            ),
            row.choice.kernel.name,
        )
        for row in rows
        if row.choice is not None and row.choice.runnable
    ]


def _fitting_fills(request: Request, files: InputFiles, rows: Sequence[Row]) -> Request:
    """Where no tensor is generated there is only one data set, whichever fills were requested."""
    if request.command is not Command.VALIDATE or not files.arrays:
        return request
    whole = not any(generated(row.problem, files) for row in rows if row.choice is not None)
    return replace(request, fills=request.fills[:1]) if whole else request
