"""The choices of a problem other than sizes and masks, and of an emulator, with their spellings. Each is a closed set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.domain.flags import parse_choice, parse_size
from fmha_cli.domain.impossible import at_least, impossible
from fmha_cli.domain.suggest import suggest

DROPOUT_STREAMS = ("fmha", "ck", "fa2", "memeff")
"""Names of the dropout streams of this project (``oracle.dropout``); a plugin's stream has another name."""
FILLS = ("normal", "coded", "ties", "large", "sparse_int")
"""Names of the fills of this project (``oracle.fills``), in the order of ``validate``; the first is the default."""
CLOSED_FILLS = ("means", "pointer")
"""Further fills, whose answer is known in closed form (``oracle.closed``). ``validate`` adds them where it compares only
a sample of the rows under the others."""


class Arithmetic(StrEnum):
    """The order of sums in matrix instructions where their documents leave it open."""

    DOCUMENT = "document"
    """As the document says; the plainest order and rounding where it says nothing."""
    HARDWARE = "hardware"
    """As the tensor cores of the architecture have been measured to do it."""


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


def parse_bias(text: str) -> Bias:
    """Parses ``none``, ``alibi`` (no elementwise bias) or ``elementwise[:RANK]``.

    Raises:
        ImpossibleProblem: P010, another text.
    """
    word, _, rank = text.partition(":")
    if word in ("none", "alibi") and not rank:
        return Bias.NONE
    if word == "elementwise" and (not rank or rank in Bias._value2member_map_):
        return Bias(rank or "11ss")
    words = "none, alibi, or elementwise[:RANK] with a RANK of 11ss 1hss bhss b1ss 111s b11s 1h1s bh1s"
    known = ("none", "alibi", "elementwise", *(f"elementwise:{one.value}" for one in Bias if one is not Bias.NONE))
    raise impossible(
        "P010", f"--bias {text}", "--bias", words, suggest(text, known, otherwise="e.g. --bias elementwise")
    )


def bias_text(bias: Bias) -> str:
    """The shortest spelling that ``parse_bias`` reads back."""
    words = {Bias.NONE: "none", Bias.R11SS: "elementwise"}
    return words.get(bias, f"elementwise:{bias.value}")


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


def parse_cache(text: str) -> KvCache:
    """Parses ``none``, ``linear`` or ``paged:PAGE``.

    Raises:
        ImpossibleProblem: P008, another text; P005, pages without a key.
    """
    word, _, page = text.partition(":")
    if word not in CacheKind._value2member_map_ or (word == "paged") != bool(page):
        example = f"--kv-cache paged:{page or 128}" if word.startswith("pag") else "e.g. --kv-cache linear or paged:128"
        raise impossible("P008", f"--kv-cache {text}", "--kv-cache", "none, linear or paged:PAGE", example)
    size = parse_size(page, "--kv-cache paged") if page else 0
    if page:
        at_least(1, {"kv-cache paged": size})
    return KvCache(CacheKind(word), size)


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


def parse_rotary(text: str) -> Rotary:
    """Parses ``DIM``, ``DIM:half`` or ``DIM:interleaved``; 0 is off, whatever its style.

    Raises:
        ImpossibleProblem: P009, no such style.
    """
    dim_text, _, style = text.partition(":")
    dim = parse_size(dim_text, "--rotary")
    if style and style not in RotaryStyle._value2member_map_:
        help = f"e.g. --rotary {dim}:half"
        raise impossible("P009", f"--rotary {text}", "--rotary", "DIM, DIM:half or DIM:interleaved", help)
    return Rotary(dim, RotaryStyle(style or "half")) if dim else Rotary()


def parse_layouts(text: str) -> tuple[Layout, Layout]:
    """Parses ``IN`` or ``IN:OUT``. Raises ImpossibleProblem: P014, no such layout."""
    first, _, second = text.partition(":")
    return parse_choice(Layout, first, "layout"), parse_choice(Layout, second or first, "layout")
