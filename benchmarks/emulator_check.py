"""Execute CK-Tile's kernels on emulated AMD devices and judge what they compute.

    python benchmarks/emulator_check.py [--arch A ...] [--only TEXT] [--sample N --seed S] [--list] [--json FILE [--resume]] [--markdown FILE]

``emulator_cases.py`` defines the problems. Each goes through the same walk as ``fmha run``: the kernel is chosen, built
and launched on the device ``emu:ARCH``; its result is compared with the reference, and its findings are examined. The
table counts distinct kernels (by digest) for each architecture and family, and names the worst errors. No figure is a
GPU time.

A kernel may have known findings (``arch_specs/_known_bad.json``, ``finding``). A race makes its numbers depend on the
order of its waves. Such a row is therefore executed again with waves in step, and is *known* if its numbers are then
right. (A missing wait changes numbers on a GPU, but not on the emulator, where loads deliver at once.) Known rows are
not counted among the correct kernels. The script exits with 1 unless every row passed or is known.

All kernels take hours to compile. The file of ``--json`` is therefore written after every row. With ``--resume``, the
sound rows in it are kept, each with the revision of this tool that executed it, and only the others are executed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from check_case import Case
from emulator_cases import all_cases

from fmha_cli.api import Registry, build_registry, run, select
from fmha_cli.backends.ck_tile.kernel_rules_target import known_bad
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.problem import Problem
from fmha_cli.toolchain.cache.files import replacing

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201")
BACKEND = "ck_tile"
Point = tuple[str, Case]

SCHEMA = "fmha.emulator-check/2"
KNOWN = "known"
STEP = 4
"""Instructions per turn of a wave that keep the waves in step."""


def candidates(archs: Sequence[str], only: str | None = None) -> list[Point]:
    """The (architecture, case) pairs: all of them, or those whose case name contains ``only``."""
    return [(arch, case) for arch in archs for case in all_cases() if only is None or only in case.name]


def exists(point: Point, registry: Registry) -> bool:
    """Whether the backend has a kernel for a point. The check takes tens of milliseconds."""
    arch, case = point
    wanted = Wanted(backend=BACKEND, arch=arch)
    return select(Problem.from_cli(case.flags), registry, {}, wanted).best is not None


def in_turns(every: Sequence[Point], seed: int, registry: Registry) -> Iterator[Point]:
    """The points that have a kernel, in random order, alternating between architectures and their families.

    Kernels are looked up only for points that are drawn.
    """
    rng = random.Random(seed)
    groups: dict[str, dict[tuple[str, ...], list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in every:
        groups[point[0]][point[1].families].append(point)
    lines: list[list[Point]] = []
    families = sorted({case.families for _, case in every})
    rng.shuffle(families)
    for number, arch in enumerate(sorted(groups)):
        for group in groups[arch].values():
            rng.shuffle(group)
        turned = families[number:] + families[:number]  # so that the first points also differ in their families
        lines.append(
            [group[turn] for turn in range(len(every)) for f in turned if turn < len(group := groups[arch][f])]
        )
    turns = (line[turn] for turn in range(len(every)) for line in lines if turn < len(line))
    return (point for point in turns if exists(point, registry))


def executed(every: Sequence[Point], registry: Registry, seed: int) -> Iterator[dict[str, Any]]:
    """Yields a row for each point as soon as it is complete."""
    code = revision()
    for number, (arch, case) in enumerate(every, 1):
        row = row_of((arch, case), registry, seed) | {"revision": code, "seed": seed}
        kinds = ", ".join(f["kind"] for f in row["findings"])
        print(
            f"{number}/{len(every)} {arch} {case.name}: {row['verdict']} {kinds} {row['seconds']} s",
            file=sys.stderr,
            flush=True,
        )
        yield row


def row_of(point: Point, registry: Registry, seed: int) -> dict[str, Any]:
    """Execute and judge one point."""
    (arch, case), began = point, time.monotonic()
    problem = Problem.from_cli(case.flags)
    record = run(problem, registry=registry, backend=BACKEND, device=f"emu:{arch}", fill_seed=seed)[0].to_dict()
    row = {
        "arch": arch,
        "case": case.name,
        "flags": case.flags,
        "seconds": round(time.monotonic() - began, 2),
        **_figures(record),
    }
    if tuple(s["family"] for s in record["stages"]) != case.families:
        row["notes"] = [*row["notes"], f"expected {', '.join(case.families)}"]
    return row | _known(problem, arch, registry, seed, row)


def stored(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the counts of executed instructions, which are three quarters of it."""
    return {key: value for key, value in row.items() if key != "executed"}


def _known(problem: Problem, arch: str, registry: Registry, seed: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """For a row whose findings are all known for its kernel: the reports' links and the verdict with waves in step."""
    kinds = {finding["kind"] for finding in row["findings"]}
    best = select(problem, registry, {}, Wanted(backend=BACKEND, arch=arch)).best
    if not kinds or best is None:
        return {}
    reports = {r.finding: r.link for r in known_bad() if r.finding and r.meets(best.kernel)}
    if not kinds <= reports.keys():
        return {}
    again = run(
        problem,
        registry=registry,
        backend=BACKEND,
        device=f"emu:{arch}",
        fill_seed=seed,
        emu_turn=STEP,
        emu_checks=False,
    )[0].to_dict()
    right = again["verdict"] == "PASSED"
    return {
        "known": sorted(reports[kind] for kind in kinds),
        "in_step": {"verdict": again["verdict"], "checks": _figures(again)["checks"]},
        **({"verdict": f"{row['verdict']}, {KNOWN}"} if right else {}),
    }


def sound(row: Mapping[str, Any]) -> bool:
    """Whether the row needs no further explanation."""
    verdict: str = row["verdict"]
    return verdict == "PASSED" or verdict.endswith(f", {KNOWN}")


def revision() -> str:
    """The revision of the checkout that holds this script, ``-dirty`` if files differ from it."""
    asked = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*")
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def kept_rows(path: Path, every: Sequence[Point], seed: int) -> dict[Point, dict[str, Any]]:
    """The sound rows of an earlier run for those of its points that are still the same problem, with the same fills."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text("utf-8"))
    known = {(row["arch"], row["case"], row["flags"]): row for row in document["rows"] if sound(row)}
    rows = {point: known.get((point[0], point[1].name, point[1].flags)) for point in every}
    return {point: row for point, row in rows.items() if row is not None and row["seed"] == seed}


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    checks = {name: check for name, check in (record["checks"] or {}).items() if check}
    return {
        "verdict": record["verdict"],
        "repro": record["repro"],
        "device": record["device"],
        "kernels": {stage["digest"]: stage["family"] for stage in record["stages"]},
        "checks": checks,
        "findings": record.get("findings") or [],
        "executed": record.get("executed"),
        "notes": record["notes"],
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: kernels and verdicts for each architecture and family, the worst errors, and the failures."""
    kernels: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        for digest, family in row["kernels"].items():
            if row["verdict"] == "PASSED":
                kernels[row["arch"], family].add(digest)
    archs = list(dict.fromkeys(row["arch"] for row in rows))
    families = sorted({family for _, family in kernels})
    lines = [f"| kernels executed and right | {' | '.join(archs)} |", "|---" * (len(archs) + 1) + "|"]
    for family in families:
        lines.append(f"| {family} | {' | '.join(str(len(kernels[a, family])) for a in archs)} |")
    totals = [sum(len(kernels[a, f]) for f in families) for a in archs]
    lines.append(f"| **all: {sum(totals)}** | {' | '.join(map(str, totals))} |")
    verdicts = [Counter(row["verdict"] for row in rows if row["arch"] == a) for a in archs]
    for verdict in sorted({v for counts in verdicts for v in counts}):
        lines.append(f"| problems {verdict} | {' | '.join(str(counts[verdict]) for counts in verdicts)} |")
    lines += ["", *worst_errors(rows)]
    revisions = Counter(row["revision"] for row in rows)
    lines += ["", "Executed by " + ", ".join(f"{code} ({n})" for code, n in sorted(revisions.items())) + "."]
    failed = [row for row in rows if row["verdict"] != "PASSED"]
    lines += ["", *(f"- {r['arch']}, {r['case']}: {r['verdict']}: {_why(r)}" for r in failed)]
    return "\n".join(lines)


def worst_errors(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table with the row that came closest to its budget, for each data type and output."""
    worst: dict[tuple[str, str], tuple[float, Mapping[str, Any], Mapping[str, Any]]] = {}
    for row in rows:
        if row["verdict"] != "PASSED":
            continue
        dtype = Problem.from_cli(row["flags"]).dtype.value
        for output, check in row["checks"].items():
            share = check["row_l2"] / check["row_l2_budget"] if check["row_l2_budget"] else 0.0
            if (dtype, output) not in worst or share > worst[dtype, output][0]:
                worst[dtype, output] = (share, row, check)
    lines = ["| dtype | output | worst row error | budget | largest error | where |", "|---|---|---|---|---|---|"]
    for (dtype, output), (_, row, check) in sorted(worst.items()):
        where = f"{row['arch']}, {row['case']}"
        errors = f"{check['row_l2']:.2e} | {check['row_l2_budget']:.2e} | {check['max_abs']:.2e}"
        lines.append(f"| {dtype} | {output} | {errors} | {where} |")
    return lines


def _why(row: Mapping[str, Any]) -> str:
    found = [f"{f['kind']}: {f['text']}" for f in row["findings"]]
    if sound(row):
        return f"{len(found)} places, {', '.join(row['known'])}; right with waves in step; {found[0]}"
    return "; ".join([*found, *row["notes"]])[:400]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=list(ARCHS), help="architectures")
    parser.add_argument("--only", help="cases whose name holds this text")
    parser.add_argument("--sample", type=int, help="only so many, drawn by --seed over architectures and families")
    parser.add_argument("--seed", type=int, default=0, help="of the sample and of the fills")
    parser.add_argument("--list", action="store_true", help="print the points and stop")
    parser.add_argument("--json", type=Path, help="write all rows, after each one")
    parser.add_argument("--resume", action="store_true", help="keep the sound rows in the file of --json")
    parser.add_argument("--markdown", type=Path, help="write the table")
    given = parser.parse_args(arguments)
    if given.resume and not given.json:
        parser.error("--resume needs --json, the file whose rows it keeps")
    registry = build_registry()
    every = candidates(given.arch, given.only)
    if given.sample is not None:
        every = list(islice(in_turns(every, given.seed, registry), given.sample))
    else:
        every = [point for point in every if exists(point, registry)]
    if given.list:
        print("\n".join(f"{arch} {case.name}: {case.flags}" for arch, case in every))
        return 0
    kept = kept_rows(given.json, every, given.seed) if given.resume else {}
    rows = list(kept.values())
    for row in executed([point for point in every if point not in kept], registry, given.seed):
        rows.append(row)
        if given.json:
            with replacing(given.json) as file:
                file.write(
                    (json.dumps({"schema": SCHEMA, "rows": [stored(r) for r in rows]}, indent=1) + "\n").encode()
                )
    text = table(rows)
    print(text)
    if given.markdown:
        given.markdown.write_text(text + "\n", "utf-8")
    return int(not all(map(sound, rows)))


if __name__ == "__main__":
    raise SystemExit(main())
