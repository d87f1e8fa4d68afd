"""``fmha validate``."""

from __future__ import annotations

from dataclasses import replace

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command, Opt
from fmha_cli.cli.options import ALL_KERNELS, DRY_RUN, EMULATING, FILES, FILL, FILL_SEED, JOURNALS, ROOM, ROWS, RUNNING
from fmha_cli.domain.flags import FlagKind

FILLS = replace(FILL, help="Fills to judge with, a comma list [default: all five]", metavar="FILL,...")
REPEATS = Opt("repeats", FlagKind.SIZE, "Runs that must agree bit for bit [default: 2]", panel="Running")
SAVE = Opt("save-failures", FlagKind.FILE, "Keep the tensors of every failing row there", panel="Files", metavar="DIR")


def validate(call: Call) -> int:
    """One verdict for every (problem, kernel)."""
    from fmha_cli.cli.walking import walk

    return walk(call)


COMMAND = Command(
    validate,
    options=(
        *(*ROOM, ALL_KERNELS, *FILES[:4], FILLS, FILL_SEED, SAVE),
        *(REPEATS, DRY_RUN, *RUNNING, *EMULATING, *JOURNALS, *ROWS),
    ),
    detail="Outputs and workspaces are poisoned before every run, guard zones surround every tensor, and inputs are "
    "hashed. A kernel that can return LSE is judged on it too, in a row of its own.",
)
