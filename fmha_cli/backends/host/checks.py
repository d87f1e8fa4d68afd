"""Checks of rules that several libraries share: their operators take dense tensors, and multiply by all of a tensor's rows.

And what a mask amounts to for the lengths of a problem: libraries have two or three masks, and take a tensor for others.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, CacheKind
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Refusal


def alibi_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    """Refuse ALiBi, where the signature admits any bias."""
    return None if problem.alibi is Alibi.NONE else Refusal("the operator has no ALiBi", "--bias none")


def rows_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    """Refuse tensors without rows."""
    keys = min(problem.key_lengths(), default=0)
    if problem.seqlen_q and keys:
        return None
    return Refusal(f"{problem.seqlen_q} queries, {keys} keys in a sequence")


def full_cache_check(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Refusal | None:
    """Refuse pages, and a linear cache with unused rows, which may hold NaN; a full one is K and V."""
    if problem.kv_cache.kind is CacheKind.PAGED:
        return Refusal("the operator reads no pages", "--kv-cache linear")
    if problem.append or problem.kv_cache.kind is CacheKind.NONE:
        return None
    if len({*problem.key_lengths()}) == 1 and not problem.storage.rows:
        return None
    return Refusal("the operator multiplies by the unused rows of a cache", "--kv-cache none")


class MaskForm(Enum):
    """A mask that libraries have without a tensor."""

    PLAIN = "every key is visible"
    TOP_LEFT = "causal, top-left aligned"
    BOTTOM_RIGHT = "causal, bottom-right aligned"
    WINDOW = "causal and bounded on the left, bottom-right aligned"


def mask_forms(problem: Problem) -> frozenset[MaskForm]:
    """Everything that a problem's mask comes to; nothing where it needs a tensor.

    With equal lengths both alignments are one, and for a single query a causal mask from the bottom right is none.
    """
    p, found = problem, set[MaskForm]()
    lengths = list(zip(p.query_lengths(), p.key_lengths(), strict=True))
    if p.visible_pairs() == p.dense_pairs():
        found.add(MaskForm.PLAIN)
        found |= {MaskForm.BOTTOM_RIGHT} if all(q <= 1 for q, _ in lengths) else set()
    square = all(q == k for q, k in lengths)
    if p.mask.right != 0 or p.sink:
        return frozenset(found)
    unbounded = replace(p.mask, left=None)
    wide = all(p.mask.pairs(q, k) == unbounded.pairs(q, k) for q, k in lengths)  # the bound on the left hides nothing
    below = p.mask.align is Align.BOTTOM_RIGHT or square
    if wide:
        found |= {MaskForm.TOP_LEFT} if p.mask.align is Align.TOP_LEFT or square else set()
        found |= {MaskForm.BOTTOM_RIGHT} if below else set()
    elif p.mask.left is not None and p.mask.left >= 0 and below:
        found.add(MaskForm.WINDOW)
    return frozenset(found)


def sees_nothing(problem: Problem) -> bool:
    """Whether some query sees no key."""
    lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    return any(problem.mask.blinds(q, k, problem.sink) for q, k in lengths)
