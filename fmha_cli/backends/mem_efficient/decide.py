"""Which kernels serve a problem, upstream's choice first, and why the others do not.

Rules K534-K536 are a backward kernel's needs of the forward kernel of the same plan, which leaves O and the LSE in scratch
tensors. The backward kernel reads them there, and no tensor is converted between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from fmha_cli.backends.cuda.capability import refused_by_compiler
from fmha_cli.backends.gpu.few import Few
from fmha_cli.backends.gpu.index import IndexedKernel
from fmha_cli.backends.gpu.known_bad import noted
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together
from fmha_cli.backends.mem_efficient.catalogue import WIDEST, kernels, profile_kernels
from fmha_cli.backends.mem_efficient.problem_rules import CONDITIONS
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.codegen.mem_efficient.algorithm import NAME
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import LEFTPAD_RULE, Reason

Before = tuple[Problem, KernelSpec]
"""The predecessor of a backward kernel: the problem of both passes, and the forward kernel."""


def _findings(before: Before, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    (p, first), t = before, traits_of(kernel)
    yield "K534", refuse_if(not t.facts["kKernelComputesDelta"], name=t.name)
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    yield "K535", refuse_if(any(len(p.mask.seeing(rows, keys)) < rows for rows, keys in lengths), mask=p.mask.text())
    forward, backward = (storage_of(half, k).hdims for half, k in zip(p.passes(), (first, kernel), strict=True))
    yield "K536", refuse_if(forward != backward, forward=forward, backward=backward)


OF_PAIRS = tuple(f"K{number}" for number in range(534, 537))
_RULES = conditions(NAME, together(OF_PAIRS, _findings))


def discord(problem: Problem, forward: KernelSpec, backward: KernelSpec) -> Sequence[Reason]:
    """Implements ``Upstream.discord``."""
    return [reason for rule in _RULES if (reason := rule.against((problem, forward), backward))]


def _rank_fitting(s: MemEfficientSituation, place: int, candidate: IndexedKernel) -> Supported:
    """A kernel that fits; upstream takes the first of its order. The ``rank``: the place of its architecture among the device's; 1 if
    upstream's host would pass over it because of strides, so that the host must pad the tensors first, else 0; its place in that order."""
    p, m = s.problem, storage_of(s.problem, candidate.kernel)
    odd = [str(stride) for stride in m.tested_strides if stride % m.traits.tested]
    why = "upstream takes the first in its order that fits"
    if odd:
        why = f"upstream would pass over it: strides of {', '.join(odd)} are not multiples of {m.traits.tested}"
    why += "" if m.hdims == (p.hdim, p.hdim_v) else f"; the host pads head dims to {m.hdims[0]} and {m.hdims[1]}"
    return Supported(
        candidate.kernel,
        (place, int(bool(odd)), candidate.position),
        f"{m.traits.name}: {why}{noted(candidate.kernel, p)}",
    )


FEW = Few(
    NAME,
    kernels,
    ("K500", "K502"),
    MemEfficientSituation,
    CONDITIONS,
    replaced=(LEFTPAD_RULE.id,),  # the kernels can start behind left padding
    unchecked=(*OF_PAIRS, "K539"),
    listed=partial(profile_kernels, profile=WIDEST),
    more={"K501": refused_by_compiler},
    supported=_rank_fitting,
)
