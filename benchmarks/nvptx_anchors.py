"""Execute Triton kernels that nobody here wrote on the PTX emulator: PyTorch's, compiled by Triton, compared with numpy.

    python benchmarks/nvptx_anchors.py [--arch A ...] [--only TEXT] [--json FILE] [--markdown FILE]

Each kernel runs on an even and on a ragged problem, under three seeds, which choose both the data and the order of the warps. Cases
and compiling are those of the plugin's tests (``plugins/fmha-nvptx-emu/tests/triton_anchors.py``). An error is the largest error of a
row divided by the row's norm, and must be below the rounding of binary16. The script exits with 1 unless every row is right. No figure
is a GPU time.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

SCHEMA = "fmha.nvptx-anchors/1"
SEEDS = (0, 1, 2)
TESTS = Path(__file__).resolve().parents[1] / "plugins" / "fmha-nvptx-emu" / "tests"


@dataclass(frozen=True)
class Row:
    """One launch.

    Attributes:
        error: the largest of a row of the output; None if the launch stopped.
        findings: number of each kind.
        instructions: of warps, executed.
        verdict: right, WRONG, FINDING, or STOPPED and why.
    """

    arch: str
    kernel: str
    size: str
    ragged: bool
    seed: int
    error: float | None
    findings: dict[str, int]
    instructions: int
    verdict: str


def row_of(arch: str, name: str, ragged: bool, seed: int) -> Row:
    """Compile, execute and judge one launch."""
    from triton_anchors import CASES, ROUNDING, execute

    case = CASES[name](np.random.default_rng(seed), ragged)
    seen, error = execute(arch, case, seed)
    kinds = dict(Counter(seen.kinds))
    verdict = "FINDING" if kinds else "right" if error < ROUNDING else "WRONG"
    if seen.fault is not None:
        verdict = f"STOPPED: {seen.fault}"
    found = None if seen.fault is not None else error
    return Row(
        arch, case.kernel, case.size, ragged, seed, found, kinds, int(seen.executed.get("instructions", 0)), verdict
    )


def table(rows: Sequence[Row]) -> str:
    """Markdown: one line for each kernel, architecture and problem, over the seeds."""
    right = sum(row.verdict == "right" for row in rows)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("triton", "torch"))
    lines = [
        f"{right} of {len(rows)} launches are right; {len({row.kernel for row in rows})} kernels; {versions}.",
        "",
        "| kernel | compiled for | problem | launches right | worst error | instructions |",
        "|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((row.kernel, row.arch, row.size) for row in rows):
        some = [row for row in rows if (row.kernel, row.arch, row.size) == key]
        good = sum(row.verdict == "right" for row in some)
        errors = [row.error for row in some if row.error is not None]
        worst = f"{max(errors):.1e}" if errors else "-"
        count = max(row.instructions for row in some)
        lines.append(f"| `{key[0]}` | {key[1]} | {key[2]} | {good} of {len(some)} | {worst} | {count:,} |")
    failed = [row for row in rows if row.verdict != "right"]
    if failed:
        lines += ["", *(f"- {r.arch} `{r.kernel}` {r.size} seed {r.seed}: {r.verdict} {r.findings}" for r in failed)]
    return "\n".join((*lines, ""))


def main() -> int:
    """Run the script. Returns 0 if every row is right."""
    if importlib.util.find_spec("triton_anchors") is None:
        places = [str(TESTS), os.environ.get("PYTHONPATH", "")]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environ, check=False).returncode
    from triton_anchors import ARCHS, CASES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=ARCHS)
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    args = parser.parse_args()
    points = [(a, n, r, s) for n in CASES if args.only in n for a in args.arch for r in (False, True) for s in SEEDS]
    rows = []
    for point in points:
        rows.append(row_of(*point))
        print(
            f"{rows[-1].verdict:8} {rows[-1].arch} {rows[-1].kernel} {rows[-1].size} seed {rows[-1].seed}", flush=True
        )
    if args.json:
        document = {"schema": SCHEMA, "rows": [asdict(row) for row in rows]}
        args.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if args.markdown:
        args.markdown.write_text(table(rows), "utf-8")
    return int(not rows or any(row.verdict != "right" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
