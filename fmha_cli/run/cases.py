"""Inputs and reference answers of a problem, computed once and shared by all kernels that are judged on it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial

import numpy as np

from fmha_cli.domain.features import Direction
from fmha_cli.domain.phases import SILENT, Phase, Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.closed import ClosedAnswer, why_not
from fmha_cli.oracle.dropout import STREAMS, Stream, fmha_stream, stream_of
from fmha_cli.oracle.gradients import Gradients, backward
from fmha_cli.oracle.measure import nonfinite_elements
from fmha_cli.oracle.reference import Reference, forward
from fmha_cli.oracle.rows import all_rows, rows_within
from fmha_cli.oracle.tensors import Inputs, round_to

MakeInputs = Callable[[Problem, str], Inputs]
"""(problem, fill) -> every input of the problem except o and lse; called once for each pair."""

KEPT_BYTES = 1 << 30
"""Bytes of inputs and references that are kept. The last case is always kept."""


@dataclass(frozen=True)
class Case:
    """One problem under one fill; without a reference when nothing is to be compared.

    ``nonfinite`` is the number of elements of the inputs that are NaN or infinite, unused storage apart.
    """

    problem: Problem
    fill: str
    inputs: Inputs
    reference: Reference | ClosedAnswer | None = None
    gradients: Gradients | None = None
    nonfinite: int = 0

    @property
    def rows(self) -> int:
        """Number of query rows that the reference covers."""
        every = self.problem.heads * sum(self.problem.query_lengths())
        return len(self.reference.rows) if isinstance(self.reference, Reference) else every

    @property
    def sampled(self) -> bool:
        """Whether the reference covers a part of the query rows only."""
        return self.rows < self.problem.heads * sum(self.problem.query_lengths())

    def part(self, run: int, runs: int) -> Case:
        """The case with the rows on which run ``run`` of ``runs`` is judged; together the runs judge the whole sample."""
        if self.sampled and isinstance(self.reference, Reference) and len(self.reference.rows) >= runs:
            return replace(self, reference=self.reference.part(run, runs))
        return self

    @cached_property
    def nbytes(self) -> int:
        return _nbytes(self.inputs) + _nbytes(self.reference) + _nbytes(self.gradients)


class Cases:
    """Cases by (problem, fill, dropout stream). The most recently used ones are kept.

    Args:
        make_inputs: makes the data, e.g. ``fills.fill`` with a seed, or from files.
        oracle_s: seconds that the reference of one case may take. If not all query rows fit, a sample of them is checked
            (``oracle.rows``), another one for every fill. A backward pass needs all rows and ignores this limit, and so
            does a fill with a closed answer (``oracle.closed``).
        seed: seed of the fills and of that sample.
        given: names of the tensors that come from files.
        kept_bytes: bytes of the cases that are kept.
        streams: name -> dropout stream.
        voice: hears the phases of the work.
    """

    def __init__(
        self,
        make_inputs: MakeInputs,
        *,
        oracle_s: float,
        seed: int = 0,
        kept_bytes: int = KEPT_BYTES,
        streams: Mapping[str, Stream] = STREAMS,
        given: Collection[str] = (),
        voice: Voice = SILENT,
    ) -> None:
        self._given, self._voice = given, voice
        self._make, self._streams = make_inputs, streams
        self._oracle_s, self._seed, self._kept_bytes = oracle_s, seed, kept_bytes
        self._kept: OrderedDict[tuple[Problem, str, str, bool], Case] = OrderedDict()

    def case(self, problem: Problem, fill: str, *, stream: str, check: bool = True) -> Case:
        """The case of a problem; with ``check``, it includes the reference answers.

        Problems that differ only in their returned outputs or their splits share one case.

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
        self._voice.phase(Phase.INPUTS, 0, 0)
        inputs = dict(self._make(p, fill))
        self._voice.phase(Phase.REFERENCE, 0, 0)
        told = partial(self._voice.phase, Phase.REFERENCE)
        draw = stream_of(stream, self._streams) if p.dropout else fmha_stream
        lacking = p.direction is Direction.BWD and not {"o", "lse"} <= set(inputs)  # o and lse of a forward pass
        reference = None
        if lacking or (check and p.direction.forward and self.without_closed_form(p, fill)):
            rows = all_rows(p) if lacking else rows_within(p, self._oracle_s, self._seed, fill)
            reference = forward(p, inputs, rows=rows, stream=draw, told=told)
        if lacking and reference is not None:
            inputs["o"] = round_to(reference.o_tensor(p), Element.of(p.dtype_out))
            inputs["lse"] = reference.lse_tensor(p).astype(np.float32)
        gradients = backward(p, inputs, stream=draw, told=told) if check and p.direction.backward else None
        answer: Reference | ClosedAnswer | None = reference if p.direction.forward else None
        if check and p.direction.forward and reference is None:
            answer = ClosedAnswer(p, fill, inputs, self._seed)
        return Case(p, fill, inputs, answer, gradients, nonfinite_elements(p, inputs))

    def without_closed_form(self, problem: Problem, fill: str) -> str | None:
        """Why the answer under a fill is not known in closed form; None if it is."""
        return why_not(problem, fill, self._given)


def _nbytes(noun: object) -> int:
    """Bytes of all arrays in a mapping or dataclass, and in the mappings that it holds."""
    if isinstance(noun, np.ndarray):
        return noun.nbytes
    if isinstance(noun, Mapping):
        return sum(_nbytes(value) for value in noun.values())
    return sum(_nbytes(getattr(noun, f.name)) for f in fields(noun)) if is_dataclass(noun) else 0
