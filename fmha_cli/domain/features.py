"""The choices of a problem other than sizes and masks. Each is a closed set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DROPOUT_STREAMS = ("fmha", "ck", "fa2", "memeff")
"""Names of the dropout streams of this project (``oracle.dropout``); a plugin's stream has another name."""
FILLS = ("normal", "coded", "ties", "large", "sparse_int")
"""Names of the fills of this project (``oracle.fills``), in the order of ``validate``; the first is the default."""
CLOSED_FILLS = ("means", "pointer")
"""Further fills, whose answer is known in closed form (``oracle.closed``). ``validate`` adds them where it compares only
a sample of the rows under the others."""


class Direction(StrEnum):
    """Which passes the user asks for."""

    FWD = "fwd"
    BWD = "bwd"
    FWD_BWD = "fwd+bwd"

    @property
    def forward(self) -> bool:
        return self is not Direction.BWD

    @property
    def backward(self) -> bool:
        return self is not Direction.FWD


class Layout(StrEnum):
    """Order of the axes in memory. Group mode: bshd is (total, heads, d), bhsd is (heads, total, d)."""

    BHSD = "bhsd"
    BSHD = "bshd"


class Bias(StrEnum):
    """Elementwise bias added to the scaled scores, by broadcast rank: one letter for each axis (batch, heads, seqlen_q,
    seqlen_k), 1 where the axis is broadcast."""

    NONE = "none"
    R11SS = "11ss"
    R1HSS = "1hss"
    RBHSS = "bhss"
    RB1SS = "b1ss"
    R111S = "111s"
    RB11S = "b11s"
    R1H1S = "1h1s"
    RBH1S = "bh1s"

    def shape(self, batch: int, heads: int, rows: int, keys: int) -> tuple[int, int, int, int]:
        """The shape of such a bias, with 1 along broadcast axes; four zeros for no bias."""
        if self is Bias.NONE:
            return 0, 0, 0, 0
        kept = (letter != "1" for letter in self.value)
        batch, heads, rows, keys = (n if keep else 1 for n, keep in zip((batch, heads, rows, keys), kept, strict=True))
        return batch, heads, rows, keys


class Alibi(StrEnum):
    """Source and rank of the ALiBi slopes."""

    NONE = "none"
    STANDARD = "standard"
    """The standard slopes of the number of heads (contract, section 1)."""
    HEADS = "h"
    """Given, one for each head."""
    BATCH_HEADS = "bh"
    """Given, one for each sequence and head."""


class CacheKind(StrEnum):
    """How K and V are stored."""

    NONE = "none"
    LINEAR = "linear"
    PAGED = "paged"


ROTARY_BASE = 10000.0
"""The default of ``--rotary-base``."""


class RotaryStyle(StrEnum):
    """Pairing of the rotated elements: (x[k], x[k + dim/2]) or (x[2k], x[2k + 1])."""

    HALF = "half"
    INTERLEAVED = "interleaved"


class QScale(StrEnum):
    """Granularity of the de-quantisation scales."""

    NONE = "none"
    TENSOR = "tensor"
    BLOCK = "block"
    KV_BLOCK = "kv-block"
    MX = "mx"
    HEAD = "head"


class Mode(StrEnum):
    """Batch: one length for all sequences. Group: packed sequences of unequal lengths."""

    BATCH = "batch"
    GROUP = "group"


@dataclass(frozen=True)
class KvCache:
    """Storage of K and V. ``page`` is the number of keys per page (0 unless paged)."""

    kind: CacheKind = CacheKind.NONE
    page: int = 0

    def text(self) -> str:
        return f"paged:{self.page}" if self.kind is CacheKind.PAGED else self.kind.value


@dataclass(frozen=True)
class CacheStorage:
    """Extents of a given cache where they differ from what its problem needs; 0 = as the problem needs them.

    Attributes:
        rows: rows of each sequence in a linear cache.
        pages: pages of the pool.
        table: places for each sequence in the block table.
        keys: rows in use, each counted once, where sequences share pages.
    """

    rows: int = 0
    pages: int = 0
    table: int = 0
    keys: int = 0


@dataclass(frozen=True)
class Rotary:
    """Rotary embedding of appended keys and of the queries. ``dim`` 0 turns it off."""

    dim: int = 0
    style: RotaryStyle = RotaryStyle.HALF

    def text(self) -> str:
        if not self.dim:
            return "0"
        return str(self.dim) if self.style is RotaryStyle.HALF else f"{self.dim}:{self.style.value}"


def layouts_text(layout: Layout, layout_out: Layout) -> str:
    """``IN``, or ``IN:OUT`` if the layouts differ."""
    return layout.value if layout is layout_out else f"{layout.value}:{layout_out.value}"
