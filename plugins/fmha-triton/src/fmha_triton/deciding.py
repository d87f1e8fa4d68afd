"""Decisions about every kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from fmha_cli import api, plugin
from fmha_triton.algorithm import Language, archs
from fmha_triton.catalogue import BLACKWELL, NAME, algorithm_of, function_of, kernels_of
from fmha_triton.choices import reason
from fmha_triton.plan import ctas_of, upstream_choice
from fmha_triton.rules import ALL_RULES

_DECODE_ROWS = 64
_LONG = 1024


@cache
def _index(arch: str) -> plugin.FamilyIndex[plugin.SmallSituation]:
    """All kernels of an architecture. A rule is checked once for those that look the same to it."""
    return plugin.index_of(kernels_of(arch), [plugin.core_question(rule) for rule in ALL_RULES])


def decide(problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
    """One decision for every kernel of the device's architectures, in their order, with all reasons in the order of the table."""
    here = [arch for arch in device.archs if arch in archs()]
    tried = ((_index(arch), partial(_supported, problem, place)) for place, arch in enumerate(here))
    return plugin.decisions(plugin.SmallSituation(problem, device), NAME, tried)


def _supported(problem: api.Problem, place: int, candidate: plugin.IndexedKernel) -> api.Supported:
    kernel = candidate.kernel
    note = _note(problem, kernel) + plugin.noted(kernel, problem)
    return api.Supported(kernel, (place, *_rank(problem, kernel)), note=note)


def _rank(problem: api.Problem, kernel: api.KernelSpec) -> tuple[int, ...]:
    signature, algorithm = kernel.signature, algorithm_of(kernel)
    wrong_kind = (kernel.family is plugin.Family.FWD_SPLITKV) is not _decodes(problem)
    general = algorithm.language is Language.TRITON
    wrong_cluster = not general and algorithm.num_ctas != ctas_of(problem, kernel)
    any_mask = signature.mask is plugin.MaskKey.ANY
    return (int(wrong_kind), signature.hdim, int(general), int(wrong_cluster), int(algorithm.pad), int(any_mask))


def _decodes(problem: api.Problem) -> bool:
    """Whether few rows face many keys: then programs for rows alone would leave the device idle."""
    few = problem.seqlen_q * (problem.heads // problem.kv_heads) <= _DECODE_ROWS
    return problem.splits > 1 or (few and problem.seqlen_k >= _LONG)


def _note(problem: api.Problem, kernel: api.KernelSpec) -> str:
    a = algorithm_of(kernel)
    why = (
        "few rows, many keys"
        if kernel.family is plugin.Family.FWD_SPLITKV and _decodes(problem)
        else "smallest head dim"
    )
    s, few = kernel.signature, ""
    if function_of(kernel) == BLACKWELL:
        known = upstream_choice(problem, kernel) is not None
        example = (
            reason(s.dtype, s.hdim, causal=s.mask is plugin.MaskKey.CAUSAL) if known else f"none for {_unknown(s)}"
        )
        few = f"; upstream's example: {example}; here {_ctas(a.num_ctas)}"
    return f"{why}; tile {a.block_m}x{a.block_n}{few}"


def _unknown(signature: plugin.Signature) -> str:
    """The features of a signature that upstream's example lacks."""
    return signature.dtype.value if signature.hdim_v == signature.hdim else f"hdim_v {signature.hdim_v}"


def _ctas(number: int) -> str:
    return "one CTA" if number == 1 else f"num_ctas {number}"
