"""Plant faults in real kernels' PTX and record how an emulated device catches them.

    python benchmarks/nvptx_emulator_faults.py [--kernels TEXT] [--fault TEXT ...] [--sample N] [--seed S] [--limit N]
                                               [--json FILE [--resume]] [--markdown FILE]

Kernels of several compilers and writers (``planted_ptx_runs.KERNELS``) run as with ``fmha run``. Each fault of ``planted_ptx.py``
is one text and one run, judged like every other row. A fault is caught by name if a finding or a message names its kind and
instruction, also if a deadlock names who waits. Every other fault that was not caught by numbers has a reason that a further run
found. The script exits with 1 if a fault has no reason. ``--json`` is written after every row; ``--resume`` keeps its rows that have
a reason.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from planted_ptx import faults
from planted_ptx_rows import rows
from planted_ptx_runs import KERNELS, Kernel, PlantedPtx
from planted_rows import EXPLAINED, Caught
from planted_statements import Fault, Planted

from fmha_cli.api import FmhaError, Registry, build_registry
from fmha_cli.toolchain.cache.files import replacing

SCHEMA = "fmha.nvptx-emulator-faults/1"
Row = Mapping[str, Any]


def sampled(every: Sequence[Fault], count: int, seed: int) -> list[Fault]:
    """At most ``count`` faults of each class, drawn by the seed, in the order of the text."""
    groups: dict[Planted, list[Fault]] = defaultdict(list)
    for fault in every:
        groups[fault.kind].append(fault)
    rng = random.Random(seed)
    drawn = [group if len(group) <= count else rng.sample(group, count) for group in groups.values()]
    return sorted((fault for group in drawn for fault in group), key=lambda f: (f.line, f.kind))


def key_of(row: Row) -> tuple[str, int, str]:
    """What a row is a row of: the kernel, the line and the text there."""
    return row["kernel"], row["line"], row["after"]


def name_of(kernel: Kernel) -> str:
    """A kernel in the table."""
    return f"{kernel.arch} {kernel.backend} {kernel.name}"


def of_kernel(
    kernel: Kernel, registry: Registry, wanted: Sequence[str], count: int, seed: int, standing: Mapping[Any, Row]
) -> Iterator[Row]:
    """The rows of one kernel, those that stand first as they are."""
    with tempfile.TemporaryDirectory() as folder, PlantedPtx(kernel, registry, Path(folder)) as subject:
        if subject.plain.verdict != "PASSED" or subject.plain.findings:
            raise ValueError(f"{name_of(kernel)}, its text unchanged: {subject.plain}")
        every = faults(subject.text, subject.problem.hdim * subject.problem.dtype.bits // 8)
        chosen = sampled([f for f in every if any(text in f.kind.value for text in wanted)], count, seed)
        name = name_of(kernel)
        yield from (standing[key] for f in chosen if (key := (name, f.line + 1, f.after)) in standing)
        fresh = [f for f in chosen if (name, f.line + 1, f.after) not in standing]
        for row in rows(subject, fresh, every):
            yield {"kernel": name, "digest": subject.spec.digest, **row}


def table(every: Iterable[Row]) -> str:
    """Markdown: the counts by class and by kernel, the reasons for uncaught faults, and the findings that named the others."""
    valid = [row for row in every if row["caught"] is not None]
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in valid:
        kinds[row["fault"]].update(row["kinds"] or (["(stopped)"] if row["caught"] == Caught.NAMED else []))
    lines = []
    for title, member in (("fault", "fault"), ("kernel", "kernel")):
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in valid:
            counts[row[member]][row["caught"]] += 1
        lines += [
            f"| {title} | planted | by name | by numbers alone | endless | not caught | of these |",
            "|---|---|---|---|---|---|---|",
        ]
        total = sum(counts.values(), Counter[str]())
        lines += [_line(name, how) for name, how in sorted(counts.items())] + [_line("**all**", total), ""]
    lines += ["| fault | findings |", "|---|---|"]
    lines += [f"| {name} | {', '.join(f'{k} {n}' for k, n in found.most_common())} |" for name, found in kinds.items()]
    return "\n".join(lines)


def _line(name: str, how: Counter[str]) -> str:
    missed = {kind: how[kind] for kind in (*EXPLAINED, Caught.UNEXPLAINED) if how[kind]}
    reasons = ", ".join(f"{count} {kind.value}" for kind, count in missed.items())
    cells = (how.total(), how[Caught.NAMED], how[Caught.NUMBERS], how[Caught.HANGS], sum(missed.values()), reasons)
    return f"| {name} | {' | '.join(map(str, cells))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", default="", help="kernels whose architecture, backend and name hold this text")
    parser.add_argument(
        "--fault", nargs="+", default=[""], metavar="TEXT", help="classes of faults whose name holds one of these texts"
    )
    parser.add_argument("--sample", type=int, default=12, help="at most so many faults of each class of a kernel")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--limit", type=int, help="stop after so many rows")
    parser.add_argument("--json", type=Path, help="write all rows, after each one")
    parser.add_argument("--resume", action="store_true", help="keep the rows in the file of --json")
    parser.add_argument("--markdown", type=Path, help="write the table")
    given = parser.parse_args(arguments)
    if given.resume and not given.json:
        parser.error("--resume needs --json, the file whose rows it keeps")
    old: list[Row] = []
    if given.resume and given.json.exists():
        old = json.loads(given.json.read_text("utf-8"))["rows"]
    standing = {key_of(row): row for row in old if row["caught"] != Caught.UNEXPLAINED}
    registry, done, refused = build_registry(), list[Row](), list[str]()
    for kernel in (k for k in KERNELS if given.kernels in name_of(k)):
        try:
            for row in of_kernel(kernel, registry, given.fault, given.sample, given.seed, standing):
                done.append(row)
                if given.json:
                    with replacing(given.json) as file:
                        file.write((json.dumps({"schema": SCHEMA, "rows": done}, indent=1) + "\n").encode())
                said = f"{row['kernel']}, line {row['line']}, {row['fault']}: {row['before']} -> {row['after']}"
                print(f"{said}: {row['caught']} {', '.join(row['kinds'])} {row['why']}", file=sys.stderr, flush=True)
                if given.limit and len(done) >= given.limit:
                    break
        except (FmhaError, ValueError) as fault:
            refused.append(f"{name_of(kernel)}: {fault}")
            print(refused[-1], file=sys.stderr)
        if given.limit and len(done) >= given.limit:
            break
    print(text := table(done))
    if given.markdown:
        given.markdown.write_text(text + "\n", "utf-8")
    return int(bool(refused) or any(row["caught"] == Caught.UNEXPLAINED for row in done))


if __name__ == "__main__":
    raise SystemExit(main())
