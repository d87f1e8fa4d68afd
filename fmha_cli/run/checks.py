"""Checks of one launch's outputs, apart from the guards: wrong, never written, not finite, not repeated; and other inputs whose answer
follows from a known one, because attention is linear in V and its gradients are linear in dO.

Negating V negates O exactly, and leaves LSE as it is (where V is in K, both are negated with Q, which leaves Q K): every product,
sum and rounding of a kernel is symmetric about zero. So a launch on other data is judged without a second reference, and a kernel
that returns the result of an earlier launch gives itself away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import SupportsFloat, cast

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.emulation import Finding, FindingKind
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.invariance import BitDifference
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need
from fmha_cli.domain.tensors import Element
from fmha_cli.domain.verdict import Comparison, Verdict
from fmha_cli.oracle.budgets import F32_EPS
from fmha_cli.oracle.tensors import Array, Inputs, numpy_dtype, packed_bias
from fmha_cli.oracle.tolerance import compare, compare_gradients
from fmha_cli.run.arena import Unwritten
from fmha_cli.run.cases import Case
from fmha_cli.run.guards import as_words

_SIGNED = tuple(
    numpy_dtype(element) for element in (Element.FP32, Element.FP16, Element.BF16, Element.FP8_E4M3, Element.FP8_E5M2)
)
"""Types with a separate sign bit, the highest one. (fp8 of the kind ``fnuz`` has none for zero.)"""


@dataclass(frozen=True)
class Negated:
    """Inputs with some tensors negated, and the outputs that this negates.

    Attributes:
        what: the tensors, for people: ``V``.
    """

    inputs: Inputs
    outputs: frozenset[str]
    what: str

    def restored(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs that the inputs as they were would have given."""
        return {name: negated(array) if name in self.outputs else array for name, array in outputs.items()}


def negated_inputs(problem: Problem, inputs: Inputs) -> Negated | None:
    """The inputs with V negated (with Q and K, where V is in K), or dO in a backward pass alone; None if their type has no
    sign bit.

    The outputs include a cache that the kernel appends to (``v``).
    """
    if problem.direction.forward and problem.v_in_k:
        names, what = {"q", "k", "k_new"} & set(inputs), "Q and K"
        flipped = {"o", "k", *(("dbias",) if problem.direction.backward else ())}
    elif problem.direction.forward:
        names, what = {"v", "v_new"} & set(inputs), "V"
        flipped = {"o", "v", *(("dq", "dk", "dbias") if problem.direction.backward else ())}
    else:
        names, what, flipped = {"do"}, "dO", {"dq", "dk", "dv", "dbias"}
    if not names or any(inputs[name].dtype not in _SIGNED for name in names):
        return None
    changed = {name: negated(array) if name in names else array for name, array in inputs.items()}
    return Negated(changed, frozenset(flipped), what)


def negated(array: Array) -> Array:
    """The array with every sign bit flipped, those of NaN too."""
    out = np.array(array, order="C")
    words = as_words(out)
    words ^= words.dtype.type(_sign(out))
    return out


def without_signed_zero(array: Array) -> Array:
    """The array with +0 for every -0. The sign of a zero does not follow from the other sign of its terms."""
    if array.dtype not in _SIGNED:
        return array
    out = np.array(array, order="C")
    words = as_words(out)
    words[words == _sign(out)] = 0
    return out


def _sign(array: Array) -> int:
    return 1 << (8 * array.dtype.itemsize - 1)


Outputs = Mapping[str, Array]
Bools = npt.NDArray[np.bool_]

_GRADIENTS = ("dq", "dk", "dv", "dbias")

FLUSHES = "matrix_flushes_subnormals"
"""The fact of an architecture that lists the types whose subnormal numbers its matrix instructions treat as zero."""
SUM_BITS = "matrix_sum_bits"
"""The fact that says how many bits behind the point its matrix instructions keep of sums, by the type of the terms' factors."""


def compared(plan: Plan, case: Case, outputs: Outputs) -> Comparison:
    """Compare every output that the kernel returned with the case's reference answers.

    An output without a measured error budget cannot be judged, so its comparison is distrusted.
    """
    forward, backward = plan.passes()[0], plan.passes()[-1]
    flushes, sums = _arithmetic(plan)
    parts = []
    try:
        if case.reference is not None:
            cache = {name: outputs[name] for name in case.reference.cache}
            lse = outputs.get("lse")
            parts.append(
                compare(
                    plan.problem,
                    outputs["o"],
                    lse,
                    case.reference,
                    cache=cache,
                    flushes=flushes,
                    sums=sums,
                    **_judged_as(forward, case),
                )
            )
        if case.gradients is not None:
            grads = {
                name: _without_padding(plan.problem, name, outputs[name]) for name in _GRADIENTS if name in outputs
            }
            parts.append(
                compare_gradients(plan.problem, grads, case.gradients, flushes=flushes, **_judged_as(backward, case))
            )
    except UnsupportedError as fault:
        return Comparison(checks=(), distrust=f"not judged: {fault.what}")
    notes = [note for part in parts for note in part.notes]
    if case.nonfinite and parts:
        values = "value" if case.nonfinite == 1 else "values"
        notes.insert(0, f"inputs hold {case.nonfinite} non-finite {values}")
    return Comparison(
        checks=tuple(check for part in parts for check in part.checks),
        distrust=next((part.distrust for part in parts if part.distrust), None),
        notes=tuple(notes),
    )


def _judged_as(part: Plan, case: Case) -> dict[str, str]:
    """What selects the budgets of a pass's outputs."""
    return {"fill": case.fill, "family": part.main.family.value, "backend": part.main.backend}


def _arithmetic(plan: Plan) -> tuple[bool, float]:
    """Whether the matrix instructions flush subnormals of the problem's type, and the error of a sum, relative to its largest term."""
    arch, dtype = plan.main.arch, plan.problem.dtype.value
    facts = load_arch(arch).facts if arch in arch_names() else {}
    bits = facts.get(SUM_BITS, {}).get("value", {}).get(dtype)
    return FLUSHES in facts and dtype in facts[FLUSHES]["value"], F32_EPS if bits is None else float(2.0**-bits)


def _place(name: str, where: Bools, what: str) -> list[str]:
    """One line about the elements of an output that ``where`` marks; empty if it marks none."""
    if not where.any():
        return []
    first = [int(n) for n in np.argwhere(where)[0]]
    return [f"{name}: {int(where.sum())} of {where.size} elements {what}, first at {first}"]


def never_written(problem: Problem, found: Iterable[Unwritten]) -> list[str]:
    """One line for each output with meaningful elements that a run did not write."""
    notes = []
    for one in found:
        meaning = meaningful(problem, one.tensor)
        notes += _place(one.tensor, one.where if meaning is None else one.where & meaning, "never written")
    return notes


def not_finite(case: Case, outputs: Outputs) -> list[str]:
    """Non-finite elements of O, where the reference covers a sample of the rows only.

    O averages rows of V, so it is finite if the inputs are. Nothing is reported if they are not.
    """
    if not case.sampled or case.nonfinite:
        return []
    return _place("o", ~np.isfinite(outputs["o"]), "are not finite")


def returned_again(first: Outputs, restored: Outputs, negated: Iterable[str]) -> list[str]:
    """One line for each output in which a launch on negated inputs returned what the launch before had returned.

    Unlike the comparison with the reference, it sees every row.

    Args:
        restored: the outputs with their sign restored.
        negated: names of the outputs whose sign must follow the inputs'.
    """
    notes = []
    for name in sorted(set(negated) & set(first)):
        words = as_words(first[name])
        sign = words.dtype.type(1 << (8 * words.itemsize - 1))
        same = (as_words(restored[name]) ^ sign) == words
        means = (words & ~sign != 0) & (first[name] == first[name])  # zero and NaN have no sign to tell by
        notes += _place(name, same & means, "are those of an earlier launch")
    return notes


def differing(
    first: Outputs, second: Outputs, ignore: Iterable[Unwritten] = (), what: str = "differ between runs"
) -> list[BitDifference]:
    """The first place in each output whose bits differ.

    Args:
        ignore: elements that one of the runs did not write. They hold the poison, which alternates between runs.
    """
    skip: dict[str, Bools] = {}
    for one in ignore:
        skip[one.tensor] = skip[one.tensor] | one.where if one.tensor in skip else one.where
    found = []
    for name, array in first.items():
        sides = as_words(array), as_words(second[name])
        different = sides[0] != sides[1]
        if name in skip:
            different &= ~skip[name]
        if not different.any():
            continue
        index = tuple(int(n) for n in np.argwhere(different)[0])
        bits = [f"{int(side[index]):#0{2 + 2 * side.dtype.itemsize}x}" for side in sides]
        found.append(
            BitDifference(
                tensor=name,
                index=index,
                differing=int(different.sum()),
                elements=different.size,
                first=_finite(array[index]),
                second=_finite(second[name][index]),
                first_bits=bits[0],
                second_bits=bits[1],
                what=what,
            )
        )
    return found


def _finite(value: object) -> float | None:
    number = float(cast(SupportsFloat, value))
    return number if isfinite(number) else None


def must_repeat(plan: Plan, output: str) -> bool:
    """Whether two runs of the same inputs must give the same bits of an output.

    Every forward kernel must: its order of summation is fixed, dropout is drawn from a seed, and a split plan
    combines in order. Only dq_dk_dv kernels may add dQ in the order of arrival (atomics). They may not if they were
    compiled to be deterministic, or if they choose at run time and the problem asks for it.
    """
    fixed = {Need.YES, Need.ANY} if plan.problem.deterministic else {Need.YES}
    free = (s.kernel for s in plan.stages if s.family is Family.BWD_DQ_DK_DV)
    return output not in _GRADIENTS or all(kernel.signature.deterministic in fixed for kernel in free)


def meaningful(problem: Problem, name: str) -> Bools | None:
    """The elements of an output that a kernel must write; None = all. The padding of a packed dbias may have any content."""
    return packed_bias(problem) if name == "dbias" else None


def _without_padding(problem: Problem, name: str, gradient: Array) -> Array:
    meaning = meaningful(problem, name)
    return gradient if meaning is None else np.where(meaning, gradient, np.zeros((), gradient.dtype))


FINDINGS_NAMED = 8
"""The most findings that become notes; a record holds all of them."""


def hazards(findings: Sequence[Finding]) -> Iterator[tuple[Verdict, list[str]]]:
    """The verdicts that follow from an emulated device's findings, each with lines for some places, of each kind at least one."""
    outside = [f for f in findings if f.kind is FindingKind.OUT_OF_BOUNDS]
    others = [f for f in findings if f.kind is not FindingKind.OUT_OF_BOUNDS]
    for verdict, found in ((Verdict.OUT_OF_BOUNDS, outside), (Verdict.HAZARD, others)):
        if found:
            rest = len(found) - FINDINGS_NAMED
            first = {finding.kind: finding for finding in reversed(found)}
            ordered = sorted(found, key=lambda finding: finding is not first[finding.kind])
            lines = [finding.line() for finding in ordered[:FINDINGS_NAMED]]
            yield verdict, [*lines, *([f"and {rest} more places"] if rest > 0 else [])]


def badness(comparison: Comparison | None) -> float:
    """The largest share of a budget that a comparison uses; 0 without one."""
    return max((check.badness for _, check in comparison.checks), default=0.0) if comparison else 0.0


def with_rows_of(worse: Comparison, other: Comparison | None, case: Case) -> Comparison:
    """The worse of two comparisons of one case, with the sampled rows of both counted."""
    more = {name: check.rows for name, check in other.checks} if other and case.sampled else {}
    checks = [
        (name, replace(check, rows=min(check.rows + more.get(name, 0), case.rows)) if name in ("o", "lse") else check)
        for name, check in worse.checks
    ]
    return replace(worse, checks=tuple(checks))
