"""How often `fmha compare` finds a planted slow-down, and how often it finds one that nobody planted.

    python benchmarks/compare_power.py pack quiet "what the machine did" FOLDER... -o benchmarks/compare_noise.json
    python benchmarks/compare_power.py table benchmarks/compare_noise.json
    python benchmarks/compare_power.py nights benchmarks/compare_noise.json

``pack`` keeps what the test looks at of the files FOLDER/*.jsonl, each of which is one `fmha bench` process: the 10 % quantile of
every row, and the machine's best rate next to it, in the order in which the processes ran. ``table`` plays comparisons
with them. Each row of a comparison is a problem and a window of successive processes, both drawn at random, so rows are
independent: the recorded series are few, and many rows repeat parts of them. Sides take turns within the window as
`compare --run` has them, or are its two halves, as stored runs are. A slow-down multiplies the times of one row's
second side.

A comparison has a false alarm if any row that was not touched is called slower or faster.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.bench.compare import Speed
from fmha_cli.bench.difference import Decision, SidePair, SureRule, decided
from fmha_cli.bench.processes import LEAST_SAMPLES, LEVEL, ProcessSide
from fmha_cli.bench.sampling import orders
from fmha_cli.bench.stats import quantile
from fmha_cli.report.json_text import json_text
from fmha_cli.report.lines import problem_text
from fmha_cli.report.reading import content_of
from fmha_cli.results.comparison import processes_to_confirm

ROWS = (1, 30, 300)
PLANTED = (1.0, 1.05, 1.10, 1.20)
PROCESSES = 8

Process = tuple[int, float | None]
"""The 10 % quantile of a process in nanoseconds, and the machine's best rate next to it."""
Series = Sequence[Process]
"""The processes of one problem in the order in which they ran."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one comparison: whether every planted row was found, and whether another one was called slower or
    faster.

    ``missed`` counts the planted rows that were not found.
    """

    found: bool
    alarm: bool
    missed: int = 0


def packed(folders: Sequence[Path]) -> dict[str, list[list[float | None]]]:
    """Problem and threads -> the processes."""
    rows: dict[str, list[list[float | None]]] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.jsonl"))):
        for record in content_of(path.read_bytes()).records:
            measured = record.measurement
            if measured is None or len(measured.samples_ns) < LEAST_SAMPLES:
                continue
            rate = None if measured.ceiling is None else round(max(measured.ceiling.before, measured.ceiling.after))
            name = problem_text(record.problem)
            rows.setdefault(name, []).append([round(quantile(measured.samples_ns, LEVEL)), rate])
    return rows


def window(series: Sequence[Series], count: int, draw: random.Random) -> Series:
    """So many successive processes of one problem, from a place drawn at random."""
    chosen = draw.choice(series)
    start = draw.randrange(len(chosen) - count + 1)
    return chosen[start : start + count]


def pair_of(processes: Series, factor: float, *, interleaved: bool, draw: random.Random) -> SidePair:
    """The two sides of a row, the second one slowed down."""
    half = len(processes) // 2
    order = (
        [side for turn in orders(half, draw.randrange(2**32)) for side in turn]
        if interleaved
        else [0] * half + [1] * half
    )
    sides: tuple[list[Process], list[Process]] = ([], [])
    for side, process in zip(order, processes, strict=True):
        sides[side].append((round(process[0] * factor), process[1]) if side else process)
    first, second = (
        ProcessSide.of([[ns] * LEAST_SAMPLES for ns, _ in side], [rate for _, rate in side if rate is not None])
        for side in sides
    )
    return SidePair(first, second)


def compared(
    series: Sequence[Series],
    rows: int,
    factor: float,
    *,
    stages: int,
    stored: bool,
    draw: random.Random,
    planted: int = 1,
    any_false: bool = True,
) -> Outcome:
    """One comparison of so many rows, the first of which are slowed down by a factor; 1 plants nothing.

    Args:
        stages: 1 for the first look alone; 2 with fresh processes for the suspicious rows.
        stored: whether the sides of the first look ran one after the other.
        planted: number of rows that are slowed down.
        any_false: of the rule for fresh processes.
    """
    factors = [*[factor] * planted, *[1.0] * (rows - planted)]
    windows = [window(series, 2 * PROCESSES, draw) for _ in factors]
    pairs = [pair_of(w, f, interleaved=not stored, draw=draw) for w, f in zip(windows, factors, strict=True)]
    first = decided(pairs, SureRule(interleaved=not stored))
    if stages == 1:
        return _outcome(dict(enumerate(first)), factor, planted)
    places = [place for place, decision in enumerate(first) if decision.suspicious]
    count = processes_to_confirm(len(places), SureRule().alpha)
    fresh = [pair_of(window(series, 2 * count, draw), factors[i], interleaved=True, draw=draw) for i in places]
    return _outcome(dict(zip(places, decided(fresh, SureRule(any_false=any_false)), strict=True)), factor, planted)


def _outcome(decisions: Mapping[int, Decision], factor: float, rows: int) -> Outcome:
    sure = {place: decision.sure for place, decision in decisions.items() if decision.sure is not None}
    planted = range(rows if factor != 1 else 0)
    missed = sum(sure.get(place) is not Speed.SLOWER for place in planted)
    return Outcome(bool(planted) and not missed, any(place not in planted for place in sure), missed)


MODES: Mapping[str, Mapping[str, Any]] = {
    "in turns, first look": {"stages": 1, "stored": False},
    "stored, first look": {"stages": 1, "stored": True},
    "in turns, confirmed": {"stages": 2, "stored": False},
    "stored, confirmed": {"stages": 2, "stored": True},
}


def series_of(recorded: Mapping[str, Any]) -> list[Series]:
    """The series of one machine."""
    return [[(ns, rate) for ns, rate in processes] for processes in recorded["rows"].values()]


def table(noise: Mapping[str, Any], trials: int) -> list[str]:
    """The lines of a Markdown table."""
    names = [f"{round((f - 1) * 100)} % found" for f in PLANTED[1:]]
    lines = [
        f"| machine | mode | rows | false alarms | with a planted row | {' | '.join(names)} |",
        "|---" * (5 + len(names)) + "|",
    ]
    for machine, recorded in noise.items():
        series = series_of(recorded)
        for mode, how in MODES.items():
            for rows in ROWS:
                draw = random.Random(f"{mode} {rows}")
                each = [[compared(series, rows, f, draw=draw, **how) for _ in range(trials)] for f in PLANTED]
                alarms = share(o.alarm for o in each[0])
                planted = share(o.alarm for outcomes in each[1:] for o in outcomes)
                found = " | ".join(share(o.found for o in outcomes) for outcomes in each[1:])
                lines.append(f"| {machine} | {mode} | {rows} | {alarms} | {planted} | {found} |")
                print(lines[-1], flush=True)
    return lines


def nights(noise: Mapping[str, Any], trials: int) -> list[str]:
    """The lines of a Markdown table: half of the rows are slower by 10 %, as in ``nightly.py``."""
    lines = [
        "| machine | rows | corrected by | a false alarm | a planted row missed | planted rows found |",
        "|---|---|---|---|---|---|",
    ]
    for machine, recorded in noise.items():
        series = series_of(recorded)
        for rows in ROWS[1:]:
            for any_false in (False, True):
                draw = random.Random(f"night {rows}")
                how = {"stages": 2, "stored": False, "planted": rows // 2, "any_false": any_false}
                each = [compared(series, rows, 1.10, draw=draw, **how) for _ in range(trials)]
                alarms, missed = share(o.alarm for o in each), share(o.missed > 0 for o in each)
                found = 100 - 100 * sum(o.missed for o in each) / (trials * (rows // 2))
                rule = "Holm" if any_false else "Benjamini and Hochberg"
                lines.append(f"| {machine} | {rows} | {rule} | {alarms} | {missed} | {found:.2f} % |")
                print(lines[-1], flush=True)
    return lines


def share(answers: Any) -> str:
    """``4.2 %``."""
    every = list(answers)
    return f"{100 * sum(every) / len(every):.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    pack = commands.add_parser("pack", help="add recorded processes to a file of noise")
    pack.add_argument("machine", help="name of the condition: quiet, busy")
    pack.add_argument("what", help="what the machine did meanwhile")
    pack.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    pack.add_argument("-o", "--output", type=Path, required=True)
    for name, help in (
        ("table", "play comparisons"),
        ("nights", "play comparisons in which half of the rows are slower"),
    ):
        play = commands.add_parser(name, help=help)
        play.add_argument("noise", type=Path)
        play.add_argument("--trials", type=int, default=300)
    args = parser.parse_args()
    if args.command != "pack":
        played = table if args.command == "table" else nights
        played(json.loads(args.noise.read_text("utf-8")), args.trials)
        return
    noise = json.loads(args.output.read_text("utf-8")) if args.output.exists() else {}
    noise[args.machine] = {"what": args.what, "rows": packed(args.folders)}
    args.output.write_text(json_text(noise) + "\n", "utf-8")


if __name__ == "__main__":
    main()
