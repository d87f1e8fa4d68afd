"""Plant faults in real kernels' assembly and record how an emulated device catches them.

    python benchmarks/emulator_faults.py [--only TEXT] [--fault TEXT] [--sample N --seed S] [--json FILE] [--markdown FILE]

Kernels of CK-Tile (``planted_runs.KERNELS``) run as with ``fmha run``. If Triton is installed, one kernel of its
compiler is launched alone. Each fault of ``planted_text.py`` is one assembly text, one code object and one run.

For each kernel and class of faults, the table has four counts: planted, caught by name, caught by numbers alone, and
not caught. A fault is caught by name if a finding or a message names its kind and instruction. A launch that never ends
counts as caught by numbers. Below the table, each uncaught fault has a reason: it was never executed, has no effect on
any bit of the results, is covered by another wait, ... The script exits with 1 if a fault has no reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from planted_rows import EXPLAINED, Caught, rows
from planted_runs import KERNELS, Kernel, PlantedKernel
from planted_text import Fault, Planted, faults

from fmha_cli.api import build_registry

Row = Mapping[str, Any]
_TRITON = Path(__file__).parents[1] / "plugins/fmha-amdgpu-emu/fmha_amdgpu_emu_tests/support/planted_triton.py"


def sampled(every: Sequence[Fault], count: int | None, seed: int) -> list[Fault]:
    """``count`` faults of each class, in the order of the text; None means all."""
    groups: dict[Planted, list[Fault]] = defaultdict(list)
    for fault in every:
        groups[fault.kind].append(fault)
    rng = random.Random(seed)
    drawn = [g if count is None or len(g) <= count else rng.sample(g, count) for g in groups.values()]
    return sorted((fault for group in drawn for fault in group), key=lambda f: (f.lines, f.kind))


def of_composable_kernel(kernel: Kernel, wanted: str, count: int | None, registers: int, seed: int) -> Iterator[Row]:
    """The rows of one CK-Tile kernel."""
    with tempfile.TemporaryDirectory() as folder, PlantedKernel(kernel, build_registry(), Path(folder)) as subject:
        if subject.plain.verdict != "PASSED" or subject.plain.findings:
            raise SystemExit(f"{kernel.name}, its text unchanged: {subject.plain}")
        every = faults(subject.text, kernel.arch, subject.problem.hdim * 2)
        chosen = chosen_of(every, wanted, count, registers, seed)
        for row in rows(subject, chosen, every):
            yield {"kernel": kernel.name, "arch": kernel.arch, "digest": subject.spec.digest, **row}


def chosen_of(every: Sequence[Fault], wanted: str, count: int | None, registers: int, seed: int) -> list[Fault]:
    """The faults of the wanted classes, with at most ``registers`` of the hundreds of renumbered registers."""
    kept = [f for f in every if wanted in f.kind.value]
    many = [f for f in kept if f.kind is Planted.RENUMBERED]
    few = [f for f in kept if f.kind is not Planted.RENUMBERED]
    return sampled(few, count, seed) + sampled(many, min(registers, count or registers), seed)


def of_triton(arch: str, wanted: str, count: int | None, registers: int, seed: int) -> Iterator[Row]:
    """The rows of Triton's attention, from a separate process that loads no backend's runtime."""
    paths = (
        str(Path(__file__).parent),
        str(Path(__file__).parents[1]),
        str(_TRITON.parents[2]),
        os.environ.get("PYTHONPATH", ""),
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    words = [arch, wanted, "" if count is None else str(count), str(registers), str(seed)]
    with subprocess.Popen(
        (sys.executable, str(_TRITON), *words), env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield json.loads(line)
    if child.returncode:
        raise SystemExit(f"planting in Triton's kernel failed with status {child.returncode}")


def table(every: Iterable[Row]) -> str:
    """Markdown: the counts, the reasons for uncaught faults, and the findings that named the others."""
    counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in every:
        counts[row["arch"], row["kernel"], row["fault"]][row["caught"]] += 1
        kinds[row["fault"]].update(row["kinds"] or (["(stopped)"] if row["caught"] == Caught.NAMED else []))
    lines = [
        "| kernel | fault | planted | by name | by numbers alone | not caught | of these |",
        "|---|---|---|---|---|---|---|",
    ]
    for (arch, kernel, fault), how in counts.items():
        numbers = how[Caught.NUMBERS] + how[Caught.HANGS]
        missed = {k: how[k] for k in (*EXPLAINED, Caught.UNEXPLAINED) if how[k]}
        reasons = ", ".join(f"{count} {kind.value}" for kind, count in missed.items())
        cells = (how.total(), how[Caught.NAMED], numbers, sum(missed.values()), reasons)
        lines.append(f"| {arch} {kernel} | {fault} | {' | '.join(map(str, cells))} |")
    total = sum((how for how in counts.values()), Counter[str]())
    missed_all = sum(total[k] for k in (*EXPLAINED, Caught.UNEXPLAINED))
    numbers_all = total[Caught.NUMBERS] + total[Caught.HANGS]
    lines.append(f"| **all** | | {total.total()} | {total[Caught.NAMED]} | {numbers_all} | {missed_all} | |")
    lines += ["", "| fault | findings |", "|---|---|"]
    lines += [
        f"| {fault} | {', '.join(f'{k} {n}' for k, n in found.most_common())} |" for fault, found in kinds.items()
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels whose architecture and name hold this text")
    parser.add_argument("--fault", default="", help="classes of faults whose name holds this text")
    parser.add_argument("--sample", type=int, help="so many faults of each class, drawn by --seed")
    parser.add_argument("--registers", type=int, default=60, help="at most so many renumbered registers of each kernel")
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--json", type=Path, help="write all rows, as each is done")
    parser.add_argument("--markdown", type=Path, help="write the table")
    given = parser.parse_args(arguments)
    options = (given.fault, given.sample, given.registers, given.seed)
    sources = [of_composable_kernel(k, *options) for k in KERNELS if given.only in f"{k.arch} {k.name}"]
    if find_spec("triton") is not None:
        sources += [of_triton(a, *options) for a in ("gfx942", "gfx1201") if given.only in f"{a} Triton attention"]
    done: list[Row] = []
    for source in sources:
        for row in source:
            done.append(row)
            text = f"{row['arch']} {row['kernel']}, line {row['line']}, {row['fault']}: {row['before']}"
            print(f"{text}: {row['caught']} {', '.join(row['kinds'])} {row['why']}", file=sys.stderr, flush=True)
            if given.json:
                given.json.write_text(json.dumps({"schema": "fmha.emulator-faults/1", "rows": done}, indent=1), "utf-8")
    text = table(done)
    print(text)
    if given.markdown:
        given.markdown.write_text(text + "\n", "utf-8")
    return int(any(row["caught"] == Caught.UNEXPLAINED for row in done))


if __name__ == "__main__":
    raise SystemExit(main())
