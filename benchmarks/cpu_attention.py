"""Compare the CPU kernels with their peers, with each other and with the machine's own ceilings, interleaved in one run.

    python benchmarks/cpu_attention.py [--quick] [--only TEXT] [--rounds N] [--threads N] [--isa avx2] [--alone] [--json FILE]

Needs the extra ``peers``, and the plugins fmha-torch, fmha-onnxruntime and fmha-openvino, which call the peers.
``cpu_cells.py`` has the problems and the goal of each. Every round samples each contender and the ceiling loop once, in
a new random order, with a pause before each sample (thread pools spin), and is led by launches of its own that do not
count. A sample waits for a quiet machine and is repeated if other processes used the machine (``quiet.py``); the result
shows how much they used.

The script reports medians over the rounds with their 95 % intervals: GFLOP/s (or GB/s), the share of the ceiling of the same
round, the time of each peer divided by our time, and our time for a unit of work divided by that of another problem of ours.
Where the ceiling is the loop of multiply-adds, a loop of one register tile, all of it in the first-level cache, runs
next to it. Its instructions fit into the time of its multiply-adds, so what it lacks of 100 % may be lost to a
neighbour that the machine's own figures do not show, a guest on the core's other hardware thread, say. Kernels lose to
it too. Data are normally distributed. Before timing, every peer's output is compared with ours. Idle threads of ONNX
Runtime and of PyTorch do not spin in this script, which may slow them down a little on small shapes. OpenVINO is left
out with ``--isa``, because it has no switch that holds it to an instruction set.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

_THREADS = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, _THREADS)
if "--isa" in sys.argv[1:-1]:
    from isa import ISAS

    os.environ.update(ISAS[sys.argv[sys.argv.index("--isa") + 1]].variables)

import numpy as np  # noqa: E402 - the variables above must be set first
from contenders import (  # noqa: E402
    Ceiling,
    Contender,
    allowed_difference,
    ceiling_of,
    ceilings,
    device_for,
    library_versions,
    machine,
    ours,
    peers,
    tensors,
)
from cpu_cells import Cell, cells  # noqa: E402
from quiet import Clock, repeats_for  # noqa: E402

from fmha_cli.bench.stats import median, median_interval  # noqa: E402
from fmha_cli.domain.problem import Problem  # noqa: E402
from fmha_cli.system.usage import keep_freed_memory  # noqa: E402

PAUSE_S = 0.010
CEILING, TILE, OWN, BASE = "ceiling", "register tile", "fmha", "base"


def check(reference: Contender, other: Contender, problem: Problem) -> str | None:
    """Run both once. Returns how their outputs disagree, or None if they agree."""
    reference.run()
    other.run()
    if reference.output is None or other.output is None:
        return None
    mine, theirs = reference.output().astype(np.float64), other.output().astype(np.float64)
    error = float(np.abs(mine - theirs).max())
    limit = allowed_difference(problem)
    return None if error <= limit else f"{other.name} differs from ours by {error:.3g}"


def entrants(cell: Cell, threads: int, alone: bool) -> tuple[list[Contender], list[str]]:
    """Ours, the base or the peers of a cell, and why peers are missing."""
    problem, notes = cell.problem, []
    inputs = tensors(problem)
    found = [ours(problem, inputs, threads, cell.isa)]
    if cell.base is not None:
        base = Problem.from_cli(cell.base)
        other = ours(base, tensors(base), cell.base_threads or threads, cell.isa)
        return [*found, Contender(BASE, other.run)], notes
    for peer in peers(problem, inputs, threads, cell.isa) if cell.ahead and not alone else ():
        if isinstance(peer, str):
            notes.append(peer)
            continue
        wrong = check(found[0], peer, problem)
        notes.extend([wrong] if wrong else [])
        found.extend([] if wrong else [peer])
    return found, notes


def measure(
    cell: Cell, rounds: int, threads: int, loops: Mapping[str, Ceiling], clock: Clock, *, alone: bool = False
) -> dict[str, Any]:
    """Interleaved rounds of all contenders of a cell: nanoseconds per contender, rates of the loops per round.

    ``loops`` has the ceiling, and the register tile if its share of the ceiling is to be told.
    """
    contenders, notes = entrants(cell, threads, alone)
    rates: list[float] = []
    asked = loops if cell.share is not None else {}
    everyone = [
        *contenders,
        *(Contender(name, lambda loop=loop: rates.append(loop.run())) for name, loop in asked.items()),
    ]
    repeats = {c.name: repeats_for(c.run) for c in contenders} | dict.fromkeys(loops, 1)
    samples: dict[str, list[float]] = {c.name: [] for c in everyone}
    others: dict[str, list[float]] = {c.name: [] for c in everyone}
    draw = random.Random(0)
    for _ in range(rounds):
        draw.shuffle(everyone)
        for contender in everyone:
            time.sleep(PAUSE_S)
            rates.clear()
            taken = clock.sample(contender.run, repeats[contender.name])
            loop = asked.get(contender.name)
            work = loop.work if loop is not None and clock.cpu else None
            rate = max(rates, default=0.0) if work is None else work / taken.ns * 1e9
            samples[contender.name].append(taken.ns if loop is None else rate)
            others[contender.name].append(taken.others)
    found = {"ceiling": samples.pop(CEILING, []), "register_tile": samples.pop(TILE, [])}
    return {**found, "samples_ns": samples, "others": others, "notes": notes}


def work_of(problem: Problem, threads: int) -> float:
    """Units of work of one thread: visible pairs of all heads, or bytes of a decode problem."""
    return (problem.bytes() if problem.seqlen_q == 1 else problem.heads * problem.visible_pairs()) / threads


def middle(values: Sequence[float]) -> dict[str, Any]:
    """The median and its 95 % interval, which few values do not have."""
    interval = median_interval(values)
    return {"median": float(np.median(values)), "ci95": None if interval is None else list(interval)}


def torch_floor(cell: Cell) -> float:
    """How many times as long PyTorch must take here: its libraries are slower on Zen 5 than on others, relative to the peak."""
    return cell.torch if cell.torch is not None and machine()["microarchitecture"] == "zen5" else 1.0


def summary(cell: Cell, raw: dict[str, Any], threads: int) -> dict[str, Any]:
    """The medians of per-round ratios, and which floors are missed."""
    problem = cell.problem
    decode = problem.seqlen_q == 1
    work = problem.bytes() if decode else problem.flops()
    mine = raw["samples_ns"][OWN]
    row: dict[str, Any] = {
        **{key: value for key, value in asdict(cell).items() if value is not None},
        "rate": work / median(mine),
        "unit": "GB/s" if decode else "GF",
        "ms": median(mine) / 1e6,
        **raw,
        "noise": float(np.median([x for shares in raw["others"].values() for x in shares])),
    }
    missed = []
    if cell.share is not None:
        row["reached"] = middle([work / t * 1e9 / rate for t, rate in zip(mine, raw["ceiling"], strict=True)])
        missed += ["share"] if row["reached"]["median"] < cell.share else []
    if raw["register_tile"]:
        row["tile"] = middle([tile / rate for tile, rate in zip(raw["register_tile"], raw["ceiling"], strict=True)])
    if cell.base is not None:
        unit = work_of(Problem.from_cli(cell.base), cell.base_threads or threads) / work_of(problem, threads)
        row["relative"] = middle([t / b * unit for t, b in zip(mine, raw["samples_ns"][BASE], strict=True)])
        missed += ["relative"] if cell.most is not None and row["relative"]["median"] > cell.most else []
    elif cell.ahead:
        row["peers"] = {
            name: middle([theirs / us for theirs, us in zip(times, mine, strict=True)])
            for name, times in raw["samples_ns"].items()
            if name != OWN
        }
        missed += [name for name, ratio in row["peers"].items() if ratio["median"] <= 1]
        torch = [ratio["median"] for name, ratio in row["peers"].items() if name.startswith("torch")]
        missed += ["torch"] if torch and min(torch) < torch_floor(cell) else []
    missed += ["time"] if cell.microseconds is not None and median(mine) > 1e3 * cell.microseconds else []
    return row | {"missed": missed}


def span(found: Mapping[str, Any], form: str) -> str:
    """A median with its interval."""
    ends = found["ci95"]
    text = format(found["median"], form)
    return text if ends is None else f"{text} ({format(ends[0], form)}-{format(ends[1], form)})"


def line(row: Mapping[str, Any]) -> str:
    """One row of the table, in Markdown."""
    peers_text = ", ".join(f"{name} x{span(ratio, '.2f')}" for name, ratio in sorted(row.get("peers", {}).items()))
    against = f"x{span(row['relative'], '.2f')} of the time" if "relative" in row else peers_text
    wanted = [
        *([f"{row['share']:.0%}, aim {row['aim']:.0%}"] if "share" in row else []),
        *(["ahead"] if row["ahead"] else []),
        *([f"torch x{row['torch']} on Zen 5"] if "torch" in row else []),
        *([f"at most x{row['most']:.2f}"] if "most" in row else []),
        *([f"at most {row['microseconds']} us"] if "microseconds" in row else []),
    ]
    rate = f"{1e3 * row['ms']:.1f} us" if "microseconds" in row else f"{row['rate']:.0f} {row['unit']}"
    cells_of = (
        row["regime"],
        row["flags"].replace(" --dtype fp32", "").replace(" --direction bwd", ""),
        rate,
        span(row["reached"], ".0%") if "reached" in row else "",
        f"{row['tile']['median']:.0%}" if "tile" in row else "",
        against,
        f"{row['noise']:.0%}",
        "; ".join(wanted),
        "met" if not row["missed"] else f"NOT MET: {', '.join(row['missed'])}",
    )
    return "| " + " | ".join(cells_of) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=int(_THREADS))
    parser.add_argument("--only", default="", help="regimes that contain this text")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    parser.add_argument("--isa", choices=("avx2",), help="hold ours and the peers to it: the cells of that set alone")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for --threads 1 on a busy machine"
    )
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for a quiet machine, in all")
    parser.add_argument("--json", type=Path, help="write every sample")
    chosen = parser.parse_args()
    wanted = [c for c in cells() if chosen.only in c.regime and c.isa == chosen.isa]
    if not wanted:
        regimes = dict.fromkeys(c.regime for c in cells() if c.isa == chosen.isa)
        parser.error(f"no regime contains {chosen.only!r}; there are: {', '.join(regimes)}")
    keep_freed_memory()  # as the worker of `fmha bench` does
    rounds = 3 if chosen.quick else chosen.rounds
    rates = ceilings(chosen.threads, chosen.isa)
    clock = Clock(patience=chosen.patience, cpu=chosen.clock == "cpu")
    print(
        f"{machine()} {library_versions()} {chosen.threads} threads, {rounds} rounds, idle threads of ORT and PyTorch do not spin",
        file=sys.stderr,
    )
    print(
        "| regime | problem | rate | share of ceiling (95 %) | a register tile's | time of peer / ours, or ours / base | others ran | floor | |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    rows: list[dict[str, Any]] = []
    for cell in wanted:
        if (cell.base_threads or 0) >= chosen.threads:
            continue
        top = ceiling_of(cell.problem, device_for(chosen.isa))
        loops = {CEILING: rates[top]} | ({TILE: rates["register_tile"]} if top == "fma" else {})
        raw = measure(cell, rounds, chosen.threads, loops, clock, alone=chosen.alone)
        rows.append(summary(cell, raw, chosen.threads))
        print(line(rows[-1]), flush=True)
        for note in raw["notes"]:
            print(f"  note: {note}", file=sys.stderr)
        if chosen.json:
            report = {"machine": machine(), "versions": library_versions(), "threads": chosen.threads, "rows": rows}
            chosen.json.write_text(json.dumps(report, indent=1, sort_keys=True), "utf-8")
    met = [row for row in rows if not row["missed"]]
    print(f"\n{len(met)} of {len(rows)} cells met")


if __name__ == "__main__":
    main()
