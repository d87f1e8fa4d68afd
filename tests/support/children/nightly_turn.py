"""One turn of the check ``nightly``: runs a command that prints rows and keeps what it printed, or prints what an interrupted night kept.

    python tests/support/children/nightly_turn.py TURNS SESSION SIDE COMMAND...

TURNS is the folder of what is kept, SESSION one of this session alone. Turns of a side are numbered in the order in which ``fmha compare`` starts
them; turns for only some problems (``FMHA_ONLY``) have separate numbers. A turn that failed, or was killed, is not
kept.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fmha_cli.results.turns import ONLY


def turn_name(session: Path, side: str, only: str) -> str:
    """The name of the next turn of a side in this session, which it takes."""
    session.mkdir(parents=True, exist_ok=True)
    kind = f"{side}-{hashlib.sha256(only.encode()).hexdigest()[:12] if only else 'all'}"
    number = len(list(session.glob(f"{kind}-*")))
    (session / f"{kind}-{number:03}").touch(exist_ok=False)
    return f"{kind}-{number:03}.jsonl"


def taken(turns: Path, session: Path, side: str, command: Sequence[str]) -> tuple[int, bytes]:
    """Exit code and output of a turn."""
    path = turns / turn_name(session, side, os.environ.get(ONLY, ""))
    if path.exists():
        return 0, path.read_bytes()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode == 0:
        turns.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(done.stdout)
        part.rename(path)
    return done.returncode, done.stdout


def main(argv: Sequence[str]) -> int:
    turns, session, side, *command = argv
    code, text = taken(Path(turns), Path(session), side, command)
    sys.stdout.buffer.write(text)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
