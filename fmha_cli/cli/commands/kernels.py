"""The commands about kernels: ``fmha list-kernels``, ``explain``, ``plan``, ``build`` and ``inspect``."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.command import Argument, CommandSpec, Opt
from fmha_cli.cli.options import (
    ARCH,
    BACKEND,
    BUILDING,
    CACHE_DIR,
    CHOOSING,
    DRY_RUN,
    EMULATING,
    FILES,
    FILL_SEED,
    FILTER,
    JOBS,
    KEPT,
    MODELS,
    OFFLINE,
    PROBLEM,
    PROFILE,
    REVISIONS,
    ROOM,
    ROWS,
    SELECT,
    TABLE,
    THREADS,
    TIMEOUT,
)
from fmha_cli.domain.flags import FlagKind

_globs = partial(Opt, kind=FlagKind.TEXT, panel="Choosing", metavar="GLOB,...")
FAMILY = _globs("family", help="Globs over the family, like --filter family:GLOB")
DTYPE = _globs("dtype", help="Globs over the input type, like --filter dtype:GLOB")
TUNING = Opt(
    "tuning", FlagKind.SWITCH, "The kernels that exist for fmha tune alone, in place of the others", panel="Choosing"
)
COUNT = Opt("count", FlagKind.SWITCH, "Print only their number", panel="Output")
SELECTING = (ARCH, BACKEND, FAMILY, DTYPE, PROFILE, *REVISIONS, FILTER)
LISTING = (*SELECTING, TUNING)
WHY = Opt(
    "why",
    FlagKind.TEXT,
    "Compare two kernels: names as in --kernel",
    panel="Choosing",
    repeats=True,
    metavar="A B",
    pair=True,
)
RULES = Opt("rules", FlagKind.SWITCH, "List every rule and error; with an argument, those whose ids begin with it")
LIMIT = Opt(
    "limit",
    FlagKind.SIZE,
    "Ranked kernels and groups of refusals in the table [default: a few]; in --json, kernels and refusals of each backend "
    "[default: all]",
    panel="Output",
)
ALL = Opt("all", FlagKind.SWITCH, "Every candidate in the table", panel="Output")
COMPILE_TIMEOUT = TIMEOUT.says("Seconds for one compile [default: 600]")
_choosing = partial(Opt, panel="Choosing")
EVERY = _choosing("all", FlagKind.SWITCH, "A table of every selected kernel")
DIFF = _choosing(
    "diff",
    FlagKind.TEXT,
    "Two kernels side by side; K@DIR is one built from an edited tree",
    repeats=True,
    metavar="K1 K2",
    pair=True,
)
_BOTH = "Build with this compiler; given twice, compare the two builds"
COMPILER = _choosing("compiler", FlagKind.TEXT, _BOTH, repeats=True, metavar="CXX")
_COUNTED = "Run a problem on an emulated device (--device emu:ARCH) and count what it executes"
EXECUTED = Opt("executed", FlagKind.SWITCH, _COUNTED, panel="Executing")
_SELECTORS = {option.key for option in SELECTING}
EXECUTING = tuple(
    option
    for option in (*PROBLEM, *FILES[:4], *MODELS, CHOOSING[2], FILL_SEED, *EMULATING)
    if option.key not in _SELECTORS
)

COMMANDS = {
    "list-kernels": CommandSpec(
        "kernels:list_kernels",
        options=(*LISTING, COUNT, *ROWS),
        detail="Without --arch, the kernels of every architecture. On a terminal more than 100 kernels are summed up by "
        "family, type and head dim; --limit N or --wide lists them. Terms of --filter match fields of the kernel, of its "
        "signature and of its algorithm; several terms with one key are alternatives. A profile of a project (fmha "
        "profiles) lists what that project generates. Kernels that cannot be built are listed under such a profile, or if none "
        "can for --arch, with the reason.",
    ),
    "explain": CommandSpec(
        "explain:explain",
        options=(
            *(
                *ROOM,
                SELECT,
                *REVISIONS,
                *BUILDING,
                WHY,
                *FILES[:4],
                CACHE_DIR,
                THREADS,
                RULES,
                ALL,
                *KEPT,
                *TABLE,
                LIMIT,
            ),
        ),
        arguments=(Argument("rule", "Id of a rule or error (K012, P006): print its page instead"),),
        detail="Shows the ranked kernels with the reasons for their order, the ones that do not fit with the reasons "
        "against them, nearest first, and the smallest change that would work. Of a sweep with several backends, and of a model, it "
        "shows the rows that bench would run. Exits 0 whenever it could answer.",
    ),
    "plan": CommandSpec("plan:plan", options=(*ROOM, *REVISIONS, *FILES[:4], CACHE_DIR, *ROWS)),
    "build": CommandSpec(
        "build:build",
        options=(
            *(*ROOM, FAMILY, PROFILE, *REVISIONS, FILTER, JOBS, COMPILE_TIMEOUT, OFFLINE),
            *(*BUILDING, DRY_RUN, CACHE_DIR, *ROWS),
        ),
        documents=("build", "kernels"),
        detail="With problem flags, the kernels of that problem's plan; with --profile, --filter or --family, the set; with --kernel "
        "alone, that kernel.",
    ),
    "inspect": CommandSpec(
        "inspect:inspect",
        options=(
            *(*SELECTING, EVERY, DIFF, COMPILER, EXECUTED, *EXECUTING, TIMEOUT),
            *(JOBS, OFFLINE, *BUILDING, CACHE_DIR, *ROWS),
        ),
        arguments=(Argument("kernel", "Canonical name, upstream name, or digest prefix"),),
        detail="KERNEL shows one kernel, and the flags of a problem in its place the one that run would take. --all shows the selected kernels as a table, --diff K1 K2 shows two kernels side by "
        "side, and --compiler given twice shows two builds of one kernel side by side. Registers and spills are as the "
        "compiler reports them. --executed runs one problem on the emulated device that --device names, and counts "
        "instructions by class, matrix FLOP (and how many the problem needs), bytes, LDS bank conflicts and barriers. "
        "Without KERNEL it runs the best kernel.",
    ),
}
assert {option.key for option in SELECTING} <= {option.key for option in COMMANDS["build"].options}
