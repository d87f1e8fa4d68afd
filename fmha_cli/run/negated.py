"""Other inputs whose answer follows from a known one: attention is linear in V, its gradients are linear in dO.

Negating V negates O exactly, and leaves LSE as it is (where V is in K, both are negated with Q, which leaves Q K): every product, sum and rounding of a kernel is symmetric about
zero. So a launch on other data is judged without a second reference, and a kernel that returns the result of an earlier
launch gives itself away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.tensors import Array, Inputs, numpy_dtype
from fmha_cli.run.poison import as_words

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
