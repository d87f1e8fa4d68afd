"""A command that prints the rows of ``fmha bench`` for a modelled machine: each start plays the next process that was written for its side.

    python played_bench.py FOLDER SIDE

FOLDER holds ``SIDE-0.jsonl``, ``SIDE-1.jsonl`` and so on, and ``keys.txt`` with the problem's digest of each line, which ``FMHA_ONLY``
names. What was printed is appended to ``SIDE.jsonl``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    folder, side = Path(sys.argv[1]), sys.argv[2]
    counter = folder / f"{side}.count"
    start = int(counter.read_text("utf-8")) if counter.exists() else 0
    counter.write_text(str(start + 1), "utf-8")
    keys = (folder / "keys.txt").read_text("utf-8").split()
    wanted = set(os.environ.get("FMHA_ONLY", ",".join(keys)).split(","))
    lines = (folder / f"{side}-{start}.jsonl").read_text("utf-8").splitlines(keepends=True)
    text = "".join(line for key, line in zip(keys, lines, strict=True) if key in wanted)
    with (folder / f"{side}.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
