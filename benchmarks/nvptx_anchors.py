"""Execute Triton kernels that nobody here wrote on the PTX emulator: PyTorch's and the tutorials', compared with numpy.

    python benchmarks/nvptx_anchors.py [--triton-home FOLDER] [--arch A ...] [--only TEXT] [--json FILE] [--markdown FILE]

Each kernel runs on two problems, the second ragged where the kernel can be, under three seeds, which choose both the data and the order
of the warps. Cases and compiling are those of the plugin's tests (``plugins/fmha-nvptx-emu/fmha_nvptx_emu_tests/support/triton_anchors.py``). An error is the
largest error of a row divided by the row's norm, and must be below the case's budget. ``--triton-home`` names a checkout of
triton-lang/triton at the pinned commit; without it, the tutorials do not run, and the table says so. The script exits with 1 unless every
row is right. No figure is a GPU time.
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
from typing import Any

import numpy as np

SCHEMA = "fmha.nvptx-anchors/1"
SEEDS = (0, 1, 2)
TESTS = Path(__file__).resolve().parents[1] / "plugins" / "fmha-nvptx-emu"


@dataclass(frozen=True)
class Row:
    """One launch.

    Attributes:
        name: what the kernel does.
        error: the largest of a row of the outputs; None if the launch stopped.
        budget: what it must be below.
        marks: classes of instructions in its PTX.
        findings: number of each kind.
        instructions: of warps, executed.
        verdict: right, WRONG, FINDING, or STOPPED and why.
    """

    arch: str
    name: str
    kernel: str
    size: str
    ragged: bool
    seed: int
    error: float | None
    budget: float
    marks: list[str]
    findings: dict[str, int]
    instructions: int
    verdict: str


def cases() -> dict[str, Any]:
    """The makers of cases by name: PyTorch's, and the tutorials' if there is a checkout."""
    from fmha_nvptx_emu_tests.support import attention_anchors, fla_anchors, pytorch_anchors, tutorial_anchors

    found = pytorch_anchors.CASES | (fla_anchors.CASES if importlib.util.find_spec("fla") else {})
    return found | (
        tutorial_anchors.CASES | attention_anchors.CASES if os.environ.get(tutorial_anchors.VARIABLE) else {}
    )


def row_of(arch: str, name: str, ragged: bool, seed: int) -> Row | None:
    """Compile, execute and judge one launch; None if the case is not for this architecture."""
    from fmha_nvptx_emu_tests.support.triton_anchors import execute

    case = cases()[name](np.random.default_rng(seed), ragged, arch)
    if arch not in case.archs:
        return None
    ran = execute(arch, case, seed)
    seen, kinds = ran.seen, dict(Counter(ran.seen.kinds))
    verdict = "FINDING" if kinds else "right" if ran.error < case.budget else "WRONG"
    if seen.fault is not None:
        verdict = f"STOPPED: {seen.fault}"
    return Row(
        arch, name, case.kernel, case.size, case.ragged, seed, None if seen.fault is not None else ran.error, case.budget, ran.marks,
        kinds, int(seen.executed.get("instructions", 0)), verdict,
    )  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Markdown: one line for each kernel, architecture and problem, over the seeds."""
    right = sum(row.verdict == "right" for row in rows)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("triton", "torch"))
    lines = [
        f"{right} of {len(rows)} launches are right; {len({row.name for row in rows})} kernels, {len({(row.name, row.arch) for row in rows})} with architectures; {versions}.",
        "",
        "| kernel | compiled for | has | problem | launches right | worst error | budget | instructions |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((row.name, row.arch, row.size) for row in rows):
        some = [row for row in rows if (row.name, row.arch, row.size) == key]
        good = sum(row.verdict == "right" for row in some)
        errors = [row.error for row in some if row.error is not None]
        worst = f"{max(errors):.1e}" if errors else "-"
        count = max(row.instructions for row in some)
        lines.append(
            f"| {key[0]}: `{some[0].kernel}` | {key[1]} | {', '.join(some[0].marks)} | {key[2]} | {good} of {len(some)} | {worst} "
            f"| {some[0].budget:.1e} | {count:,} |"
        )
    failed = [row for row in rows if row.verdict != "right"]
    if failed:
        lines += ["", *(f"- {r.arch} `{r.kernel}` {r.size} seed {r.seed}: {r.verdict} {r.findings}" for r in failed)]
    return "\n".join((*lines, ""))


def main() -> int:
    """Run the script. Returns 0 if every row is right."""
    if importlib.util.find_spec("fmha_nvptx_emu_tests") is None:
        places = [str(TESTS), str(TESTS.parents[1]), os.environ.get("PYTHONPATH", "")]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environ, check=False).returncode
    from fmha_nvptx_emu_tests.support.triton_anchors import ARCHS
    from fmha_nvptx_emu_tests.support.tutorial_anchors import VARIABLE

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--triton-home", type=Path, metavar="FOLDER", help="a checkout of triton-lang/triton at the pinned commit"
    )
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=ARCHS)
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    args = parser.parse_args()
    if args.triton_home:
        os.environ[VARIABLE] = str(args.triton_home)
    points = [(a, n, r, s) for n in cases() if args.only in n for a in args.arch for r in (False, True) for s in SEEDS]
    rows = []
    for point in points:
        row = row_of(*point)
        if row:
            rows.append(row)
            print(f"{row.verdict:8} {row.arch} {row.name} {row.size} seed {row.seed} {row.findings or ''}", flush=True)
    if args.json:
        document = {"schema": SCHEMA, "rows": [asdict(row) for row in rows]}
        args.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if args.markdown:
        args.markdown.write_text(table(rows), "utf-8")
    return int(not rows or any(row.verdict != "right" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
