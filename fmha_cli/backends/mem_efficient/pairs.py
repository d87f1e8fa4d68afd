"""Rules K534-K536: a backward kernel's needs of the forward kernel of the same plan. Their texts are data.

The forward kernel leaves O and the LSE in scratch tensors, and the backward kernel reads them there. No tensor is
converted between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fmha_cli.backends.cuda.choosing import Found, told, told_conditions
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.codegen.mem_efficient.algorithm import NAME
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason

Before = tuple[Problem, KernelSpec]
"""The predecessor of a backward kernel: the problem of both passes, and the forward kernel."""


def _findings(before: Before, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    (p, first), t = before, traits_of(kernel)
    yield "K534", told(not t.facts["kKernelComputesDelta"], name=t.name)
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    yield "K535", told(any(len(p.mask.seeing(rows, keys)) < rows for rows, keys in lengths), mask=p.mask.text())
    forward, backward = (storage_of(half, k).hdims for half, k in zip(p.passes(), (first, kernel), strict=True))
    yield "K536", told(forward != backward, forward=forward, backward=backward)


OF_PAIRS = tuple(f"K{number}" for number in range(534, 537))
_RULES = told_conditions(NAME, OF_PAIRS, _findings)


def discord(problem: Problem, forward: KernelSpec, backward: KernelSpec) -> Sequence[Reason]:
    """Implements ``Upstream.discord``."""
    return [reason for rule in _RULES if (reason := rule.against((problem, forward), backward))]
