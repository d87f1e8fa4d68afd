"""Which kernels serve a problem, upstream's choice first, and why the others do not."""

from __future__ import annotations

from functools import partial

from fmha_cli.backends.cuda.few import Few
from fmha_cli.backends.gpu.index import IndexedKernel
from fmha_cli.backends.gpu.known_bad import noted
from fmha_cli.backends.mem_efficient.catalogue import WIDEST, kernels, profile_kernels
from fmha_cli.backends.mem_efficient.pairs import OF_PAIRS
from fmha_cli.backends.mem_efficient.problem_rules import CONDITIONS
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.codegen.mem_efficient.algorithm import NAME
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.rules import LEFTPAD_RULE


def _supported(s: MemEfficientSituation, place: int, candidate: IndexedKernel) -> Supported:
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
    ("K500", "K501", "K502"),
    MemEfficientSituation,
    CONDITIONS,
    replaced=(LEFTPAD_RULE.id,),  # the kernels can start behind left padding
    unchecked=(*OF_PAIRS, "K539"),
    listed=partial(profile_kernels, profile=WIDEST),
    supported=_supported,
)
