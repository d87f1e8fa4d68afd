"""Execute Triton's own multi-CTA attention example on the PTX emulator, over the grid of its test, and compare it with float64.

The example (``python/examples/gluon/01-attention-forward.py`` of triton-lang/triton) is read from the checkout that ``FMHA_TRITON_HOME`` names;
no part of it is kept here. Its own host code chooses the configuration, makes the descriptors and launches; Triton
compiles the kernel without a GPU, and this project's driver launches it on the emulated device. Two heads of 1,024
rows. O must be within twice one rounding of its type, row by row, the logarithms within 1e-5.
"""

from __future__ import annotations

import importlib.metadata
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fmha_nvptx_emu_tests.support.emulated_triton import emulated_triton
from fmha_nvptx_emu_tests.support.example_attention import LSE, Point, example, module, points, revision, run
from fmha_nvptx_emu_tests.support.ptx_machine import library

from tests.checks.check import Check, Row, code
from tests.checks.tables import table

ARCHS = ("sm_100a", "sm_103a")
LENGTH, HEADS, SEED = 1024, 2, 0
FAULTS = (RuntimeError, AttributeError, AssertionError, TypeError, ValueError, ImportError)
"""The exceptions of Triton for a file of another version: its compiler's error is a RuntimeError, or the interface is
another.
"""


@dataclass(frozen=True)
class ExampleLaunch:
    """A point of the example's own test on an architecture."""

    arch: str
    point: Point

    @property
    def name(self) -> str:
        return f"{self.arch} {self.point}"


def launches() -> Iterator[ExampleLaunch]:
    """Every point, the smallest clusters first."""
    for arch in ARCHS:
        for point in sorted(points(arch), key=lambda p: (p.ctas, p.head_dim)):
            yield ExampleLaunch(arch, point)


def row_of(case: ExampleLaunch) -> Row:
    """Execute a point.

    Raises:
        ValueError: there is no checkout of triton-lang/triton.
    """
    row = {
        "revision": revision(example()), "triton": importlib.metadata.version("triton"), "arch": case.arch, "point": str(case.point),
        **asdict(case.point), "length": LENGTH, "heads": HEADS, "seed": SEED, "units": None,
    }  # fmt: skip
    with emulated_triton(case.arch, Path(library()._name), SEED, None) as driver:
        try:
            ran = run(driver, case.point, LENGTH, SEED, module(example()), HEADS)
        except FAULTS as fault:
            return {**row, "verdict": f"NOT COMPILED: {type(fault).__name__}: {str(fault)[:300]}"}
    launched = ran.launched
    return {
        **row,
        "verdict": ran.verdict,
        "error": None if launched.fault else finite(ran.error),
        "budget": ran.budget,
        "lse_error": None if launched.fault else finite(ran.lse_error),
        "lse_budget": LSE,
        "grid": launched.grid,
        "pair": "cta_group::2" in launched.ptx,
        "findings": dict(Counter(str(kind) for kind in launched.kinds)),
        "first": [one.text for one in launched.observed.findings[:1]],
        "instructions": launched.instructions,
    }


def finite(error: float) -> float | None:
    """The error, or None where something was not written or is not a number: JSON has no infinity."""
    return error if math.isfinite(error) else None


def within(row: Row) -> bool:
    """Whether O and the logarithms are within their budgets, findings or none."""
    pairs = ((row.get("error"), row.get("budget")), (row.get("lse_error"), row.get("lse_budget")))
    return all(error is not None and budget is not None and error < budget for error, budget in pairs)


def summary(rows: Sequence[Row]) -> str:
    """For each state of the example, a line for each launch."""
    parts = []
    for state in dict.fromkeys((row["revision"], row["triton"]) for row in rows):
        some = [row for row in rows if (row["revision"], row["triton"]) == state]
        right = sum(row["verdict"] == "right" for row in some)
        numbers = sum(map(within, some))
        columns = (
            "device",
            "kernel",
            "heads x rows",
            "CTAs",
            "O (of its budget)",
            "logarithms",
            "instructions",
            "verdict",
        )
        parts += [
            f"{state[0]}, Triton {state[1]}: {right} of {len(some)} launches are right; the numbers of {numbers} are.",
            table(columns, map(_line, some)),
        ]
    return "\n\n".join(parts)


def _line(row: Row) -> Sequence[object]:
    error, sums = row.get("error"), row.get("lse_error")
    none = "not all written" if row["verdict"] == "WRONG" else "-"
    o = f"{error:.1e} ({error / row['budget']:.0%})" if error is not None else none
    found = ", ".join(f"`{kind}` {count}" for kind, count in row.get("findings", {}).items())
    verdict = re.sub(r"\{[^}]*\}", "{...}", row["verdict"]) if row["verdict"] != "FINDING" else found
    return (
        f"emu:{row['arch']}", row["point"].rpartition(", ")[0], f"{row['heads']} x {row['length']}", row["ctas"], o,
        f"{sums:.1e}" if sums is not None else none, f"{row.get('instructions', 0):,}", verdict,
    )  # fmt: skip


def depends(case: ExampleLaunch) -> object:
    """The example's state, its compiler and the emulator."""
    return [revision(example()), importlib.metadata.version("triton"), code("plugins/fmha-nvptx-emu/src")]


CHECK = Check(
    cases=launches,
    name=lambda case: case.name,
    carry_out=row_of,
    depends=depends,
    good=lambda row: row["verdict"] == "right",
    stands=lambda row: not row["verdict"].startswith("NOT COMPILED"),
    by=("arch", "verdict"),
    summarise=summary,
)
