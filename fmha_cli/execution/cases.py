"""Inputs and right answers of a problem, computed once and shared by all kernels that are judged on it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property

import numpy as np

from fmha_cli.features import Direction
from fmha_cli.oracle.gradients import Gradients, backward
from fmha_cli.oracle.reference import Reference, forward
from fmha_cli.oracle.rows import all_rows, rows_within
from fmha_cli.oracle.tensors import Inputs, round_to
from fmha_cli.problem import Problem
from fmha_cli.tensors import Element

MakeInputs = Callable[[Problem, str], Inputs]
"""(problem, fill) -> every input of the problem but o and lse; called once for each."""

KEPT_BYTES = 1 << 30
"""Inputs and references that are kept; at least the last one always is."""


@dataclass(frozen=True)
class Case:
    """One problem under one fill; without a reference when nothing is to be compared."""

    problem: Problem
    fill: str
    inputs: Inputs
    reference: Reference | None = None
    gradients: Gradients | None = None

    @cached_property
    def nbytes(self) -> int:
        return _nbytes(self.inputs) + _nbytes(self.reference) + _nbytes(self.gradients)


class Cases:
    """Cases by (problem, fill, dropout stream), the last used kept. Held by whoever judges several kernels.

    Args:
        make_inputs: the data, e.g. ``fills.fill`` with a seed, or files.
        oracle_s: seconds that the reference of one case may take; more query rows than fit are sampled
            (``oracle.rows``). A backward pass needs all rows and ignores it.
        seed: of that sample.
    """

    def __init__(
        self, make_inputs: MakeInputs, *, oracle_s: float, seed: int = 0, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self._make = make_inputs
        self._oracle_s = oracle_s
        self._seed = seed
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[tuple[Problem, str, str, bool], Case] = OrderedDict()

    def case(self, problem: Problem, fill: str, *, stream: str, check: bool = True) -> Case:
        """The case of a problem; with ``check``, the right answers too.

        Problems that differ only in what they return or how it is split share one case.

        Raises:
            UsageError: no such fill.
            UnsupportedError: the oracle does not define the answer (dropout streams, tensors without a form).
            MemoryError: it does not fit.
        """
        shared = replace(problem, lse=False, splits=0, deterministic=False)
        key = (shared, fill, stream, check)
        found = self._kept.get(key) or self._computed(shared, fill, stream, check)
        self._kept[key] = found
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(case.nbytes for case in self._kept.values()) > self._kept_bytes:
            self._kept.popitem(last=False)
        return replace(found, problem=problem)

    def _computed(self, p: Problem, fill: str, stream: str, check: bool) -> Case:
        inputs = dict(self._make(p, fill))
        given = p.direction is Direction.BWD and not {"o", "lse"} <= set(inputs)  # o and lse of a forward pass
        reference = None
        if given or (check and p.direction.forward):
            rows = all_rows(p) if given else rows_within(p, self._oracle_s, self._seed)
            reference = forward(p, inputs, rows=rows, dropout_stream=stream)
        if given and reference is not None:
            inputs["o"] = round_to(reference.o_tensor(p), Element.of(p.dtype_out))
            inputs["lse"] = reference.lse_tensor(p).astype(np.float32)
        gradients = backward(p, inputs, dropout_stream=stream) if check and p.direction.backward else None
        return Case(p, fill, inputs, reference if p.direction.forward else None, gradients)


def _nbytes(noun: object) -> int:
    """Bytes of all arrays in a mapping or dataclass, and in the mappings that it holds."""
    if isinstance(noun, np.ndarray):
        return noun.nbytes
    if isinstance(noun, Mapping):
        return sum(_nbytes(value) for value in noun.values())
    return sum(_nbytes(getattr(noun, f.name)) for f in fields(noun)) if is_dataclass(noun) else 0
