"""``fmha tune``: find the fastest kernel of each problem, and remember it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import (
    CHOOSING,
    DRY_RUN,
    KEPT,
    LABEL,
    MODELS,
    NO_PROBE,
    PROBLEM,
    REVISIONS,
    ROWS,
    RUNNING,
    SKIP_IMPOSSIBLE,
)
from fmha_cli.cli.storing import keeper_of, store_of
from fmha_cli.cli.tuned import COMMANDS as TUNED
from fmha_cli.cli.walks import CACHE
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, UsageError
from fmha_cli.domain.flags import FlagKind

if TYPE_CHECKING:
    from fmha_cli.bench.entry import RememberedChoice
    from fmha_cli.domain.problem import Problem
    from fmha_cli.report.documents.tune import TuneRow
    from fmha_cli.tune.tune import TuneRequest

_N, _S, _T, _F = FlagKind.NUMBER, FlagKind.SIZE, FlagKind.TEXT, FlagKind.FILE
_tuning, _files = (partial(Opt, panel=panel) for panel in ("Tuning", "Files"))

FROM = _files(
    "from", _T, "The problems of a run: its id, label or latest in the store, or a file", metavar="RUN", flag_only=True
)
SHAPES = _files("shapes", _F, "A file with the flags of one problem on each line; # begins a comment")
METHOD = _tuning(
    "method", _T, "How samples are given to kernels [default: halving]", choices=("halving", "race", "exhaustive")
)
BUDGET = _tuning(
    "budget", _N, "Seconds for the samples of one problem [default: no limit]", metavar="S", flag_only=True
)
BUILD_BUDGET = _tuning(
    "build-budget", _N, "Seconds after which no further kernel of a problem is built [default: no limit]", metavar="S"
)
MIN_GAIN = _tuning(
    "min-gain",
    _N,
    "The default is kept unless a kernel is surely faster by more, in per cent [default: 2]",
    metavar="PERCENT",
)
PROCESSES = _tuning(
    "processes",
    _S,
    "Fresh processes of the default and the fastest kernel, alternating, that confirm it [default: 5]",
    flag_only=True,
)
ANEW = _tuning("anew", FlagKind.SWITCH, "Start over, where an interrupted run of this command could go on")
OWN = (FROM, SHAPES, ANEW, METHOD, BUDGET, BUILD_BUDGET, MIN_GAIN, PROCESSES, CACHE)
BACKEND, ARCH, DEVICE, _KERNEL = CHOOSING


def tune(call: CliCall) -> int:
    """Tune every problem of the command line, of a run, or of a file. Reports every problem, even when interrupted."""
    from fmha_cli.report.documents.tune import tune_document
    from fmha_cli.tune.tune import tune as tuned

    points = _points(call)
    asked = _request(call)
    keeper = None if asked.request.dry_run else keeper_of(call)
    memory = _Memory(call, None if keeper is None else store_of(call))
    try:
        with call.console.progress("tune") as progress:
            outcome = tuned(
                points,
                asked,
                call.registry,
                on_record=(lambda record: None) if keeper is None else keeper.record,
                on_entry=memory.entry,
                progress=progress,
                voice=call.console.voice(progress),
            )
    finally:
        if keeper is not None:
            from fmha_cli.run.origin import now

            keeper.close(now())
    store = None if memory.path is None else str(memory.path)
    call.output.document(tune_document(outcome.rows, asked.method, asked.min_gain, asked.processes, store))
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
        from fmha_cli.results.store import Store
        from fmha_cli.results.tuned import entries, put_entry

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
    from fmha_cli.domain.verdict import Verdict, exit_code_of
    from fmha_cli.report.documents.tune import Tuned

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
    from fmha_cli.cli.points import named_file, problems_of

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
    from fmha_cli.domain.errors import EmptySelection
    from fmha_cli.report.lines import counted
    from fmha_cli.results.problems import problem_of
    from fmha_cli.results.run import load_run

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
    from fmha_cli.domain.errors import EmptySelection, FmhaError
    from fmha_cli.domain.problem import Problem
    from fmha_cli.domain.reading import regular_bytes

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
    from dataclasses import replace

    from fmha_cli.bench.search import Method
    from fmha_cli.cli.asked import one_backend, request_of
    from fmha_cli.run.request import Command as Walk
    from fmha_cli.sweeps.leases import state_folder
    from fmha_cli.tune.tune import TuneRequest

    settings = call.settings
    request = replace(request_of(call, Walk.BENCH), budget_s=PROCESS_BUDGET_S, processes=1)
    one_backend(call, request.wanted)
    budget, build = (settings.number(key, 1) if settings.text(key) else None for key in ("budget", "build_budget"))
    text = settings.text("min_gain")
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
        place=None if settings.on("no_store") else str(store_of(call)),
    )


PROCESS_BUDGET_S = 0.5
"""Time for the samples of each process of a confirmation; there are at least 10 in any case."""

COMMANDS = {
    "tune": CommandSet(
        {
            "search": (
                "Find the fastest kernel of each problem, and remember it",
                CommandSpec(
                    tune,
                    options=(
                        *PROBLEM,
                        SKIP_IMPOSSIBLE,
                        *MODELS,
                        BACKEND,
                        ARCH,
                        DEVICE,
                        *OWN,
                        NO_PROBE,
                        DRY_RUN,
                        *RUNNING,
                        *REVISIONS,
                        LABEL,
                        *KEPT,
                        *ROWS,
                    ),
                    documents=("tune",),
                    detail="All kernels that serve a problem are built and checked; the search times them, and the fastest is "
                    "compared with the default in fresh processes that take turns. It is remembered in the store if it is "
                    "surely faster by --min-gain and passes validate. When the command was interrupted or killed, the same "
                    "command goes on: finished searches and choices are kept. Exit codes are those of fmha bench.",
                ),
            ),
            **TUNED,
        },
        alone="search",
    )
}
