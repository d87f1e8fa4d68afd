"""A sweep over emulated GPUs: 1,000 problems validated with at most 25 kernels, while workers are killed.

    python benchmarks/emulated_sweep.py [--devices emu:gfx90a*2] [--kills 10] [--rows FILE] [--page FILE]

The problems differ in what kernels read at run time (batch, lengths, windows), so few kernels serve all of them. The page says
what was planned, what came out, and how long it took; the rows are the records as JSON lines. ``fmha sweep --resume`` finishes a
run that was interrupted, and ``--from FILE`` makes the page from its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = (
    *(
        "--backend",
        "ck_tile",
        "--splits",
        "2",
        "--lse",
        "-H",
        "2",
        "--kv-heads",
        "1",
        "--dtype",
        "fp16,bf16",
        "-d",
        "64,128",
    ),
    *("-b", "1,2", "-s", "17,24,33,48,50", "--seqlen-k", "16,40,72,96,130"),
    *("--mask", "none", "--mask", "causal", "--mask", "causal-tl", "--mask", "window:16,0", "--mask", "window:8,8"),
)
PROBLEMS, KERNELS = 1000, 25


@dataclass
class Outcome:
    """What a sweep came to.

    Attributes:
        code: exit code; None if only its rows are known.
        killed: workers that were killed meanwhile.
    """

    rows: list[dict[str, Any]]
    code: int | None = None
    seconds: float | None = None
    killed: int = 0
    said: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="emu:gfx90a*2")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=Path, help="where the records go")
    parser.add_argument("--page", type=Path, help="where the page goes")
    parser.add_argument("--from", type=Path, dest="source", help="make the page from these rows, and run nothing")
    options = parser.parse_args()
    command = ["fmha", "sweep", "--step", "validate", "--devices", options.devices, *FLAGS]
    if options.source is not None:
        outcome = Outcome(list(records(options.source.read_text("utf-8").splitlines())))
    else:
        outcome = swept(command, options.kills, random.Random(options.seed), options.rows)
    text = page(command, outcome)
    if options.page is not None:
        options.page.write_text(text, "utf-8")
    print(text)
    return 0 if good(outcome) else 1


def records(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The records among lines of ``--jsonl``."""
    for line in lines:
        row = json.loads(line)
        if row["schema"].startswith("fmha.record/"):
            yield row


def swept(command: Sequence[str], kills: int, draw: random.Random, out: Path | None) -> Outcome:
    """Run the sweep, and kill a worker after every so many rows."""
    start, outcome = time.monotonic(), Outcome([])
    words = [sys.executable, "-m", "fmha_cli", *command[1:], "--jsonl"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            outcome.rows += records([line])
            if out is not None:
                with out.open("a", encoding="utf-8") as file:
                    file.write(line)
            due = (outcome.killed + 1) * PROBLEMS // (kills + 1)
            if outcome.killed < kills and len(outcome.rows) >= due and (workers := workers_of(process.pid)):
                os.kill(draw.choice(workers), signal.SIGKILL)
                outcome.killed += 1
        outcome.code = process.wait()
    outcome.seconds = time.monotonic() - start
    return outcome


def workers_of(pid: int) -> list[int]:
    """The processes that run chunks for a driver."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "fmha_cli.sweeps.child" in line]


def kernels_of(rows: Sequence[dict[str, Any]]) -> dict[str, bool]:
    """Every kernel of some rows, and whether a row of this sweep waited for its compiler."""
    found: dict[str, bool] = {}
    for stage in (stage for row in rows for stage in row["stages"]):
        found[stage["kernel"]] = found.get(stage["kernel"], False) or stage.get("cached") is False
    return found


def good(outcome: Outcome) -> bool:
    """Whether every problem has one row that passed, with few kernels."""
    keys = Counter(row["row"] for row in outcome.rows)
    return (
        len(keys) == len(outcome.rows) == PROBLEMS
        and len(kernels_of(outcome.rows)) <= KERNELS
        and all(row["verdict"] == "PASSED" for row in outcome.rows)
    )


def page(command: Sequence[str], outcome: Outcome) -> str:
    """The page about a sweep."""
    rows = outcome.rows
    keys = Counter(row["row"] for row in rows)
    devices = Counter(row["device"] for row in rows if row["device"])
    checked = sum(
        check["rows"] for row in rows for fill in row["fills"] for check in fill.values() if isinstance(check, dict)
    )
    again = sum(any("given out" in note for note in row["notes"]) for row in rows)
    facts = {
        "rows planned": f"{PROBLEMS:,}",
        "rows that came out": f"{len(keys):,}",
        "rows that came out twice": f"{len(rows) - len(keys)}",
        "verdicts": ", ".join(
            f"{n:,} {verdict}" for verdict, n in Counter(row["verdict"] for row in rows).most_common()
        ),
        "kernels": f"{len(kernels_of(rows))}",
        "devices": ", ".join(f"{device} ({n:,} rows)" for device, n in devices.items()),
        "output rows compared with the oracle": f"{checked:,}",
        "workers killed meanwhile": f"{outcome.killed}",
        "rows that ran again after a kill": f"{again}",
    }
    if outcome.seconds:
        facts["time"] = f"{outcome.seconds / 60:.1f} min, {len(rows) / outcome.seconds * 60:.0f} rows/min"
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        "# A sweep over emulated devices\n\n"
        "What `benchmarks/emulated_sweep.py` did on one machine "
        f"({platform.machine()}, {os.cpu_count()} cores, which other work shared). The emulated devices say whether results are "
        "right, and nothing about speed; the times are those of the emulator and of the oracle.\n\n"
        f"```text\n{_wrapped(command)}\n```\n\n| fact | value |\n|---|---|\n{table}\n"
    )


def _wrapped(words: Sequence[str]) -> str:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 100:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
