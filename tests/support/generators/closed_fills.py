"""The power of the closed fills (``fmha_cli.oracle.closed``): which planted faults they show, and one wrong row among many."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element, lse_shape, shapes_of
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.oracle.closed import ClosedAnswer, why_not
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array, Inputs, numpy_dtype, round_to
from fmha_cli.oracle.tolerance import compare
from tests.support.generators.campaign import can_matter, sample_problem, sample_style
from tests.support.models.faults import Fault
from tests.support.models.kernel_model import model_forward

TRIES = 1000
"""Problems that are drawn in search of one to which both the fault and the fill apply."""


@dataclass(frozen=True)
class Shown:
    """Whether a fault changed any bit of the output, and whether the rules caught it."""

    changed: bool
    caught: bool


def shown(seed: int, dtype: DType, kind: str, fault: Fault | None) -> Shown | None:
    """One run of the kernel model under a closed fill, judged by its closed answer; None if the fill never applies."""
    rng = np.random.Generator(np.random.PCG64([seed, 4]))
    for _ in range(TRIES):
        problem = sample_problem(rng, dtype, fault)
        if why_not(problem, kind) is None and (fault is None or can_matter(fault, problem)):
            break
    else:
        return None
    inputs = fill(problem, kind, seed)
    style = sample_style(rng, fault, dtype)
    right = model_forward(problem, inputs, style=style)
    got = right if fault is None else model_forward(problem, inputs, fault=fault, style=style)
    comparison = compare(problem, got.o, got.lse, ClosedAnswer(problem, kind, inputs, seed), fill=kind)
    changed = right.o.tobytes() != got.o.tobytes() or right.lse.tobytes() != got.lse.tobytes()
    return Shown(changed, comparison.verdict is Verdict.WRONG)


class WrongRow(StrEnum):
    """What is planted in one row of O, or in its LSE."""

    NEIGHBOUR = "the row before"
    OTHER_HEAD = "the same row of another head"
    ZERO = "zeros"
    NAN = "one NaN"
    ELEMENT = "one element off by 1/4 of the row's root mean square"
    SCALED = "the row times 1 + 2^-5"
    LSE = "LSE off by 0.01"


class Haystack:
    """A large problem under a closed fill with an honest output: the answer, rounded once."""

    def __init__(self, line: str, kind: str, seed: int = 0) -> None:
        self.problem, self.kind = Problem.from_cli(line), kind
        self.inputs: Inputs = fill(self.problem, kind, seed)
        self.answer = ClosedAnswer(self.problem, kind, self.inputs, seed)
        element = Element.of(self.problem.dtype_out)
        self.o: Array = np.empty(shapes_of(self.problem)["o"].shape, numpy_dtype(element))
        self.lse = np.empty(lse_shape(self.problem), np.float32)
        for piece in self.answer.pieces():
            self.o[piece.rows.index(self.problem, self.problem.layout_out)] = round_to(piece.o, element)
            self.lse[piece.rows.index(self.problem)] = piece.lse

    @property
    def rows(self) -> int:
        """Number of query rows."""
        return self.lse.size

    def judged(self) -> Comparison:
        """The comparison of the output as it is."""
        return compare(self.problem, self.o, self.lse, self.answer, fill=self.kind)

    def with_wrong_row(self, what: WrongRow, h: int, i: int) -> Comparison:
        """The comparison with row i > 0 of head h > 0 of the first sequence changed (batch mode, bhsd); it is put back."""
        o, lse = self.o[0, h, i].copy(), self.lse[0, h, i].copy()
        row = o.astype(np.float64)
        planted = {
            WrongRow.NEIGHBOUR: self.o[0, h, i - 1],
            WrongRow.OTHER_HEAD: self.o[0, h - 1, i],
            WrongRow.ZERO: np.zeros_like(row),
            WrongRow.SCALED: row * (1 + 2**-5),
        }
        if what in planted:
            self.o[0, h, i] = planted[what]
        elif what is WrongRow.LSE:
            self.lse[0, h, i] += np.float32(0.01)
        else:
            off = np.nan if what is WrongRow.NAN else row[0] + (row**2).mean() ** 0.5 / 4
            self.o[0, h, i, 0] = off
        try:
            return self.judged()
        finally:
            self.o[0, h, i], self.lse[0, h, i] = o, lse
