"""The kernels of FlashAttention: the instances that upstream's launch templates allow for an architecture.

The catalogue leaves out two features of the templates: ``Return_softmax``, which writes the scores for upstream's own
tests, and softcap with dropout, which ``flash_api.cpp`` refuses before any launch.

Source: the template arguments of each launch in ``csrc/flash_attn/src/flash_fwd_launch_template.h``
(``run_flash_fwd``, ``run_flash_splitkv_fwd``) and ``flash_bwd_launch_template.h`` (``run_flash_bwd_seqk_parallel``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import product
from types import MappingProxyType
from typing import Any

from fmha_cli.backends.flash_attn.signatures import DTYPES, FAMILIES, MASKS, NAME, signature
from fmha_cli.backends.flash_attn.tiles import (
    EVEN_MN_HDIM,
    HDIMS,
    LOG_MAX_SPLITS,
    TileFacts,
    backward_traits,
    facts_of,
    forward_traits,
    split_traits,
    stage_traits,
)
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.traits import combine_rows
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need, RotaryKey, Signature

YES, NO = Need.YES, Need.NO
BIASES = (BiasKey.NONE, BiasKey.ALIBI)
FEATURES = ((NO, NO), (YES, NO), (NO, YES))
"""Dropout and softcap, which exclude each other."""
EVEN = ((True, True), (False, True), (False, False))
"""``Is_even_MN`` and ``Is_even_K``. Upstream specialises even lengths for even head dims only."""
Made = Iterator[tuple[Signature, FaAlgorithm]]
_algorithm = cache(replace)
"""Equal algorithms are one object, as signatures are."""


def kernels(arch: ArchSpec, families: Iterable[Family] = FAMILIES) -> Iterator[KernelSpec]:
    """Yield the kernels of some families for an architecture. FlashAttention may have none for it."""
    for family in families:
        yield from family_kernels(arch, family)


def family_kernels(arch: ArchSpec, family: Family) -> tuple[KernelSpec, ...]:
    """The kernels of one family for an architecture, ordered by data type, head dim, features and evenness."""
    if family not in FAMILIES or NAME not in arch.backends:
        return ()
    return _family_kernels(arch.name, family, facts_of(arch))


@lru_cache(maxsize=64)
def _family_kernels(arch: str, family: Family, facts: TileFacts) -> tuple[KernelSpec, ...]:
    return tuple(
        KernelSpec(backend=NAME, family=family, arch=arch, signature=made, algorithm=algorithm)
        for made, algorithm in _parts(family, facts)
    )


@lru_cache(maxsize=64)
def _parts(family: Family, facts: TileFacts) -> tuple[tuple[Signature, FaAlgorithm], ...]:
    """The parts of the kernels of a family, which architectures with the same facts share."""
    return tuple(part for dtype, hdim in product(DTYPES, HDIMS) for part in _MAKERS[family](dtype, hdim, facts))


def evenness(hdim: int, mask: MaskKey, bias: BiasKey, append: Need = NO) -> Iterator[tuple[bool, bool]]:
    """The pairs (``Is_even_MN``, ``Is_even_K``) for which upstream has a main kernel with these features."""
    for even_mn, even_k in EVEN:
        bounded = mask is MaskKey.WINDOW or hdim > EVEN_MN_HDIM or append is YES
        if not ((even_mn and bounded) or (even_k and bias is BiasKey.ALIBI)):
            yield even_mn, even_k


def _main(family: Family, dtype: DType, hdim: int, even_mn: bool, **compiled: Any) -> Signature:
    return signature(family, dtype, hdim, mode=ModeKey.BATCH if even_mn else ModeKey.ANY, **compiled)


def _whole(family: Family, dtype: DType, hdim: int, facts: TileFacts) -> Made:
    """The main kernels that do not split keys. Upstream may have no backward one for a head dim with dropout."""
    for mask, bias, (dropout, softcap) in product(MASKS, BIASES, FEATURES):
        if family is Family.FWD:
            traits = forward_traits(hdim, dropout is YES, mask is MaskKey.CAUSAL, facts)
        elif (found := backward_traits(hdim, dropout is YES, facts)) is not None:
            traits = found
        else:
            continue
        words = {"mask": mask, "bias": bias, "dropout": dropout, "softcap": softcap}
        for mn, k in evenness(hdim, mask, bias):
            yield _main(family, dtype, hdim, mn, **words), _algorithm(traits, even_mn=mn, even_k=k)


def _splitkv(dtype: DType, hdim: int, facts: TileFacts) -> Made:
    traits = split_traits(hdim)
    for mask, bias, softcap, split, append in product(MASKS, BIASES, (NO, YES), (NO, YES), (NO, YES)):
        rotary = RotaryKey.ANY if append is YES else RotaryKey.NONE
        words = {"mask": mask, "bias": bias, "softcap": softcap, "split": split, "append": append, "rotary": rotary}
        for mn, k in evenness(hdim, mask, bias, append):
            yield _main(Family.FWD_SPLITKV, dtype, hdim, mn, **words), _algorithm(traits, even_mn=mn, even_k=k)


def _combine(dtype: DType, hdim: int, facts: TileFacts) -> Made:
    made, traits = signature(Family.FWD_SPLITKV_COMBINE, dtype, hdim), split_traits(hdim)
    for log, even_k in product(LOG_MAX_SPLITS, (True, False)):
        yield made, _algorithm(traits, even_k=even_k, combine_rows=combine_rows(hdim), log_max_splits=log)


def _dot_do_o(dtype: DType, hdim: int, facts: TileFacts) -> Made:
    made = signature(Family.BWD_DOT_DO_O, dtype, hdim)
    for traits, clear in product(stage_traits(hdim, facts), (True, False)):
        yield made, _algorithm(traits, clear_dq_accum=clear)


def _convert_dq(dtype: DType, hdim: int, facts: TileFacts) -> Made:
    made = signature(Family.BWD_CONVERT_DQ, dtype, hdim)
    for traits in stage_traits(hdim, facts):
        yield made, traits


_MAKERS: Mapping[Family, Callable[[DType, int, TileFacts], Made]] = MappingProxyType(
    {
        Family.FWD: partial(_whole, Family.FWD),
        Family.FWD_SPLITKV: _splitkv,
        Family.FWD_SPLITKV_COMBINE: _combine,
        Family.BWD_DOT_DO_O: _dot_do_o,
        Family.BWD_DQ_DK_DV: partial(_whole, Family.BWD_DQ_DK_DV),
        Family.BWD_CONVERT_DQ: _convert_dq,
    }
)
