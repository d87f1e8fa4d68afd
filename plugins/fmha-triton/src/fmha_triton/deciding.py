"""Decisions about every kernel. A rule is checked once for all kernels that look the same to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter

from fmha_cli import api, plugin
from fmha_triton.algorithm import Language, archs
from fmha_triton.catalogue import BLACKWELL, NAME, algorithm_of, function_of, kernels_of
from fmha_triton.choices import reason
from fmha_triton.plan import ctas_of, upstream_choice
from fmha_triton.rules import ALL_RULES

_DECODE_ROWS = 64
_LONG = 1024
_Look = Callable[[api.KernelSpec], object]


LOOKS: dict[str, _Look] = {
    **{rule.id: attrgetter("backend", *rule.reads) for rule in plugin.CORE_RULES},
    "K960": lambda kernel: None,
    "K961": lambda kernel: (
        kernel.arch,
        kernel.signature.hdim,
        kernel.signature.hdim_v,
        algorithm_of(kernel).pad,
        algorithm_of(kernel).language,
    ),
    "K963": lambda kernel: kernel.family,
    "K964": lambda kernel: (algorithm_of(kernel).block_m, algorithm_of(kernel).block_n),
    "K965": lambda kernel: None,
    "K966": lambda kernel: kernel.family,
    "K967": lambda kernel: algorithm_of(kernel).language,
    "K968": lambda kernel: algorithm_of(kernel).language,
}
"""Everything that each rule reads of a kernel, for every rule."""


@cache
def _views_of(arch: str) -> tuple[Mapping[int, tuple[plugin.Rule, api.KernelSpec]], tuple[tuple[int, ...], ...]]:
    """What the rules see of an architecture's kernels, as numbers: equal where that is equal.

    Returns: each number's rule with one of its kernels; and for each kernel, in their order, its numbers in the order of the rules.
    """
    seen: dict[tuple[str, object], int] = {}
    first: dict[int, tuple[plugin.Rule, api.KernelSpec]] = {}
    looks = [(rule, LOOKS[rule.id]) for rule in ALL_RULES]
    rows = []
    for kernel in kernels_of(arch):
        rows.append(tuple(seen.setdefault((rule.id, look(kernel)), len(seen)) for rule, look in looks))
        for (rule, _), view in zip(looks, rows[-1], strict=True):
            first.setdefault(view, (rule, kernel))
    return first, tuple(rows)


def decide(problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
    """One decision for every kernel of the device's architectures, with all reasons in the order of the table."""
    here = [arch for arch in device.archs if arch in archs()]
    for place, arch in enumerate(here):
        first, rows = _views_of(arch)
        found = {view: rule.against(problem, kernel, device) for view, (rule, kernel) in first.items()}
        against = {view: reason for view, reason in found.items() if reason is not None}
        for kernel, views in zip(kernels_of(arch), rows, strict=True):
            if reasons := tuple(against[view] for view in views if view in against):
                yield api.Unsupported(NAME, arch, kernel, reasons)
            else:
                yield api.Supported(
                    kernel,
                    (place, *_rank(problem, kernel)),
                    note=_note(problem, kernel) + plugin.noted(kernel, problem),
                )


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
