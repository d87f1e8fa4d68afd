"""``fmha run``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import DRY_RUN, EMULATING, FILES, FILL, FILL_SEED, JOURNALS, NO_CHECK, ROOM, ROWS, RUNNING


def run(call: Call) -> int:
    """One row for every problem."""
    from fmha_cli.cli.walking import walk

    return walk(call)


COMMAND = Command(
    run,
    options=(*ROOM, *FILES, FILL, FILL_SEED, NO_CHECK, DRY_RUN, *RUNNING, *EMULATING, *JOURNALS, *ROWS),
    detail="Lists (512,1k) and ranges (a:b:+n, a:b:*n, both ends included) in the options that take them sweep: "
    "one row for every point. --dry-run runs nothing; where a backend can show its launches without a device, their "
    "kernels are built for it. Exit codes: 0 good, 1 wrong or not to be trusted, 2 usage, 3 unsupported, "
    "4 environment, 5 empty selection, 6 a kernel failed, 130 interrupted.",
)
