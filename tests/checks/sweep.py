"""A sweep over emulated GPUs: 1,000 problems validated with at most 25 kernels, while workers are killed.

The problems differ in what kernels read at run time (batch, lengths, windows), so few kernels serve all of them. The sweep is good if each
problem has one row that passed, with few kernels, whatever was killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.checks.check import Check, Row, product
from tests.checks.tables import table

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


@dataclass(frozen=True)
class KilledSweep:
    """A sweep over devices in which so many workers are killed, drawn by a seed."""

    devices: str
    kills: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.devices}, {self.kills} kills, seed {self.seed}"


@dataclass
class Outcome:
    """The outcome of a sweep: its records, the exit code, and the workers that were killed meanwhile."""

    rows: list[dict[str, Any]]
    code: int | None = None
    seconds: float = 0.0
    killed: int = 0


def records(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The records among lines of ``--jsonl``."""
    for line in lines:
        row = json.loads(line)
        if row["schema"].startswith("fmha.record/"):
            yield row


def swept(command: Sequence[str], kills: int, draw: random.Random) -> Outcome:
    """Run the sweep, and kill a worker after every so many rows."""
    start, outcome = time.monotonic(), Outcome([])
    words = [sys.executable, "-m", "fmha_cli", *command, "--jsonl"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            outcome.rows += records([line])
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


def row_of(sweep: KilledSweep) -> Row:
    """Run a sweep."""
    words = ("sweep", "--step", "validate", "--devices", sweep.devices, *FLAGS)
    outcome = swept(words, sweep.kills, random.Random(sweep.seed))
    return {**facts(outcome), "good": good(outcome)}


def facts(outcome: Outcome) -> dict[str, Any]:
    """The outcome of a sweep, in figures."""
    rows = outcome.rows
    return {
        "rows planned": PROBLEMS,
        "rows that came out": len({row["row"] for row in rows}),
        "rows that came out twice": len(rows) - len({row["row"] for row in rows}),
        "verdicts": Counter(row["verdict"] for row in rows),
        "kernels": len(kernels_of(rows)),
        "devices": Counter(row["device"] for row in rows if row["device"]),
        "output rows compared with the oracle": sum(
            check["rows"] for row in rows for fill in row["fills"] for check in fill.values() if isinstance(check, dict)
        ),
        "workers killed meanwhile": outcome.killed,
        "rows that ran again after a kill": sum(any("given out" in note for note in row["notes"]) for row in rows),
        "minutes": round(outcome.seconds / 60, 1),
    }


def summary(rows: Sequence[Row]) -> str:
    """The figures of each sweep."""
    return "\n\n".join(table(("fact", "value"), row.items()) for row in rows)


CHECK = Check(
    cases=lambda: [KilledSweep("emu:gfx90a*2", 10, 0)],
    name=lambda sweep: sweep.name,
    carry_out=row_of,
    depends=lambda sweep: product("fmha-amdgpu-emu"),
    good=lambda row: bool(row["good"]),
    by=("good", "kernels"),
    summarise=summary,
)
