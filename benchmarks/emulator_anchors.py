"""Execute code from outside this project and Composable Kernel on the emulated AMD devices; one table of all anchors.

    python benchmarks/emulator_anchors.py [--all] [--only TEXT] [--json FILE]

There are three anchors, each compared with numpy: attention in Triton's language, compiled by Triton; kernels written
in assembly (the code objects of the source ``aiter-asm``); and plain HIP kernels, compiled by clang. The launches are
those of the plugin's tests (``plugins/fmha-amdgpu-emu/fmha_amdgpu_emu_tests``); ``--all`` also uses the shapes of the slow suite.

An error is the largest error of a row divided by the row's norm, and must not exceed its limit. A HIP kernel checks its
own values, most of them bit for bit. A finding that is the kernel's own fault is *known* (``assembly_cases.py`` has the
reasons). Anchors that the machine cannot run are skipped with the reason. The script exits with 1 unless every row is
right. No figure is a GPU time.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[1] / "plugins" / "fmha-amdgpu-emu"
SEED = "7"


@dataclass(frozen=True)
class Row:
    """The result of one launch or of one plain kernel.

    Attributes:
        error, limit: None if the kernel's own check has no single figure.
        findings: number of each kind.
        verdict: right, known (right, with findings that are the kernel's fault), WRONG, FINDING, or skipped and why.
    """

    anchor: str
    arch: str
    kernel: str
    error: float | None
    limit: float | None
    findings: dict[str, int]
    verdict: str


def judged(anchor: str, arch: str, kernel: str, error: float, limit: float, found: list[Any], known: str) -> Row:
    """A row from figures; ``known`` is the kind of finding that is the kernel's own fault."""
    kinds = Counter(str(finding["kind"]) for finding in found)
    verdict = "right" if error < limit else "WRONG"
    if kinds and error < limit:
        verdict = "known" if set(kinds) == {known} else "FINDING"
    return Row(anchor, arch, kernel, error, limit, dict(kinds), verdict)


Launch = tuple[str, str, str, Callable[[], Row]]
"""Anchor, architecture, kernel, and its runner."""


def triton(every: bool) -> Iterator[Launch]:
    """Anchor (a)."""
    from fmha_amdgpu_emu_tests.support.harness import ARCHS
    from fmha_amdgpu_emu_tests.test_triton import ROUNDING, launched

    shapes: list[tuple[int, tuple[int, int], tuple[int, int]]] = [(64, (64, 32), (100, 130))]
    if every:
        blocks = ((32, (32, 16)), (128, (64, 64)), (128, (128, 32)), (64, (16, 128)))
        shapes += [(d, b, n) for d, b in blocks for n in ((1, 1), (64, 64), (65, 200), (128, 33))]

    def run(arch: str, name: str, dtype: str, causal: bool, shape: tuple[int, tuple[int, int], tuple[int, int]]) -> Row:
        error, lse, found = launched(arch, dtype, causal=causal, hdim=shape[0], block=shape[1], lengths=shape[2])
        row = judged("triton", arch, name, error, 2 * ROUNDING[dtype], found, "")
        return row if lse < 2e-6 else Row(**{**asdict(row), "verdict": "WRONG"})

    for arch, shape, dtype, causal in itertools.product(ARCHS, shapes, ROUNDING, (False, True)):
        (hdim, block, (rows, keys)) = shape
        if causal and rows > keys:
            continue
        name = f"attention {dtype} d{hdim} {rows}x{keys} blocks {block[0]}x{block[1]}{' causal' if causal else ''}"
        yield "triton", arch, name, partial(run, arch, name, dtype, causal, shape)


def assembly(every: bool) -> Iterator[Launch]:
    """Anchor (b)."""
    from fmha_amdgpu_emu_tests.support.assembly_backward import Backward, backward
    from fmha_amdgpu_emu_tests.support.assembly_cases import MANY_BACKWARD, MANY_FORWARD, QUICK_BACKWARD, QUICK_FORWARD
    from fmha_amdgpu_emu_tests.support.assembly_forward import Forward, forward
    from fmha_amdgpu_emu_tests.support.assembly_others import MANY_OTHERS, QUICK_OTHERS, Other

    def run(case: Forward | Backward | Other) -> Row:
        arch, _, name = case.title.partition("/")
        if isinstance(case, Other):
            error, observed = case.call()
            return judged("assembly", arch, name, error, case.limit, observed["findings"], case.known)
        known = "lds-race" if case.races else ""
        if isinstance(case, Forward):
            outcome = forward(case)
            return judged("assembly", arch, name, outcome.error, case.limit, outcome.findings, known)
        gradients = backward(case)
        return judged("assembly", arch, name, max(gradients.errors), case.limit, gradients.findings, known)

    cases: list[Forward | Backward | Other] = [*QUICK_FORWARD, *QUICK_BACKWARD, *QUICK_OTHERS]
    if every:
        cases += [
            *MANY_FORWARD,
            *MANY_BACKWARD,
            *(c for c in MANY_OTHERS if c.title not in {q.title for q in QUICK_OTHERS}),
        ]
    for case in cases:
        arch, _, name = case.title.partition("/")
        yield "assembly", arch, name, partial(run, case)


def plain(every: bool) -> Iterator[Launch]:
    """Anchor (c); without ``every``, only the architectures' usual waves."""
    from fmha_amdgpu_emu_tests.support.hip_building import VARIANTS

    for variant in VARIANTS:
        if every or "-" not in variant:
            yield "hip", variant, "plain kernels", partial(_plain_rows, variant)


def _plain_rows(variant: str) -> Any:
    from fmha_amdgpu_emu_tests.support.hip_building import arch_of, code_object, library, run_child
    from fmha_amdgpu_emu_tests.support.hip_cases import CASES
    from fmha_amdgpu_emu_tests.test_hip_kernels import ACROSS_HALVES, KERNELS

    cases = sorted(set(CASES) - (ACROSS_HALVES if "-" in variant else set()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = code_object(KERNELS, variant, folder)
        child = PLUGIN / "fmha_amdgpu_emu_tests" / "support" / "hip_child.py"
        said = run_child(child, arch_of(variant), folder, str(library()), str(code), SEED, *cases)
    for case, answer in json.loads(said).items():
        kinds = Counter(finding["kind"] for finding in answer["observed"]["findings"])
        right = not answer["fault"] and answer["observed"]["fault"] is None
        verdict = "WRONG" if not right else "FINDING" if kinds else "right"
        yield Row("hip", variant, case, None, None, dict(kinds), verdict)


def rows_of(launch: Launch) -> Iterator[Row]:
    """The rows of a launch, or a row with the reason why it was skipped."""
    anchor, arch, kernel, run = launch
    try:
        got = run()
        yield from [got] if isinstance(got, Row) else got
    except pytest.skip.Exception as skipped:
        yield Row(anchor, arch, kernel, None, None, {}, f"skipped: {skipped}")


def line(row: Row) -> str:
    """A row of the table."""
    error = "-" if row.error is None else f"{row.error:.1e}"
    limit = "-" if row.limit is None else f"{row.limit:.1e}"
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(row.findings.items())) or "none"
    return f"| {row.anchor} | {row.arch} | {row.kernel} | {error} | {limit} | {found} | {row.verdict} |"


def main() -> int:
    """Run the script. Returns 0 if all rows are right or known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the shapes of the slow suite too")
    parser.add_argument("--only", metavar="TEXT", help="launches whose anchor, architecture and kernel hold TEXT")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows")
    args = parser.parse_args()
    if importlib.util.find_spec("fmha_amdgpu_emu_tests") is None:
        places = [str(PLUGIN), str(PLUGIN.parents[1]), str(PLUGIN / "src"), os.environ.get("PYTHONPATH", "")]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environ, check=False).returncode
    launches: list[Launch] = []
    rows: list[Row] = []
    for anchor in (triton, assembly, plain):
        try:
            launches += anchor(args.all)
        except pytest.skip.Exception as skipped:
            rows.append(Row(anchor.__name__, "-", "-", None, None, {}, f"skipped: {skipped}"))
    print("| anchor | arch | kernel | error | limit | findings | verdict |\n|---|---|---|---|---|---|---|")
    for launch in launches:
        if args.only is None or args.only in " ".join(launch[:3]):
            for row in rows_of(launch):
                rows.append(row)
                print(line(row), flush=True)
    print()
    for anchor_name in dict.fromkeys(row.anchor for row in rows):
        some = [row for row in rows if row.anchor == anchor_name]
        verdicts = Counter(row.verdict.partition(":")[0] for row in some)
        worst = max((row.error / row.limit for row in some if row.error is not None and row.limit), default=0.0)
        share = f", the largest error {worst:.2f} of its limit" if worst else ""
        print(f"{anchor_name}: {', '.join(f'{n} {verdict}' for verdict, n in verdicts.items())}{share}")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")
    return int(any(row.verdict in ("WRONG", "FINDING") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
