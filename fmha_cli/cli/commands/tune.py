"""``fmha tune``, with ``ls``, ``rm``, ``verify`` and ``export`` for the remembered kernels."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.commands.run import CACHE
from fmha_cli.cli.options import (
    BUILDING,
    CACHE_DIR,
    CHOOSING,
    DRY_RUN,
    KEPT,
    LABEL,
    MODELS,
    NO_PROBE,
    OUTPUT_FILE,
    PROBLEM,
    REVISIONS,
    ROWS,
    RUNNING,
    SKIP_IMPOSSIBLE,
    STORE,
    THREADS,
)
from fmha_cli.discovery.builtins import export_forms
from fmha_cli.domain.flags import FlagKind

OWN_FORMS = ("table", "json")
FORM = Opt(
    "format",
    FlagKind.TEXT,
    "What to write [default: table]",
    panel="Output",
    choices=(*OWN_FORMS, *export_forms()),
    flag_only=True,
)
ENTRIES = Argument(
    "entries", "Ids of tuned problems, or the beginnings of ids; `fmha tune ls` shows them", required=True, many=True
)
SOME = Argument("entries", "Ids of tuned problems, or the beginnings of ids [default: all]", many=True)
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
BACKEND, ARCH, DEVICE, *_ = CHOOSING

COMMANDS = {
    "tune": CommandSet(
        {
            "search": (
                "Find the fastest kernel of each problem, and remember it",
                CommandSpec(
                    "tune:tune",
                    options=(
                        *(*PROBLEM, SKIP_IMPOSSIBLE, *MODELS, BACKEND, ARCH, DEVICE, *OWN, NO_PROBE, DRY_RUN, *RUNNING),
                        *(*REVISIONS, LABEL, *KEPT, *ROWS),
                    ),
                    documents=("tune",),
                    detail="All kernels that serve a problem are built and checked; the search times them, and the fastest is "
                    "compared with the default in fresh processes that take turns. It is remembered in the store if it is "
                    "surely faster by --min-gain and passes validate. When the command was interrupted or killed, the same "
                    "command goes on: finished searches and choices are kept. Exit codes are those of fmha bench.",
                ),
            ),
            "ls": ("List the tuned problems", CommandSpec("tuned:ls", (*ROWS, STORE), (SOME,))),
            "rm": ("Forget tuned problems", CommandSpec("tuned:rm", (DRY_RUN, *ROWS, STORE), (ENTRIES,))),
            "verify": (
                "Say whether tuned kernels would be used here and now",
                CommandSpec("tuned:verify", (THREADS, CACHE_DIR, *BUILDING, *REVISIONS, *ROWS, STORE), (SOME,)),
            ),
            "export": (
                "Write tuned problems into a file",
                CommandSpec(
                    "tuned:export",
                    (FORM, OUTPUT_FILE, *BUILDING, *REVISIONS, STORE),
                    (SOME,),
                    detail="Forms of an upstream project hold the kernels of its backend that are not the default. They are checked by the "
                    "project's own generator where the user's checkout has one that reads them; else the file is NOT_RUN.",
                ),
            ),
        },
        alone="search",
    )
}
