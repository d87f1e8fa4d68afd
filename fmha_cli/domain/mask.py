"""The attention mask: one canonical form for every spelling, and exact visibility.

A mask is an alignment and two bounds on the key index j that row i may see::

    i + delta - left <= j <= i + delta + right

with delta = seqlen_k - seqlen_q for bottom-right alignment and 0 for top-left. A bound of ``None`` is unlimited.
Source of the CK spellings: ROCm/composable_kernel ``example/ck_tile/01_fmha/mask.hpp``
``mask_info::decode``, and ``ck_tile/ops/fmha/block/block_masking.hpp`` for ``generic`` (row i sees
columns max(i - y + 1, 0) up to, not including, min(i + x, seqlen_k)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.flags import DIGITS
from fmha_cli.domain.suggest import NameKind, suggest


class Align(StrEnum):
    """The corner in which the mask's diagonal is anchored."""

    BOTTOM_RIGHT = "bottom_right"
    TOP_LEFT = "top_left"


class MaskKind(StrEnum):
    """The mask that a kernel is compiled for. Window sizes are run-time values."""

    NONE = "none"
    CAUSAL = "causal"
    CAUSAL_TL = "causal-tl"
    WINDOW = "window"
    WINDOW_TL = "window-tl"
    GENERIC = "generic"


SPELLINGS = {
    "none": True, "causal": True, "causal-tl": True, "window:L,R": True, "window-tl:L,R": True, "generic:Y,X": True,
}  # fmt: skip
"""Spelling of each kind, where a letter is an integer -> whether an alignment and two bounds express it."""
BOUNDED = frozenset(spelling.partition(":")[0] for spelling, bounded in SPELLINGS.items() if bounded)
"""The kinds that a kernel for any mask takes. A mask of another kind needs a kernel that names it."""


def mask_pattern() -> str:
    """The regular expression of the canonical spellings; kinds with equally many numbers share a group."""
    heads: dict[str, list[str]] = {}
    for word, _, letters in (spelling.partition(":") for spelling in SPELLINGS):
        heads.setdefault(re.sub("[A-Z]", "-?[0-9]+", letters), []).append(word)
    return "|".join("|".join(words) if not tail else f"({'|'.join(words)}):{tail}" for tail, words in heads.items())


@dataclass(frozen=True)
class Mask:
    """A mask in canonical form: equal masks compare equal. Build one with :meth:`make` or :func:`parse_mask`."""

    align: Align = Align.BOTTOM_RIGHT
    left: int | None = None
    right: int | None = None

    @staticmethod
    def make(align: Align, left: int | None, right: int | None) -> Mask:
        """The canonical mask. A mask without bounds is bottom-right, because the alignment has no effect."""
        return Mask() if left is None and right is None else Mask(align, left, right)

    @property
    def kind(self) -> MaskKind:
        """The kind; it does not depend on the size of a window."""
        if self.left is None and self.right is None:
            return MaskKind.NONE
        top_left = self.align is Align.TOP_LEFT
        if (self.left or 0) < 0 or (self.right or 0) < 0:
            return MaskKind.GENERIC
        if self.left is None and self.right == 0:
            return MaskKind.CAUSAL_TL if top_left else MaskKind.CAUSAL
        return MaskKind.WINDOW_TL if top_left else MaskKind.WINDOW

    def text(self) -> str:
        """The canonical spelling, which :func:`parse_mask` reads back."""
        kind = self.kind
        if kind in SPELLINGS:  # without numbers
            return kind.value
        if kind is MaskKind.GENERIC:
            return f"generic:{_bound(self.left) + 1},{_bound(self.right) + 1}"
        return f"{kind.value}:{_bound(self.left)},{_bound(self.right)}"

    def bounds_text(self) -> str:
        """``L,R`` of a window with this mask's bounds, where bounds below 0 are raised to 0."""
        return ",".join(str(-1 if bound is None else max(bound, 0)) for bound in (self.left, self.right))

    def delta(self, seqlen_q: int, seqlen_k: int) -> int:
        """The shift of the diagonal in keys; it is also the ALiBi shift of an unmasked problem."""
        return 0 if self.align is Align.TOP_LEFT else seqlen_k - seqlen_q

    def span(self, i: Any, seqlen_q: Any, seqlen_k: Any) -> tuple[Any, Any]:
        """The first key that row i sees and the end of its keys, the sink apart. Either may lie before or behind all keys.

        Args:
            i, seqlen_q, seqlen_k: integers, or arrays of any library that broadcast; both results have the form of their sum.
        """
        diagonal = i + self.delta(seqlen_q, seqlen_k)
        low = diagonal * 0 if self.left is None else diagonal - self.left
        return low, diagonal * 0 + seqlen_k if self.right is None else diagonal + self.right + 1

    def visible(self, i: Any, j: Any, seqlen_q: Any, seqlen_k: Any, sink: int = 0) -> Any:
        """Whether row i sees key j; integers or arrays, as in :meth:`span`. Kernels and the oracle are tested against this."""
        low, high = self.span(i, seqlen_q, seqlen_k)
        return (j >= 0) & (j < seqlen_k) & (j < high) & ((j >= low) | (j < sink))

    def seeing(self, seqlen_q: int, seqlen_k: int, sink: int = 0) -> range:
        """The rows that see a key, in constant time: they are contiguous. Without ``sink``, those that see only sinks are left out."""
        delta = self.delta(seqlen_q, seqlen_k)
        first = 0 if self.right is None else max(0, -delta - self.right)
        end = seqlen_q if self.left is None or sink else min(seqlen_q, seqlen_k - delta + self.left)
        wide = self.left is None or self.right is None or self.left + self.right >= 0 or sink
        return range(first, end) if seqlen_k and wide else range(0)

    def blinds(self, seqlen_q: int, seqlen_k: int, sink: int = 0) -> bool:
        """Whether some row sees no key."""
        return len(self.seeing(seqlen_q, seqlen_k, sink)) < seqlen_q

    def pairs(self, seqlen_q: int, seqlen_k: int, sink: int = 0) -> int:
        """Number of visible (row, key) pairs, exactly, in constant time."""
        delta = self.delta(seqlen_q, seqlen_k)
        upper = seqlen_k if self.right is None else delta + self.right + 1
        under_right = seqlen_q * seqlen_k if self.right is None else _clamped_sum(upper, seqlen_q, seqlen_k)
        if self.left is None:
            return under_right
        lower = delta - self.left
        if self.right is not None and upper < lower:  # a generic mask that sees only sink columns
            return _clamped_sum(upper, seqlen_q, min(sink, seqlen_k))
        in_window = under_right - _clamped_sum(lower, seqlen_q, seqlen_k)
        return in_window + _clamped_sum(lower, seqlen_q, min(sink, seqlen_k))


def _clamped_sum(start: int, rows: int, cap: int) -> int:
    """Sum over i in [0, rows) of clamp(i + start, 0, cap)."""
    first = min(max(-start, 0), rows)  # earlier rows contribute nothing
    full = min(max(cap - start, first), rows)  # this row and later rows contribute cap
    ramp = full - first
    return ramp * (first + start) + ramp * (ramp - 1) // 2 + (rows - full) * cap


def _bound(bound: int | None) -> int:
    """A bound as windows spell it, where -1 is unlimited; generic masks have both bounds."""
    return -1 if bound is None else bound


_NUMBER = rf"\s*([+-]?\d{{1,{DIGITS}}})\s*"
_TWO = re.compile(rf"{_NUMBER},{_NUMBER}\Z")
_THREE = re.compile(rf"{_NUMBER},{_NUMBER}(?:,{_NUMBER})?\Z")


def parse_mask(text: str) -> tuple[Mask, int | None]:
    """Parses a spelling of the contract or of CK into (mask, sink); sink is None if the spelling names none.

    Raises:
        ImpossibleProblem: the text is not a mask.
    """
    word, _, rest = text.strip().partition(":")
    plain = {
        "none": Mask(), "0": Mask(), "n": Mask(),
        "causal": Mask(right=0), "2": Mask(right=0), "b": Mask(right=0),
        "causal-tl": Mask(Align.TOP_LEFT, right=0), "1": Mask(Align.TOP_LEFT, right=0),
        "t": Mask(Align.TOP_LEFT, right=0),
    }  # fmt: skip
    if not rest and word in plain and ":" not in text:
        return plain[word], None
    if word in ("window", "window-tl") and (m := _TWO.match(rest)):
        return _window(word == "window-tl", int(m[1]), int(m[2])), None
    if word in ("t", "b") and (m := _THREE.match(rest)):
        return _window(word == "t", int(m[1]), int(m[2])), int(m[3]) if m[3] is not None else None
    if word in ("xt", "xb") and re.fullmatch(_NUMBER, rest):
        size = int(rest)
        left, right = (size // 2, size - 1 - size // 2) if size > 0 else (-1, 0)
        return _window(word == "xt", left, right), None
    if word in ("g", "generic") and (m := _TWO.match(rest)):
        return Mask.make(Align.TOP_LEFT, int(m[1]) - 1, int(m[2]) - 1), None
    raise ImpossibleProblem(f"--mask {text}: not a mask", code="P002", where="--mask", help=_near(word, rest))


def _near(word: str, rest: str) -> str:
    """The likely meaning of a text that is not a mask."""
    if word in ("window", "window-tl"):
        left = rest.strip() if re.fullmatch(_NUMBER, rest) else "1024"
        same = f"; the same is --window {left}" if word == "window" else ""
        return f"e.g. --mask {word}:{left},0 ({left} keys to the left and none to the right){same}"
    spellings = f"{', '.join(SPELLINGS)}, or CK's 0 1 2 t b t:l,r[,sink] b:l,r[,sink] xt:w xb:w g:y,x"
    return suggest(word, SPELLINGS, NameKind.MASK, spellings)


def _window(top_left: bool, left: int, right: int) -> Mask:
    align = Align.TOP_LEFT if top_left else Align.BOTTOM_RIGHT
    return Mask.make(align, left if left >= 0 else None, right if right >= 0 else None)
