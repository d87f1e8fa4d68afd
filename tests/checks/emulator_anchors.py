"""Execute code from outside this project and Composable Kernel on the emulated AMD devices.

There are three anchors, each compared with numpy: attention in Triton's language, compiled by Triton; kernels written in assembly (the code
objects of the source ``aiter-asm``); and plain HIP kernels, compiled by clang. The launches are those of the plugin's tests; those whose names
begin with *quick* need the least time.

An error is the largest error of a row divided by the row's norm, and must not exceed its limit. A HIP kernel checks its own values, most of
them bit for bit. A finding that is the kernel's own fault is *known* (``assembly_cases.py`` has the reasons). Anchors that the machine cannot
run are skipped with the reason.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fmha_amdgpu_emu_tests.support import assembly_cases, hip_child
from fmha_amdgpu_emu_tests.support.assembly_backward import Backward, backward
from fmha_amdgpu_emu_tests.support.assembly_forward import Forward, forward
from fmha_amdgpu_emu_tests.support.assembly_others import MANY_OTHERS, QUICK_OTHERS, Other
from fmha_amdgpu_emu_tests.support.harness import ARCHS
from fmha_amdgpu_emu_tests.support.hip_building import VARIANTS, arch_of, code_object, library, run_child
from fmha_amdgpu_emu_tests.support.hip_cases import CASES
from fmha_amdgpu_emu_tests.test_hip_kernels import ACROSS_HALVES, KERNELS

from tests.checks.check import Check, Row, code

SEED = "7"
RIGHT = ("right", "known")
Runner = Callable[[], Row | Iterator[Row]]
Shape = tuple[int, tuple[int, int], tuple[int, int]]
"""Head dim, block, rows and keys."""


@dataclass(frozen=True)
class Anchor:
    """A launch: ``quick`` or ``many``, the anchor's name, the architecture, the kernel."""

    sort: str
    anchor: str
    arch: str
    kernel: str

    @property
    def name(self) -> str:
        return f"{self.sort} {self.anchor} {self.arch} {self.kernel}"


def judged(anchor: str, arch: str, kernel: str, error: float, limit: float, found: list[Any], known: str) -> Row:
    """A row from figures; ``known`` is the kind of finding that is the kernel's own fault."""
    kinds = Counter(str(finding["kind"]) for finding in found)
    verdict = "right" if error < limit else "WRONG"
    if kinds and error < limit:
        verdict = "known" if set(kinds) == {known} else "FINDING"
    return row_of(anchor, arch, kernel, error, limit, dict(kinds), verdict)


def row_of(
    anchor: str,
    arch: str,
    kernel: str,
    error: float | None,
    limit: float | None,
    findings: dict[str, int],
    verdict: str,
) -> Row:
    """A row; error and limit are None if the kernel's own check has no single figure."""
    return {
        "anchor": anchor, "arch": arch, "kernel": kernel, "error": error, "limit": limit, "findings": findings, "verdict": verdict,
    }  # fmt: skip


def triton() -> Iterator[tuple[Anchor, Runner]]:
    """Attention in Triton's language."""
    from fmha_amdgpu_emu_tests.test_triton import ROUNDING

    blocks = ((32, (32, 16)), (128, (64, 64)), (128, (128, 32)), (64, (16, 128)))
    many = [(d, b, n) for d, b in blocks for n in ((1, 1), (64, 64), (65, 200), (128, 33))]
    shapes: list[tuple[str, Shape]] = [("quick", (64, (64, 32), (100, 130))), *(("many", shape) for shape in many)]
    for arch, (sort, shape), dtype, causal in product(ARCHS, shapes, ROUNDING, (False, True)):
        hdim, block, (rows, keys) = shape
        if not causal or rows <= keys:
            kernel = f"{dtype} d{hdim} {rows}x{keys} blocks {block[0]}x{block[1]}{' causal' if causal else ''}"
            yield Anchor(sort, "triton", arch, kernel), partial(_triton_row, arch, kernel, dtype, causal, shape)


def _triton_row(arch: str, kernel: str, dtype: str, causal: bool, shape: Shape) -> Row:
    from fmha_amdgpu_emu_tests.test_triton import ROUNDING, launched

    error, lse, found = launched(arch, dtype, causal=causal, hdim=shape[0], block=shape[1], lengths=shape[2])
    row = judged("triton", arch, kernel, error, 2 * ROUNDING[dtype], found, "")
    return row if lse < 2e-6 else {**row, "verdict": "WRONG"}


def assembly() -> Iterator[tuple[Anchor, Runner]]:
    """Kernels written in assembly."""
    quick = {case.title for case in QUICK_OTHERS}
    sorts: dict[str, list[Forward | Backward | Other]] = {
        "quick": [*assembly_cases.QUICK_FORWARD, *assembly_cases.QUICK_BACKWARD, *QUICK_OTHERS],
        "many": [
            *assembly_cases.MANY_FORWARD,
            *assembly_cases.MANY_BACKWARD,
            *(case for case in MANY_OTHERS if case.title not in quick),
        ],
    }
    for sort, cases in sorts.items():
        for case in cases:
            arch, _, kernel = case.title.partition("/")
            yield Anchor(sort, "assembly", arch, kernel), partial(_assembly_row, case)


def _assembly_row(case: Forward | Backward | Other) -> Row:
    arch, _, kernel = case.title.partition("/")
    if isinstance(case, Other):
        error, observed = case.call()
        return judged("assembly", arch, kernel, error, case.limit, observed["findings"], case.known)
    known = "lds-race" if case.races else ""
    if isinstance(case, Forward):
        outcome = forward(case)
        return judged("assembly", arch, kernel, outcome.error, case.limit, outcome.findings, known)
    gradients = backward(case)
    return judged("assembly", arch, kernel, max(gradients.errors), case.limit, gradients.findings, known)


def plain() -> Iterator[tuple[Anchor, Runner]]:
    """Plain HIP kernels; the architectures' usual waves are quick."""
    for variant in VARIANTS:
        sort = "many" if "-" in variant else "quick"
        yield Anchor(sort, "hip", variant, "plain kernels"), partial(_plain_rows, variant)


def _plain_rows(variant: str) -> Iterator[Row]:
    cases = sorted(set(CASES) - (ACROSS_HALVES if "-" in variant else set()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = code_object(KERNELS, variant)
        said = run_child(Path(hip_child.__file__), arch_of(variant), folder, str(library()), str(built), SEED, *cases)
    for case, answer in json.loads(said).items():
        kinds = Counter(finding["kind"] for finding in answer["observed"]["findings"])
        right = not answer["fault"] and answer["observed"]["fault"] is None
        verdict = "WRONG" if not right else "FINDING" if kinds else "right"
        yield row_of("hip", variant, case, None, None, dict(kinds), verdict)


def launches() -> dict[Anchor, Runner]:
    """Every launch; Triton's if it is installed."""
    return dict([*(triton() if find_spec("triton") else ()), *assembly(), *plain()])


def rows_of(anchor: Anchor) -> Iterator[Row]:
    """The rows of a launch, or a row with the reason why it was skipped."""
    try:
        got = launches()[anchor]()
        yield from [got] if isinstance(got, dict) else got
    except pytest.skip.Exception as skipped:
        yield row_of(anchor.anchor, anchor.arch, anchor.kernel, None, None, {}, f"skipped: {skipped}")


def good(row: Row) -> bool:
    return row["verdict"] in RIGHT or str(row["verdict"]).startswith("skipped")


def largest(rows: Sequence[Row]) -> str:
    """The largest error of each anchor."""
    shares: dict[str, float] = {}
    for row in rows:
        if row["error"] is not None:
            shares[row["anchor"]] = max(shares.get(row["anchor"], 0.0), row["error"] / row["limit"])
    return "\n".join(f"{anchor}: the largest error is {share:.2f} of its limit." for anchor, share in shares.items())


def sort_of(row: Row) -> str:
    """For the summary."""
    return str(row["verdict"]).partition(":")[0]


CHECK = Check(
    cases=launches,
    name=lambda anchor: anchor.name,
    carry_out=rows_of,
    depends=lambda anchor: code("plugins/fmha-amdgpu-emu/src"),
    good=good,
    stands=lambda row: row["verdict"] in RIGHT,
    by=(lambda row: f"{row['anchor']} {row['arch']}", sort_of),
    summarise=largest,
)
