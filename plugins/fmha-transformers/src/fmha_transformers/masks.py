"""Masks of transformers as arguments of ``fmha_torch.operator.attention``.

transformers describes a mask by a function of indices. Its values decide here, not its name: if each query sees one range of keys,
and the ranges are those of a flag, the mask is flags. Any other mask is numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.masking_utils import causal_mask_function, sdpa_mask

Tensor = torch.Tensor
_ELEMENTS = 1 << 24
"""Elements of a mask that are looked at together."""


@dataclass(frozen=True)
class KeyRanges:
    """Query i of sequence b sees the keys from ``low[b, i]`` up to, not including, ``high[b, i]``: int64 (batch, seqlen_q).

    Attributes:
        keys: rows of K and V.
        first, end: the rows of K and V that some query sees.
        flags: arguments of the operator on these rows.
    """

    low: Tensor
    high: Tensor
    keys: int
    first: int
    end: int
    flags: Mapping[str, Any] = field(default_factory=dict)

    @property
    def alike(self) -> bool:
        """Whether a bias may stand beside the flags: they leave every sequence the same rows."""
        return not {"key_starts", "packed"} & self.flags.keys()

    def visible(self) -> Tensor:
        """As booleans, true = visible: (batch, 1, seqlen_q, keys)."""
        at = torch.arange(self.keys)
        return ((at >= self.low[..., None]) & (at < self.high[..., None]))[:, None]


class FlagMask(torch.Tensor):
    """A mask that is flags. To transformers it is a tensor of the mask's shape; it has no numbers that could be read by mistake.

    Attributes:
        ranges: what it stands for. A slice of it has none, and is refused.
    """

    ranges: KeyRanges
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def of(cls, ranges: KeyRanges) -> FlagMask:
        batch, rows = ranges.low.shape
        mask = torch.empty(batch, 1, rows, ranges.keys, dtype=torch.bool, device="meta").as_subclass(cls)
        mask.ranges = ranges
        return mask


def mask_of(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **others: Any,
) -> Tensor:
    """The mask of ``transformers.masking_utils.sdpa_mask``, as flags where it is flags.

    Returns:
        A ``FlagMask``; or (batch, 1, seqlen_q, seqlen_k) of ``dtype``, 0 where a key is visible and -inf elsewhere.
    """

    def part(first: int, rows: int) -> Tensor:
        return sdpa_mask(  # type: ignore[return-value] - it is None only if that is allowed
            batch_size,
            rows,
            kv_length,
            q_offset + first,
            kv_offset,
            mask_function,
            attention_mask,
            allow_is_causal_skip=False,
            use_vmap=use_vmap,
            device=device,
        )

    if torch.compiler.is_compiling():  # a graph has no values to look at
        return numbers(part(0, q_length), dtype)
    step = max(1, _ELEMENTS // max(1, batch_size * kv_length))
    found = [_ranges(part(first, min(step, q_length - first))) for first in range(0, q_length, step)]
    if all(one is not None for one in found):
        low, high = (torch.cat([one[n] for one in found if one is not None], 1) for n in (0, 1))
        ranges = flags_of(low.cpu(), high.cpu(), kv_length)
        if ranges is not None:
            return FlagMask.of(ranges)
    return numbers(part(0, q_length), dtype)


def numbers(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Booleans as 0 and -inf."""
    return torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, -torch.inf)


def _ranges(visible: Tensor) -> tuple[Tensor, Tensor] | None:
    """First key and end of each query's keys, 0 and 0 where it sees none; None if a query sees more than one range.

    Args:
        visible: booleans (batch, 1, rows, keys).
    """
    bits, keys = visible[:, 0].contiguous().view(torch.uint8), visible.shape[3]
    count = bits.sum(-1, dtype=torch.int64)
    low, high = bits.argmax(-1), keys - bits.flip(-1).argmax(-1)
    blind = count == 0
    if not bool(((high - low == count) | blind).all()):
        return None
    return low.masked_fill(blind, 0), high.masked_fill(blind, 0)


def flags_of(low: Tensor, high: Tensor, keys: int) -> KeyRanges | None:
    """The ranges with flags that leave exactly these keys; None if no flags do, or no query sees a key."""
    seen = high > low
    if not bool(seen.any()):
        return None
    first, end = int(low[seen].min()), int(high.max())
    rows = low.shape[1]
    starts = low.masked_fill(~seen, keys).amin(1).clamp(max=int(high.max()))
    lengths = (high.amax(1) - starts).clamp(min=0)
    flags: dict[str, Any] = {}
    if len(set(starts.tolist())) > 1 or len(set(lengths.tolist())) > 1:
        flags = {"key_starts": (starts - first).tolist(), "key_lengths": lengths.tolist()}
    at = torch.arange(rows)
    for diagonal, top_left in ((at + lengths[:, None] - rows, False), (at.expand_as(low), True)):
        left, right = _bounds(low, high, starts, lengths, diagonal)
        within = {} if left == right == -1 else {"is_causal": True} if top_left else {"window": (left, right)}
        usable = not top_left or (left, right) == (-1, 0)
        if usable and _leaves(low, high, starts, lengths, diagonal, (left, right)):
            return KeyRanges(low, high, keys, first, end, {**flags, **within})
    packed = _packed(low, high)
    return None if packed is None else KeyRanges(low, high, keys, first, end, packed)


def _bounds(low: Tensor, high: Tensor, starts: Tensor, lengths: Tensor, diagonal: Tensor) -> tuple[int, int]:
    """Left and right bound of the window that the ranges may be, counted from the diagonal; -1 where none is seen."""
    relative, until = low - starts[:, None], high - starts[:, None]
    seen = high > low
    cut_left, cut_right = seen & (relative > 0), seen & (until < lengths[:, None])
    left = (diagonal - relative)[cut_left]
    right = (until - 1 - diagonal)[cut_right]
    return int(left[0]) if left.numel() else -1, int(right[0]) if right.numel() else -1


def _leaves(
    low: Tensor, high: Tensor, starts: Tensor, lengths: Tensor, diagonal: Tensor, bounds: tuple[int, int]
) -> bool:
    """Whether a window leaves exactly these ranges."""
    left, right = bounds
    begin = diagonal - left if left >= 0 else torch.zeros_like(diagonal)
    past = diagonal + right + 1 if right >= 0 else torch.full_like(diagonal, int(lengths.max()))
    begin, past = begin.clamp(min=0), torch.minimum(past, lengths[:, None])
    blind = past <= begin
    begin, past = ((x + starts[:, None]).masked_fill(blind, 0) for x in (begin, past))
    return torch.equal(begin, low) and torch.equal(past, high)


def _packed(low: Tensor, high: Tensor) -> dict[str, Any] | None:
    """The flags of sequences behind each other in a batch of one, each of which sees itself alone."""
    batch, rows = low.shape
    at = torch.arange(rows)
    firsts = torch.nonzero(low[0] == at).flatten() if batch == 1 else at[:0]
    if not firsts.numel() or int(firsts[0]) or int(high.max()) != rows:
        return None
    ends = torch.cat((firsts[1:], torch.tensor([rows])))
    lengths = ends - firsts
    start, end = (x.repeat_interleave(lengths)[None] for x in (firsts, ends))
    for right in (0, -1):
        past = torch.minimum(at + right + 1, end) if right >= 0 else end
        behind = (at - low)[low > start]
        left = int(behind[0]) if behind.numel() else -1
        begin = torch.maximum(at - left, start) if left >= 0 else start
        if torch.equal(begin, low) and torch.equal(past.expand_as(high), high):
            within = {} if left == right == -1 else {"window": (left, right)}
            return {"packed": lengths.tolist(), **within}
    return None
