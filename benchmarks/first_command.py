"""Measure README's first command in an empty cache: its time, its cost, and the phases that take it.

    python benchmarks/first_command.py [--runs 5] [--json FILE] [-- run --batch 2 ...]

Every run has a new cache, so compilers are found and kernels built each time. On a busy machine look at the CPU seconds: the
seconds by the clock are only worth quoting where ``others``, the share of the machine that other processes used, is small.
The phases have the CPU seconds of this process and of the compilers; the total has the worker's too. Goal: 15 s on two quiet
cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from quiet import CPUS, busy_seconds

FIRST = ("run", "--batch", "2", "--seqlen", "4096", "--hdim", "128", "--causal")
"""README's first command."""

_PHASE = re.compile(r"(\w+) (\d+\.\d) s \((\d+\.\d) s\)")


@dataclass(frozen=True)
class Run:
    """One run: seconds by the clock and of the CPU, the share of the machine that others used, and both by phase."""

    wall: float
    cpu: float
    others: float
    phases: dict[str, tuple[float, float]]


def phases_of(talk: str) -> dict[str, tuple[float, float]]:
    """The seconds of each phase, by the clock and of the CPU, from what ``-v`` prints.

    Raises:
        ValueError: it prints none.
    """
    line = next((line for line in talk.splitlines() if line.startswith("took ")), "")
    found = {name: (float(wall), float(cpu)) for name, wall, cpu in _PHASE.findall(line.partition(": ")[2])}
    if not found:
        raise ValueError(f"no phases in {talk!r}")
    return found


def run_once(words: tuple[str, ...]) -> Run:
    """One run in a new cache. Raises CalledProcessError: it failed."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "FMHA_CACHE_DIR": str(Path(folder) / "cache")}
        command = [sys.executable, "-m", "fmha_cli", *words, "-v"]
        busy, own, start = busy_seconds(), _children(), time.perf_counter()
        done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
        wall, cpu = time.perf_counter() - start, _children() - own
    others = max(0.0, busy_seconds() - busy - cpu) / (wall * CPUS)
    return Run(wall, cpu, others, phases_of(done.stderr))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every run here")
    parser.add_argument("words", nargs="*", default=FIRST, help="another command, after --")
    given = parser.parse_args()
    runs = []
    for number in range(1, given.runs + 1):
        run = run_once(tuple(given.words))
        runs.append(run)
        phases = ", ".join(f"{name} {wall:.1f} ({cpu:.1f})" for name, (wall, cpu) in run.phases.items())
        print(f"{number}: {run.wall:.1f} s, CPU {run.cpu:.1f} s, others {run.others:.0%}: {phases}", flush=True)
    best = min(runs, key=lambda run: run.others)
    print(f"with the least company ({best.others:.0%}): {best.wall:.1f} s, CPU {best.cpu:.1f} s")
    if given.json is not None:
        given.json.write_text(json.dumps({"words": list(given.words), "runs": [asdict(run) for run in runs]}, indent=2))


if __name__ == "__main__":
    main()
