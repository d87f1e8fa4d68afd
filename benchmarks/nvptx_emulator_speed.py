"""Measure the speed, loading time and memory use of the PTX emulator, which are properties of this machine and not of any GPU.

    python benchmarks/nvptx_emulator_speed.py [--rounds 5] [--json FILE] [--markdown FILE]

For each kernel, a separate process loads the emulator, opens the backend's session and launches with one thread, with and
without the checks. The script reports warp instructions per second of processor time (a matrix instruction also counted as so
many m16n8k16), the processor time of a launch and of loading the PTX, and the process's largest resident size. It ends with 1
if a kernel with all checks misses its goal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator_speed import measured

SCHEMA = "fmha.nvptx-emulator-speed/1"


@dataclass(frozen=True)
class Point:
    """One kernel: the device's architecture, the backend, the problem, and its goal with all checks.

    Attributes:
        millions: of warp instructions a second, matrix instructions counted in m16n8k16. launch_s: processor time; None: any.
    """

    arch: str
    backend: str
    flags: str
    millions: float = 0.0
    launch_s: float | None = None


POINTS = (
    Point("sm_80", "flash_attn", "-b 1 -H 2 -s 1024 -d 128", 8.0, 0.3),
    Point("sm_80", "flash_attn", "-b 1 -H 2 -s 256 -d 128 --direction bwd"),
    Point("sm_80", "mem_efficient", "-b 1 -H 2 -s 512 -d 128"),
    Point("sm_90a", "cudnn_oss", "-b 1 -H 2 -s 1024 -d 128 --dtype bf16 --causal", 4.0),
)
MOST_LOAD_S, MOST_MIB = 1.0, 1024.0
"""The longest time to load a kernel's PTX, and the largest process."""


def misses(row: dict[str, Any], point: Point) -> tuple[str, ...]:
    """The missed goal of a row with all checks, in words; empty without checks."""
    if not row["checks"]:
        return ()
    bounds = (
        (row["equivalents_per_cpu_s"] >= point.millions, f"{point.millions:.0f} million warp instructions a second"),
        (point.launch_s is None or row["cpu_s"] <= point.launch_s, f"{point.launch_s} s a launch"),
        (row["load_s"] <= MOST_LOAD_S, f"{MOST_LOAD_S:.0f} s to load the PTX"),
        (row["peak_mib"] <= MOST_MIB, f"{MOST_MIB:.0f} MiB"),
    )
    return tuple(f"{point.arch} {point.backend}: {words}" for good, words in bounds if not good)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The results in Markdown."""
    lines = [
        "| kernel | checks | warp instructions | M/s of processor time (least to most) | M/s, matrix work in m16n8k16 | launch s | load s | peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        low, high = r["spread"]
        lines.append(
            f"| {r['arch']} {r['backend']} `{r['flags']}` | {'on' if r['checks'] else 'off'} | {r['instructions']:,} | "
            f"{r['million_per_cpu_s']:.2f} ({low:.2f} to {high:.2f}) | {r['equivalents_per_cpu_s']:.2f} | {r['cpu_s']:.3f} | {r['load_s']:.2f} | {r['peak_mib']:.0f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; 1 if a kernel misses an aim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=int, help="the number of one point, from 0")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("POINT", "CHECKS"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        point, checks = POINTS[int(given.one[0])], given.one[1] == "1"
        row = measured(point.arch, point.flags, 1, checks, given.rounds, point.backend)
        print(json.dumps({**row, "backend": point.backend}))
        return 0
    rows, missed = [], []
    for number in range(len(POINTS)) if given.only is None else (given.only,):
        for checks in ("1", "0"):
            command = [sys.executable, __file__, "--rounds", str(given.rounds), "--one", str(number), checks]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rows.append(json.loads(done.stdout))
            missed += misses(rows[-1], POINTS[number])
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    text = table(rows)
    print(text)
    if given.json:
        given.json.write_text(json.dumps({"schema": SCHEMA, "rows": rows}, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(text + "\n", "utf-8")
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
