"""Compare the CPU kernel with its peers and the machine's own ceilings, interleaved in one run.

    python benchmarks/cpu_attention.py [--quick] [--only TEXT] [--rounds N] [--threads N] [--json FILE]

Needs the extra ``peers``. Every round samples each contender and the ceiling loop once, in a new random order, with a
pause before each sample (thread pools spin). A sample waits for a quiet machine and is repeated if other processes used
the machine (``quiet.py``); the result shows how much they used.

The script reports medians over the rounds: GFLOP/s (or GB/s), the share of the ceiling of the same round with its 95 %
interval, and the time of each peer divided by our time, with its interval. Data are normally distributed. Before
timing, every contender's output is compared with ours. ONNX Runtime's idle threads do not spin in this script, which
may slow it down a little on small shapes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_THREADS = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, _THREADS)

import numpy as np  # noqa: E402 - the variables above must be set first
from contenders import Ceiling, Contender, ceilings, library_versions, machine, ours, peers, tensors  # noqa: E402
from quiet import Clock, repeats_for  # noqa: E402

from fmha_cli.domain.problem import Problem  # noqa: E402
from fmha_cli.measure.stats import median, median_interval  # noqa: E402

PAUSE_S = 0.010
CEILING = "ceiling"


@dataclass(frozen=True)
class Floor:
    """The required minimum: share of the ceiling, x PyTorch (its best form), x the best other peer."""

    regime: str
    share: float
    torch: float | None
    other: float | None


F32_D128, F32_D64 = Floor("fp32 full d128", 0.80, 2.2, 1.1), Floor("fp32 full d64", 0.72, 2.2, 1.1)
CAUSAL = {
    s: Floor(f"fp32 causal S={s}", f, 2.6, 1.4) for s, f in ((4096, 0.82), (2048, 0.82), (1024, 0.72), (512, 0.60))
}
BF16 = {
    (128, False): Floor("bf16 d128 full", 0.78, 4.0, 1.4),
    (128, True): Floor("bf16 d128 causal", 0.70, 5.0, 2.4),
    (64, False): Floor("bf16 d64 full", 0.75, 3.5, 1.4),
    (64, True): Floor("bf16 d64 causal", 0.65, 5.0, 2.2),
}


BACKWARD = {
    ("fp32", False): Floor("backward fp32 full", 0.84, 2.2, None),
    ("fp32", True): Floor("backward fp32 causal", 0.76, 2.6, None),
    ("bf16", False): Floor("backward bf16 full", 0.80, 2.0, None),
    ("bf16", True): Floor("backward bf16 causal", 0.70, 2.0, None),
}


def backward_cases() -> list[tuple[str, Floor]]:
    """The backward passes; the last ones have fewer heads than threads."""
    shapes = ((16, 1024, 64), (16, 1024, 128), (8, 4096, 128), (1, 2048, 128))
    return [
        (f"-b 1 -H {h} -s {s} -d {d} --dtype {dtype} --direction bwd{' --causal' * causal}", floor)
        for h, s, d in shapes
        for (dtype, causal), floor in BACKWARD.items()
    ]


def cases() -> list[tuple[str, Floor]]:
    """The problems with their floors."""
    shapes = [(1, 16, 16, 1024, 64), (1, 16, 16, 1024, 128), (1, 8, 8, 4096, 128), (1, 32, 8, 2048, 128)]
    out: list[tuple[str, Floor]] = []
    for b, h, g, s, d in shapes:
        base = f"-b {b} -H {h} --kv-heads {g} -s {s} -d {d}"
        out.append((f"{base} --dtype fp32", F32_D128 if d == 128 else F32_D64))
        out.append((f"{base} --dtype fp32 --causal", CAUSAL[s]))
        if g == h:
            out.append((f"{base} --dtype bf16", BF16[d, False]))
            out.append((f"{base} --dtype bf16 --causal", BF16[d, True]))
    out.append(("-b 4 -H 16 -s 512 -d 64 --dtype fp32 --causal", CAUSAL[512]))
    out.append(("-b 1 -H 16 -s 1024 -d 128 --dtype fp16", Floor("fp16 full d128", 0.75, None, 1.1)))
    decode = "-b 4 -H 32 --kv-heads 8 -s 1 --seqlen-k 8192 -d 128"
    out.append((f"{decode} --dtype fp32", Floor("decode fp32", 0.70, 1.6, None)))
    out.append((f"{decode} --dtype bf16", Floor("decode bf16", 0.70, 3.0, None)))
    return out + backward_cases()


def check(reference: Contender, other: Contender, problem: Problem) -> str | None:
    """Run both once. Returns how their outputs disagree, or None if they agree. Gradients are several times as large as O."""
    reference.run()
    other.run()
    if reference.output is None or other.output is None:
        return None
    mine, theirs = reference.output().astype(np.float64), other.output().astype(np.float64)
    error = float(np.abs(mine - theirs).max())
    limit = {"fp32": 2e-5, "fp16": 5e-3, "bf16": 4e-2}[problem.dtype.value] * (8 if problem.direction.backward else 1)
    return None if error <= limit else f"{other.name} differs from ours by {error:.3g}"


def measure(problem: Problem, rounds: int, threads: int, ceiling: Ceiling, clock: Clock) -> dict[str, Any]:
    """Interleaved rounds of all contenders on one problem: nanoseconds per contender, ceiling rate per round."""
    inputs = tensors(problem)
    contenders = [ours(problem, inputs, threads)]
    notes: list[str] = []
    for found in peers(problem, inputs, threads):
        if isinstance(found, str):
            notes.append(found)
            continue
        wrong = check(contenders[0], found, problem)
        notes.extend([wrong] if wrong else [])
        contenders.extend([] if wrong else [found])
    rates: list[float] = []
    top = Contender(CEILING, lambda: rates.append(ceiling.run()))
    everyone = [*contenders, top]
    repeats = {c.name: repeats_for(c.run) for c in contenders} | {CEILING: 1}
    samples: dict[str, list[float]] = {c.name: [] for c in everyone}
    others: dict[str, list[float]] = {c.name: [] for c in everyone}
    draw = random.Random(0)
    for _ in range(rounds):
        draw.shuffle(everyone)
        for contender in everyone:
            time.sleep(PAUSE_S)
            rates.clear()
            taken = clock.sample(contender.run, repeats[contender.name])
            rate = max(rates, default=0.0) if ceiling.work is None or not clock.cpu else ceiling.work / taken.ns * 1e9
            samples[contender.name].append(rate if contender is top else taken.ns)
            others[contender.name].append(taken.others)
    return {"ceiling": samples.pop(CEILING), "samples_ns": samples, "others": others, "notes": notes}


def summary(problem: Problem, floor: Floor, raw: dict[str, Any], unit: str) -> dict[str, Any]:
    """The medians of per-round ratios."""
    work = problem.bytes() if unit == "GB/s" else problem.flops()
    mine = raw["samples_ns"]["fmha"]
    shares = [work / t * 1e9 / rate for t, rate in zip(mine, raw["ceiling"], strict=True)]
    ratios = {
        name: [theirs / us for theirs, us in zip(times, mine, strict=True)]
        for name, times in raw["samples_ns"].items()
        if name != "fmha"
    }
    middle = {name: float(np.median(values)) for name, values in ratios.items()}
    ends = {name: median_interval(values) for name, values in ratios.items()}
    torch = min((v for n, v in middle.items() if n.startswith("torch")), default=None)
    other = min((v for n, v in middle.items() if not n.startswith("torch")), default=None)
    share = float(np.median(shares))
    wanted = ((share, floor.share), (torch, floor.torch), (other, floor.other))
    missed = [w for got, w in wanted if w is not None and got is not None and got < w]
    interval = median_interval(shares)
    return {
        "problem": problem.repro(),
        "regime": floor.regime,
        "rate": work / median(mine),
        "unit": unit,
        "share": share,
        "share_ci95": None if interval is None else list(interval),
        "best_share": max(work / min(mine) * 1e9 / max(raw["ceiling"]), 0.0),
        "ratios": middle,
        "ratios_ci95": {name: None if e is None else list(e) for name, e in ends.items()},
        "noise": float(np.median([x for shares_ in raw["others"].values() for x in shares_])),
        "torch": torch,
        "other": other,
        "floor": vars(floor),
        "met": not missed,
        **raw,
    }


def line(row: dict[str, Any]) -> str:
    """One row of the table, in Markdown."""
    floor, ends = row["floor"], row["share_ci95"]
    scale = "" if ends is None else f" ({ends[0]:.0%}-{ends[1]:.0%})"
    peers_text = ", ".join(
        f"{n} x{v:.2f}" + ("" if (e := row["ratios_ci95"][n]) is None else f" ({e[0]:.2f}-{e[1]:.2f})")
        for n, v in sorted(row["ratios"].items())
    )
    wanted = f"{floor['share']:.0%}"
    wanted += f", torch x{floor['torch']}" if floor["torch"] else ""
    wanted += f", other x{floor['other']}" if floor["other"] else ""
    cells = (
        row["regime"],
        row["problem"].replace(" --dtype fp32", ""),
        f"{row['rate']:.0f} {row['unit']}",
        f"{row['share']:.0%}{scale}",
        f"{row['best_share']:.0%}",
        peers_text,
        f"{row['noise']:.0%}",
        wanted,
        "met" if row["met"] else "NOT MET",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=int(_THREADS))
    parser.add_argument("--only", default="", help="regimes that contain this text")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for --threads 1 on a busy machine"
    )
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for a quiet machine, in all")
    parser.add_argument("--json", type=Path, help="write every sample")
    chosen = parser.parse_args()
    rounds = 3 if chosen.quick else chosen.rounds
    rates = ceilings(chosen.threads)
    clock = Clock(patience=chosen.patience, cpu=chosen.clock == "cpu")
    print(
        f"{machine()} {library_versions()} {chosen.threads} threads, {rounds} rounds, ORT spinning off", file=sys.stderr
    )
    print(
        "| regime | problem | rate | share of ceiling (95 %) | best/best | time of peer / ours | others ran | floor | |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    rows = []
    for flags, floor in cases():
        if chosen.only not in floor.regime:
            continue
        problem = Problem.from_cli(flags)
        decode = problem.seqlen_q == 1
        ceiling = "read" if decode else "dot" if problem.dtype.value == "bf16" else "fma"
        raw = measure(problem, rounds, chosen.threads, rates[ceiling], clock)
        rows.append(summary(problem, floor, raw, "GB/s" if decode else "GF"))
        print(line(rows[-1]), flush=True)
        for note in raw["notes"]:
            print(f"  note: {note}", file=sys.stderr)
    missed = [r["regime"] for r in rows if not r["met"]]
    print(
        f"\n{len(rows) - len(missed)} of {len(rows)} floors met" + (f"; not met: {', '.join(missed)}" if missed else "")
    )
    if chosen.json:
        report = {"machine": machine(), "versions": library_versions(), "threads": chosen.threads, "rows": rows}
        chosen.json.write_text(json.dumps(report, indent=1, sort_keys=True), "utf-8")


if __name__ == "__main__":
    main()
