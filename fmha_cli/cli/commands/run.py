"""The commands that go through problems: ``fmha run``, ``fmha validate`` and ``fmha bench``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fmha_cli.cli.command import CommandSpec, Opt
from fmha_cli.cli.options import (
    ALL_KERNELS,
    CHECK_BUDGET,
    DRY_RUN,
    EMULATING,
    FILES,
    FILL,
    FILL_SEED,
    JOURNALS,
    NO_CHECK,
    NO_PROBE,
    REVISIONS,
    ROOM,
    ROWS,
    RUNNING,
    SELECT,
    WATCH,
    WORKLOAD,
)
from fmha_cli.domain.flags import FlagKind

FILLS = replace(
    FILL,
    help="Fills to judge with, a comma list [default: the five of random data; and, where their reference covers a sample of "
    "the rows only, means and pointer]",
    metavar="FILL,...",
)
REPEATS = Opt("repeats", FlagKind.SIZE, "Runs that must agree bit for bit [default: 2]", panel="Running")
INVARIANT = Opt(
    "invariant",
    FlagKind.SWITCH,
    "Compare bit by bit: a sequence alone, in a batch, beside other lengths, in pieces, padded, in other pages, with other "
    "splits, threads and units",
    panel="Running",
)
SAVE = Opt("save-failures", FlagKind.FILE, "Folder for the tensors of every failing row", panel="Files", metavar="DIR")
_measuring = partial(Opt, panel="Measuring")
CACHE = _measuring(
    "cache", FlagKind.TEXT, "State of the caches before a sample [default: hot]", choices=("hot", "cold", "both")
)
AB = Opt(
    "ab",
    FlagKind.TEXT,
    "Two kernels, timed alternately; K@DIR is one built from an edited tree",
    panel="Choosing",
    repeats=True,
    metavar="K1 K2",
    pair=True,
)
FLOPS = _measuring(
    "flops", FlagKind.TEXT, "(query, key) pairs that count [default: visible]", choices=("visible", "dense")
)
PEAK = _measuring(
    "peak",
    FlagKind.TEXT,
    "The peak that shares refer to; measured once and kept [default: measured]",
    choices=("measured", "spec"),
)
BUDGET = _measuring(
    "budget", FlagKind.NUMBER, "Seconds for the samples of one row, from 10 samples on [default: 2]", metavar="S"
)
MAX_TIME = _measuring(
    "max-time", FlagKind.NUMBER, "Seconds after which a row ends with fewer samples [default: 30]", metavar="S"
)
PROCESSES = _measuring(
    "processes",
    FlagKind.SIZE,
    "Fresh worker processes that take the samples of each row [default: 1, the one that checks it]",
)
ONLY = Opt(
    "only",
    FlagKind.TEXT,
    "Only the problems with these digests; fmha compare sets FMHA_ONLY for the rows that it runs again",
    panel="Choosing",
    metavar="DIGEST,...",
    lists=True,
)
BASELINE = _measuring(
    "baseline", FlagKind.FILE, "Earlier report (JSON) to compare with, as fmha compare does; exit 1 if surely slower"
)
PLOT = Opt("plot", FlagKind.SWITCH, "Draw throughput against the swept axis below the table", panel="Output")
MEASURING = (CACHE, BUDGET, MAX_TIME, PROCESSES, FLOPS, PEAK)
_RUN = (NO_PROBE, DRY_RUN, WATCH, *RUNNING, *REVISIONS, *EMULATING, *JOURNALS, *ROWS)
FORMULAS = (
    "FLOP forward = sum over sequences of heads * 2 * A * (hdim + hdim_v), A = visible (query, key) pairs, counted "
    "exactly; backward = heads * A * (6 * hdim + 4 * hdim_v). With --flops dense, A counts all pairs. "
    "Bytes = every tensor once, K and V by their own heads."
)

COMMANDS = {
    "run": CommandSpec(
        "run:run",
        options=(*ROOM, WORKLOAD, SELECT, *FILES, FILL, FILL_SEED, CHECK_BUDGET, NO_CHECK, *_RUN),
        documents=("report",),
        detail="An option that takes lists (512,1k) or ranges (a:b:+n, a:b:*n, both ends included) can sweep: each point "
        "gives one row. Times are a matter of `fmha bench`: the table shows none of a single launch. --dry-run runs "
        "nothing, but if a backend can show its launches without a device, it builds their "
        "kernels. Exit codes: 0 good, 1 wrong or not to be trusted, 2 usage, 3 unsupported, "
        "4 environment, 5 empty selection, 6 a kernel failed, 130 interrupted.",
    ),
    "validate": CommandSpec(
        "run:run",
        options=(
            *(
                *ROOM,
                WORKLOAD,
                SELECT,
                ALL_KERNELS,
                *FILES[:4],
                FILLS,
                FILL_SEED,
                SAVE,
                REPEATS,
                INVARIANT,
                CHECK_BUDGET,
                *_RUN,
            ),
        ),
        documents=("report", "invariance"),
        detail="Outputs and workspaces are poisoned before every run, guard zones surround every tensor, and inputs are "
        "hashed. A kernel that can return LSE is judged on it too, in a separate row. --invariant judges the problem's longest "
        "sequence alone, then compares it with each change; each gets the kernel that would be chosen for it, unless --kernel "
        "names one. A difference alone does not fail; one that breaks a kernel's promise or --require does (exit 1).",
    ),
    "bench": CommandSpec(
        "run:run",
        options=(
            *(
                *ROOM,
                WORKLOAD,
                SELECT,
                ALL_KERNELS,
                AB,
                ONLY,
                *FILES[:4],
                FILL,
                FILL_SEED,
                *MEASURING,
                BASELINE,
                CHECK_BUDGET,
            ),
            *(NO_CHECK, *_RUN, PLOT),
        ),
        documents=("report",),
        detail=FORMULAS,
    ),
}
