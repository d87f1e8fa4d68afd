"""Checks of rules that several libraries share: their operators take dense tensors, and multiply by all of a tensor's rows."""

from __future__ import annotations

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, CacheKind
from fmha_cli.domain.kernel import KernelSpec
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
