"""``fmha bench``."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command, Opt
from fmha_cli.cli.options import ALL_KERNELS, DRY_RUN, FILES, FILL, FILL_SEED, JOURNALS, NO_CHECK, ROOM, ROWS, RUNNING
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.flags import FlagKind

_measuring = partial(Opt, panel="Measuring")
CACHE = _measuring(
    "cache", FlagKind.TEXT, "State of the caches before a sample [default: hot]", choices=("hot", "cold", "both")
)
AB = Opt("ab", FlagKind.TEXT, "Two kernels, timed in turns", panel="Choosing", repeats=True, metavar="K1 K2", pair=True)
FLOPS = _measuring("flops", FlagKind.TEXT, "Pairs that count [default: visible]", choices=("visible", "dense"))
PEAK = _measuring(
    "peak",
    FlagKind.TEXT,
    "The peak that shares refer to; measured once and kept [default: measured]",
    choices=("measured", "spec"),
)
BUDGET = _measuring("budget", FlagKind.NUMBER, "Seconds for the samples of one row [default: 2]", metavar="S")
BASELINE = _measuring("baseline", FlagKind.FILE, "An earlier report (JSON) to compare with; slower is exit 1")

FORMULAS = (
    "FLOP forward = sum over sequences of heads * 2 * A * (hdim + hdim_v), A = visible (query, key) pairs, counted "
    "exactly; backward = heads * A * (6 * hdim + 4 * hdim_v). With --flops dense, A counts all pairs. "
    "Bytes = every tensor once, K and V by their own heads."
)


def bench(call: Call) -> int:
    """One record for every (problem, kernel, cache mode)."""
    from fmha_cli.cli.walking import walk

    if len(call.settings.many("ab")) not in (0, 2):
        where = call.settings.where("ab")
        raise UsageError(f"{where}: two kernels are compared", code="E002", where=where, help="--ab K1 K2")
    return walk(call)


COMMAND = Command(
    bench,
    options=(
        *(*ROOM, ALL_KERNELS, AB, *FILES[:4], FILL, FILL_SEED),
        *(CACHE, BUDGET, FLOPS, PEAK, BASELINE, NO_CHECK, DRY_RUN, *RUNNING, *JOURNALS, *ROWS),
    ),
    detail=FORMULAS,
)
