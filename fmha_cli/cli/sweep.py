"""``fmha sweep``: many rows over many devices, resumable."""

from __future__ import annotations

import math
import re
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.sweep import CHUNK, OPTIONS, RESUME, SILENCE_S, TIME_LIMIT, TLS, TRIES
from fmha_cli.cli.delivery import Delivery, exit_code
from fmha_cli.cli.options import ROWS
from fmha_cli.cli.problems import listed_points, named_file, points_of, workload_of
from fmha_cli.cli.request import request_of
from fmha_cli.cli.settings import FLAG
from fmha_cli.cli.store import kept_in, tuned_of
from fmha_cli.cli.sweep_board import SweepBoard
from fmha_cli.cli.worker import tls_of
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, UsageError
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.documents.workloads import refused_rows
from fmha_cli.report.lines import counted
from fmha_cli.report.parts import environment
from fmha_cli.run.input_files import read_input_files
from fmha_cli.run.origin import now
from fmha_cli.run.records import Outcome, record_of
from fmha_cli.run.refusals import refuse_misfits
from fmha_cli.run.request import Command as Step
from fmha_cli.run.tuned_choice import TUNED, chooses, kept_of
from fmha_cli.sweeps.addresses import Where, parse_scheduler
from fmha_cli.sweeps.driver import SweepDriver, SweepEnd
from fmha_cli.sweeps.effects import place_effects
from fmha_cli.sweeps.folder import Spec, named_sweep, read_spec, remove, write_spec
from fmha_cli.sweeps.leases import state_folder
from fmha_cli.sweeps.opening import open_sweep
from fmha_cli.sweeps.places import parse_devices
from fmha_cli.sweeps.spreading import Finder

_PLAIN = {option.key for option in (*ROWS, *TLS, TIME_LIMIT, RESUME)}
"""What may accompany ``--resume``."""


def sweep(call: CliCall) -> int:
    """Run a sweep, or finish one, and print every row, even after Ctrl-C."""
    states = state_folder(call.environ)
    if name := call.settings.text("resume"):
        _refuse_beside_resume(call)
        folder = named_sweep(states, name)
        return _carry_out(call, read_spec(folder), folder, new=False)
    spec = _spec(call)
    if call.settings.on("dry_run"):
        return _show(call, spec)
    return _carry_out(call, spec, write_spec(states, spec), new=True)


def _refuse_beside_resume(call: CliCall) -> None:
    strange = sorted(
        option.key for option in OPTIONS if option.key in call.settings.values and option.key not in _PLAIN
    )
    told = [key for key in strange if call.settings.values[key].source == FLAG]
    if told:
        why = "what was asked for is kept with the sweep"
        where = f"--{told[0].replace('_', '-')}"
        raise UsageError(f"--resume beside {where}", code="E002", where=where, why=why, help="fmha sweep --resume RUN")


def _spec(call: CliCall) -> Spec:
    """What the command line asks for.

    Raises:
        UsageError: see ``points_of`` and ``request_of``; a malformed ``--devices``.
    """
    devices = call.settings.text("devices") or "all"
    step = Step(call.settings.text("step") or Step.BENCH)
    scheduler = call.settings.text("scheduler") or "local"
    address = parse_scheduler(scheduler, tls=tls_of(call) is not None)
    local = address.where is Where.LOCAL
    parse_devices(devices, shared=local and step is not Step.BENCH)
    listed = call.settings.text("problems")
    workload = workload_of(call)
    points = points_of(call, workload) if listed is None else listed_points(call, Path(listed))
    layers = tuple(point.layer for point in points)
    file = named_file(call)
    if not local and file is not None:
        why = "the workers are on other machines, and have other files"
        raise UsageError(f"{file} with --scheduler", code="E002", where="--scheduler", why=why)
    request = replace(request_of(call, step), dry_run=False)
    refuse_misfits([point.problem for point in points], read_input_files(request.files))
    _refuse_tuned_afar(call, local=local)
    store = kept_in(call)
    return Spec(
        run=uuid4().hex,
        started=now(),
        argv=call.argv,
        request=request,
        points=tuple(point.problem.repro() for point in points),
        layers=layers if any(layers) else (),
        devices=devices,
        scheduler=scheduler,
        chunk=call.settings.size("chunk", CHUNK, 1),
        retries=call.settings.size("retries", TRIES, 0),
        silence_s=call.settings.number("silence", SILENCE_S),
        overlap=_overlap(call),
        store=None if store is None else str(store),
        refused=refused_rows(workload),
        tuned=kept_of((point.problem for point in points), tuned_of(call) if local and chooses(request) else None),
    )


def _refuse_tuned_afar(call: CliCall, *, local: bool) -> None:
    """Without ``--select``, a cluster's workers choose by default.

    Raises:
        UsageError: E002, ``--select tuned`` for workers that may be on other machines.
    """
    if not local and call.settings.text("select") == TUNED:
        why = "a tuned kernel counts on the machine on which it was tuned, and the workers may be on others"
        help = "--select default, or --select KERNEL"
        raise UsageError(
            "--select tuned with --scheduler", code="E002", where=call.settings.where("select"), why=why, help=help
        )


def _overlap(call: CliCall) -> float:
    """The share of ``--overlap``: ``5%`` is 0.05. Raises UsageError: E002, no share."""
    text = call.settings.text("overlap") or "0%"
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", text.strip())
    if match is None or float(match[1]) > 100:
        what = f"--overlap {text}: not a share from 0% to 100%"
        raise UsageError(what, code="E002", where="--overlap", help="e.g. --overlap 5%")
    return float(match[1]) / 100


def _finder(call: CliCall, spec: Spec) -> Finder:
    """Where the workers of a sweep are."""
    tls = tls_of(call)
    address = parse_scheduler(spec.scheduler, tls=tls is not None)
    return Finder(spec, address, tls, call.registry, call.environ)


def _show(call: CliCall, spec: Spec) -> int:
    """Plan everything and run nothing: each row with its kernel, as NOT_RUN."""
    finder = _finder(call, spec)
    try:
        plan, places = finder.planned(call.console.say)
    finally:
        finder.close()
    kernels = {kernel for unit in plan.units for kernel in unit.builds}
    chunks = len(list(plan.chunks(spec.chunk)))
    call.console.say(
        f"{counted(len(plan.rows), 'row')} in {counted(chunks, 'chunk')} with {counted(len(kernels), 'kernel')} "
        f"on {counted(len(places), 'device')}; nothing runs"
    )
    records = [
        record_of(
            row,
            Outcome(verdict=Verdict.NOT_RUN if row.choice else row.unserved),
            plan.request_of(unit.kind),
            call.registry,
            {},
        )
        for unit in plan.units
        for row in unit.rows
    ]
    call.output.document(report_document(records, environment(plan.kinds[0].found), refused=spec.refused))
    return int(ExitCode.OK)


def _carry_out(call: CliCall, spec: Spec, folder: Path, *, new: bool) -> int:
    """Run the remaining rows of a sweep, and print all rows."""
    start = time.monotonic()
    limit = call.settings.number("time_limit", 0.0) if "time_limit" in call.settings.values else None
    delivery = Delivery(call, spec.refused)
    begun = False
    try:
        with ExitStack() as stack:
            finder = _finder(call, spec)
            stack.callback(finder.close)
            opened = open_sweep(spec, call.registry, finder.find, folder, call.console.say, stack)
            begun = True
            delivery.found(opened.found)
            board = stack.enter_context(call.console.board(SweepBoard))
            driver = SweepDriver(
                plan=opened.plan,
                scheduler=finder.scheduler(opened.places, folder),
                registry=call.registry,
                journal=opened.journal,
                run=opened.run,
                chunk=spec.chunk,
                retries=spec.retries,
                on_record=delivery.record,
                tell=call.console.say,
                changed=board.show,
                seconds=limit,
                end=math.inf if limit is None else start + limit,
            )
            done = driver.go(opened.journal.state.records)
            opened.journal.settle(now())
            delivery.all(done.records, place_effects(opened.plan, done))
            if done.whole and delivery.failed is None and not call.output.gone:
                opened.journal.complete()
            outside = opened.journal.outside
    finally:
        if new and not begun:
            remove(folder)  # nothing was planned, so nothing can be resumed
    code = _ended(call, spec, folder, done, delivery)
    if outside is not None:
        call.console.warn(outside)
    return code


def _ended(call: CliCall, spec: Spec, folder: Path, done: SweepEnd, delivery: Delivery) -> int:

    line = f"`fmha sweep --resume {spec.run[:8]}` continues; the finished rows are kept"
    if delivery.failed is not None:
        fault: EnvironmentProblem = delivery.failed
        fault.help = f"{fault.help}; then {line}" if fault.help else line
        raise fault
    if call.output.gone:
        return int(exit_code(delivery.streamed, interrupted=False))
    if done.lost:
        call.console.say(f"{counted(done.lost, 'worker')} lost; every row has one record")
    if not done.whole:
        call.console.error(
            "interrupted" if done.interrupted else "the time is over" if done.late else "no worker is left"
        )
        call.console.error(f"  = help: {line}")
    else:
        remove(folder)
    return int(exit_code(done.records, interrupted=done.interrupted))
