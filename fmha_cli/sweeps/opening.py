"""A sweep before its first row: its devices, its plan, and its journal, new or resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import Availability
from fmha_cli.domain.phases import Voice
from fmha_cli.report.parts import RunRow, environment
from fmha_cli.results.journal import Journal, JournalPlaces
from fmha_cli.results.plans import last_of
from fmha_cli.run.builds import build_context, emulation_of, refuse_timing
from fmha_cli.run.input_files import read_input_files
from fmha_cli.run.invocation import parts_of
from fmha_cli.run.journals import refuse_others, spare_file, start_of
from fmha_cli.run.origin import GitRevision, this_host
from fmha_cli.run.request import Context
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.sweeps.folder import LINES, Spec
from fmha_cli.sweeps.places import PlaceKind, WorkerPlace
from fmha_cli.sweeps.plan import SweepPlan, plan_sweep

Found = tuple[tuple[PlaceKind, ...], tuple[WorkerPlace, ...]]


@dataclass(frozen=True)
class Opened:
    """A sweep that can begin.

    Attributes:
        journal: has the records of earlier sessions.
        found: the answers of all backends, of one kind of device after the other.
    """

    plan: SweepPlan
    places: Sequence[WorkerPlace]
    journal: Journal
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
            kinds, devices = find(supervisor)
            plan = planned_sweep(spec, registry, kinds, devices, notify)
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
    found = {name: answer for kind in reversed(kinds) for name, answer in kind.found.items()}
    start = start_of(plan.rows, spec.argv, run, parts)
    places = JournalPlaces(
        store=None if spec.store is None else Path(spec.store),
        spare=spare_file(spec.request, spec.run),
        environment=environment(found),
    )
    past = last_of((folder / LINES, places.spare), places.store, run.id)
    if past is None:
        journal = Journal.create(start, run, places)
    else:
        accept = partial(refuse_others, past[0], plan.rows, anywhere=True)
        journal = Journal.resume(*past, start, places, accept)
    return Opened(plan, devices, stack.enter_context(journal), run, found)


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
