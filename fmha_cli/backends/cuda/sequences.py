"""``Sequences``: the sequences of a problem as kernels find them in packed tensors and in linear caches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fmha_cli.domain.features import CacheKind, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets

if TYPE_CHECKING:
    from fmha_cli.backends.gpu.auxiliary import Array


@dataclass(frozen=True)
class Sequences:
    """The lengths of the sequences, and where they start.

    Attributes:
        problem: a problem without a paged cache.
    """

    problem: Problem

    @property
    def launches(self) -> bool:
        """Whether the host launches any kernel: there are rows and keys."""
        return self.problem.seqlen_q > 0 and self.problem.seqlen_k > 0

    @cached_property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """Query rows and keys of every sequence."""
        return tuple(zip(self.problem.query_lengths(), self.problem.key_lengths(), strict=True))

    @property
    def cached(self) -> bool:
        """Whether the keys are in a linear cache, with rows between sequences that hold no key."""
        return self.problem.kv_cache.kind is CacheKind.LINEAR

    @property
    def apart(self) -> bool:
        """Whether sequences have individual lengths, so kernels need their starts."""
        return self.problem.mode is Mode.GROUP or self.cached

    @cached_property
    def rows(self) -> int:
        """Query rows of all sequences."""
        return sum(self.problem.query_lengths())

    @cached_property
    def key_rows(self) -> int:
        """Rows of K and V of all sequences, those of a cache that hold no key included."""
        p = self.problem
        return p.batch * p.cache_rows if self.cached else sum(p.key_lengths())

    def arrays(self, queries: str, keys: str, held: str) -> dict[str, Array]:
        """What kernels need to find sequences that are ``apart``, int32, by the names that the arguments give.

        - ``queries``, ``keys``: (batch + 1), the first row of every sequence and the end of the last.
        - ``held``: (batch), the keys of each sequence; with a cache only.
        """
        from fmha_cli.backends.gpu.auxiliary import int32

        p, starts = self.problem, offsets(self.problem.key_lengths())
        if not self.apart:
            return {}
        if self.cached:
            starts = (*(b * p.cache_rows + pad for b, pad in enumerate(p.leftpads())), self.key_rows)
        out = {queries: int32(offsets(p.query_lengths())), keys: int32(starts)}
        return out | ({held: int32(p.key_lengths())} if self.cached else {})
