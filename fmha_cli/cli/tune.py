"""``fmha tune``: find the fastest kernel of each problem, and remember it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.bench.search import Method
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.problems import named_file, problems_of
from fmha_cli.cli.request import one_backend, request_of
from fmha_cli.cli.store import kept_in, store_of
from fmha_cli.domain.errors import EmptySelection, EnvironmentProblem, ExitCode, FmhaError, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.reading import regular_bytes
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.report.documents.tune import Tune, Tuned, TuneRow
from fmha_cli.report.lines import counted
from fmha_cli.results.problems import problem_of
from fmha_cli.results.run import load_run
from fmha_cli.results.store import Store
from fmha_cli.results.tuned import entries, put_entry
from fmha_cli.run.request import Command as Walk
from fmha_cli.sweeps.leases import state_folder
from fmha_cli.tune.tune import TuneRequest
from fmha_cli.tune.tune import tune as tuned


def tune(call: CliCall) -> int:
    """Tune every problem of the command line, of a run, or of a file. Reports every problem, even when interrupted."""
    points = _points(call)
    asked = _request(call)
    memory = _Memory(call, None if asked.request.dry_run or asked.place is None else Path(asked.place))
    with call.console.progress("tune") as progress:
        outcome = tuned(
            points,
            asked,
            call.registry,
            on_entry=memory.entry,
            progress=progress,
            voice=call.console.voice(progress),
        )
    store = None if memory.path is None else str(memory.path)
    method, gain, processes = asked.method, asked.min_gain, asked.processes
    rows = tuple(outcome.rows)
    call.output.document(Tune(method=method, min_gain=gain, processes=processes, store=store, rows=rows))
    if outcome.outside is not None:
        call.console.warn(outcome.outside)
    if outcome.interrupted:
        call.console.error(
            "interrupted: what was measured and decided is kept; the same command goes on, and with --anew it starts over"
        )
    return int(_exit_code(outcome.rows, interrupted=outcome.interrupted))


class _Memory:
    """Remembers entries as they come; whatever is wrong with the store costs one line."""

    def __init__(self, call: CliCall, path: Path | None) -> None:
        self._call = call
        self.path = path

    def entry(self, entry: RememberedChoice) -> None:

        if self.path is None:
            return
        try:
            with Store.open(self.path) as store:
                there = entries(store, entry.place.family)
                if not any(one.digest == entry.digest and one.made > entry.made for one in there):
                    put_entry(store, entry)  # an earlier session's entry is not newer than the stored one
        except EnvironmentProblem as fault:
            self._call.console.warn(f"nothing is remembered: {fault.what} ({fault.where}: {fault.why}); {fault.help}")
            self.path = None


def _exit_code(rows: Sequence[TuneRow], *, interrupted: bool) -> ExitCode:

    verdicts = {
        Tuned.UNSUPPORTED: Verdict.UNSUPPORTED,
        Tuned.FAILED: Verdict.LAUNCH_FAILED,
        Tuned.INTERRUPTED: Verdict.NOT_RUN,
    }
    return exit_code_of([verdicts.get(row.state, Verdict.PASSED) for row in rows], interrupted=interrupted)


def _points(call: CliCall) -> tuple[Problem, ...]:
    """The problems to tune, each once.

    Raises:
        UsageError: E002, problems from two places; E064, a line of --shapes is not a problem; the errors of
            ``points_of`` and ``load_run``.
        EmptySelection: E065, nothing to tune.
    """
    file = named_file(call)
    if file is not None:
        why = "what is tuned counts for every tensor of the shape, and is timed and checked on generated ones"
        raise UsageError(f"{file} beside fmha tune", code="E002", where=file, why=why, help=f"{file} filled")
    sources = [key for key in ("from", "shapes") if call.settings.text(key)]
    given = [*sources, *(["model"] if call.settings.many("model") else []), *(["seqlen"] if call.problem_flags else [])]
    if sources and len(given) > 1:
        names = " and ".join(f"--{key}" for key in given[:2])
        what, help = f"{names}: the problems come from one place", "leave one of them out"
        raise UsageError(what, code="E002", where=f"--{given[0]}", help=help)
    if "from" in sources:
        found = _of_run(call)
    elif "shapes" in sources:
        found = _of_file(Path(call.settings.text("shapes") or ""))
    else:
        found = problems_of(call)
    return tuple({problem.digest: problem for problem in found}.values())


def _of_run(call: CliCall) -> tuple[Problem, ...]:

    name = call.settings.text("from") or ""
    records = load_run(name, store_of(call)).records
    problems = {record.row: problem_of(record) for record in records}
    found = tuple(problem for problem in problems.values() if problem is not None)
    if len(found) < len(problems):
        call.console.say(f"{counted(len(problems) - len(found), 'row')} of {name} left out: the shapes came from files")
    if not found:
        help = f"`fmha results show {name}` shows its rows; --shapes FILE takes problems from a file"
        raise EmptySelection(f"--from {name}: no row has a problem to tune", code="E065", where="--from", help=help)
    return found


def _of_file(path: Path) -> tuple[Problem, ...]:

    found = []
    try:
        lines = regular_bytes(path).decode("utf-8").splitlines()
    except (OSError, ValueError) as fault:
        why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        help = "a text file with the flags of one problem on each line: -H 8 -s 1k --causal"
        raise UsageError(
            f"--shapes {path}: cannot be read", code="E064", where="--shapes", why=why, help=help
        ) from fault
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            found.append(Problem.from_cli(text))
        except FmhaError as fault:
            where = f"{path}:{number}"
            help = fault.help or "`fmha run --help` lists the problem flags"
            raise UsageError(f"--shapes: {text}: {fault.what}", code="E064", where=where, help=help) from fault
    if not found:
        help = "a line: -H 8 -s 1k --causal"
        raise EmptySelection(f"--shapes {path}: no line has a problem", code="E065", where="--shapes", help=help)
    return tuple(found)


def _request(call: CliCall) -> TuneRequest:

    settings = call.settings
    request = replace(request_of(call, Walk.BENCH), budget_s=PROCESS_BUDGET_S, processes=1)
    one_backend(call, request.wanted)
    budget, build = (settings.number(key, 1) if settings.text(key) else None for key in ("budget", "build_budget"))
    text = settings.text("min_gain")
    store = kept_in(call)
    return TuneRequest(
        request=request,
        method=Method(settings.text("method") or Method.HALVING),
        budget_s=budget,
        build_budget_s=build,
        min_gain=0.0 if text == "0" else settings.number("min_gain", 2.0) / 100,
        processes=settings.size("processes", 5, 1),
        environ=dict(call.environ),
        states=state_folder(call.environ),
        anew=settings.on("anew"),
        place=None if store is None else str(store),
    )


PROCESS_BUDGET_S = 0.5
"""Time for the samples of each process of a confirmation; there are at least 10 in any case."""
