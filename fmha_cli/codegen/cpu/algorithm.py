"""The free choices of a CPU kernel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.domain.kernel import Algorithm


class LoopKind(StrEnum):
    """The loop of a kernel."""

    PREFILL = "prefill"
    """Lanes are queries: many rows share each key."""
    DECODE = "decode"
    """Lanes are columns: few rows, K and V streamed once, keys split over threads."""
    SPLIT = "split"
    """Decode's loop; the parts of all splits of the keys are left for a combine kernel."""
    COMBINE = "combine"
    """The parts of split keys become rows of O."""
    APPEND = "append"
    """New keys are written to a cache, rotated by their positions, and queries are rotated."""
    BACKWARD = "backward"
    """Scores with lanes of queries, gradients with lanes of columns; blocks of keys outside, tiles of queries inside."""


class Simd(StrEnum):
    """The vector header that a kernel uses."""

    AMX = "amx"
    """AVX-512 vectors, and products of bf16 pairs in matrix tiles."""
    AVX512 = "avx512"
    AVX2 = "avx2"
    NEON = "neon"
    GENERIC = "generic"

    @property
    def lanes(self) -> int:
        """Floats in a vector."""
        return {Simd.AMX: 16, Simd.AVX512: 16, Simd.AVX2: 8, Simd.NEON: 4, Simd.GENERIC: 4}[self]

    @property
    def headers(self) -> tuple[str, ...]:
        """The files of its vector operations, in order."""
        own = f"simd_{Simd.AVX512 if self is Simd.AMX else self}.h"
        return ("x86_intrinsics.h", own) if self in (Simd.AMX, Simd.AVX512, Simd.AVX2) else (own,)

    @property
    def tiles(self) -> bool:
        """Whether instructions multiply whole tiles of a matrix."""
        return self is Simd.AMX

    @property
    def by_element(self) -> bool:
        """Whether an instruction multiplies a vector by one element of another."""
        return self is Simd.NEON


@dataclass(frozen=True, kw_only=True)
class CpuAlgorithm(Algorithm):
    """Tile and instruction choices.

    Attributes:
        kind: the loop.
        simd: the vector header.
        pairs: products of bf16 pairs (AVX512-BF16, BFDOT) instead of fp32 products.
        blocks: products of 2 x 4 blocks of bf16 (BFMMLA) instead of pairs; only where ``pairs`` is set.
        lanes_q: vectors of queries in a register tile (prefill, backward), or of columns (decode).
        rows_s: keys in a register tile of the score product.
        rows_o: columns of V in a register tile of the value product, largest first, ending with 1. Backward: vectors of
            columns in the register tiles of the gradients, every number from the largest to 1.
        block_k: the most keys whose scores are computed before their weights; a multiple of ``rows_s``.
        prefetch: bytes ahead of their use at which decode asks for K and V in the first-level cache, unless the caller knows
            better; 0 = not.
    """

    kind: LoopKind
    simd: Simd
    pairs: bool = False
    blocks: bool = False
    lanes_q: int
    rows_s: int
    rows_o: tuple[int, ...] = (1,)
    block_k: int
    prefetch: int = 0
