"""A sweep before its first row: its devices, its plan, and its journal, new or resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli import __version__
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import Availability
from fmha_cli.domain.journal import JournalRow as AskedRow
from fmha_cli.domain.journal import Start
from fmha_cli.domain.phases import Voice
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.journal import Journal
from fmha_cli.run.builds import build_context, emulation_of, refuse_timing
from fmha_cli.run.input_files import read_input_files
from fmha_cli.run.invocation import parts_of
from fmha_cli.run.journals import past_record
from fmha_cli.run.origin import GitRevision, this_host
from fmha_cli.run.request import Context
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.sweeps.folder import JOURNAL, Spec
from fmha_cli.sweeps.places import PlaceKind, WorkerPlace
from fmha_cli.sweeps.plan import SweepPlan, plan_sweep

Found = tuple[tuple[PlaceKind, ...], tuple[WorkerPlace, ...]]


@dataclass(frozen=True)
class Opened:
    """A sweep that can begin.

    Attributes:
        past: records of earlier sessions, by row key.
        found: the answers of all backends, of one kind of device after the other.
    """

    plan: SweepPlan
    places: Sequence[WorkerPlace]
    journal: Journal
    past: Mapping[str, Record]
    run: RunRow
    found: Mapping[str, Availability]


def planned_sweep(
    spec: Spec,
    registry: Registry,
    kinds: Sequence[PlaceKind],
    places: Sequence[WorkerPlace],
    notify: Callable[[str], None],
) -> SweepPlan:
    """The plan of the request.

    Raises:
        UsageError, EnvironmentProblem, UnsupportedError: nothing runs.
    """
    for kind in kinds:
        refuse_timing(replace(spec.request, device=kind.first))
    return plan_sweep(
        spec.problems, spec.layers, spec.request, registry, kinds, Voice(notify), places, spec.overlap, spec.tuned
    )


def open_sweep(
    spec: Spec,
    registry: Registry,
    find: Callable[[Supervisor], Found],
    folder: Path,
    notify: Callable[[str], None],
    stack: ExitStack,
) -> Opened:
    """Plan all rows and write them into the journal, or check that those of its journal are the same.

    Args:
        find: the devices; a supervisor's worker may probe.
        folder: of the sweep. stack: closes the journal.

    Raises:
        UsageError: X030, the journal belongs to another invocation: another version, device, driver, file or option.
        EnvironmentProblem, UnsupportedError: nothing runs.
    """
    with GitRevision() as revision:
        with Supervisor() as supervisor:
            kinds, places = find(supervisor)
            plan = planned_sweep(spec, registry, kinds, places, notify)
            parts = _parts(plan, registry, supervisor, notify)
        revision.wait()
        run = RunRow(
            id=spec.run,
            command=spec.request.command.value,
            started=spec.started,
            label=spec.request.label,
            revision=revision.commit,
            dirty=revision.dirty,
        )
    rows = plan.rows
    start = Start(
        fmha=__version__,
        argv=spec.argv,
        run=spec.run,
        started=spec.started,
        parts=parts,
        rows=tuple(AskedRow(key=row.key, what=row.what) for row in rows),
    )
    path, past = folder / JOURNAL, dict[str, Record]()
    if path.exists():
        journal, history = Journal.resume(path, start)
        stack.enter_context(journal)
        past = {
            row.key: past_record(path, row, history.done[row.key], anywhere=True)
            for row in rows
            if row.key in history.done
        }
    else:
        journal = stack.enter_context(Journal.create(path, start))
    found = {name: answer for kind in reversed(kinds) for name, answer in kind.found.items()}
    return Opened(plan, places, journal, past, run, found)


def _parts(
    plan: SweepPlan, registry: Registry, supervisor: Supervisor, notify: Callable[[str], None]
) -> dict[str, str]:
    """The identity of the invocation: that of each kind of device, in one table."""
    parts: dict[str, str] = {}
    host = this_host()
    for number, kind in enumerate(plan.kinds):
        request = plan.request_of(number)
        building = build_context(request, Voice(notify))
        rows = [row for unit in plan.units if unit.kind == number for row in unit.rows]
        runs = any(row.choice is not None and row.choice.runnable for row in rows)
        emulation = emulation_of(request, registry, building) if runs else None
        context = Context(
            request=request, registry=registry, supervisor=supervisor, building=building, emulation=emulation
        )
        own = parts_of(rows, context, read_input_files(request.files), kind.found, host)
        here = f" ({kind.first})" if number else ""
        parts |= {name if parts.get(name, text) == text else f"{name}{here}": text for name, text in own.items()}
    return parts
