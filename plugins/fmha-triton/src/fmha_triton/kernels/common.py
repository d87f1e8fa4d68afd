"""What all kernels share: which keys a row sees, scores from products, and tiles of rows.

Numbers that hold for all kernels: row i and key j count from 0 inside their sequence; ``delta`` is the shift of the mask's
diagonal; an unlimited bound is ``1 << 30``. Scores are in bits, that is multiplied by log2(e), so that
exp2 serves; with an elementwise bias they are not, because the least finite number, which masks use as a bias, would become -inf.
BIAS is 0 without a bias, 1 for an elementwise one, 2 for ALiBi.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def tile(base, first, stride, R: tl.constexpr, D: tl.constexpr):
    """Pointers to rows first ... first + R - 1 of D elements each. Offsets inside a tile fit 32 bits (rule K964)."""
    rows, dims = tl.arange(0, R), tl.arange(0, D)
    return base + first.to(tl.int64) * stride + rows[:, None] * stride + dims[None, :]


@triton.jit
def tile_of_columns(base, first, stride, R: tl.constexpr, D: tl.constexpr):
    """The same rows as columns."""
    rows, dims = tl.arange(0, R), tl.arange(0, D)
    return base + first.to(tl.int64) * stride + rows[None, :] * stride + dims[:, None]


@triton.jit
def loaded_rows(pointers, first, length, width, R: tl.constexpr, D: tl.constexpr, PAD: tl.constexpr):
    """A tile of rows; rows behind the end and elements behind the width are 0, whatever memory holds there."""
    keep = first + tl.arange(0, R)[:, None] < length
    if PAD:
        keep = keep & (tl.arange(0, D)[None, :] < width)
    return tl.load(pointers, mask=keep, other=0.0)


@triton.jit
def loaded_columns(pointers, first, length, width, R: tl.constexpr, D: tl.constexpr, PAD: tl.constexpr):
    """A tile of rows as columns."""
    keep = first + tl.arange(0, R)[None, :] < length
    if PAD:
        keep = keep & (tl.arange(0, D)[:, None] < width)
    return tl.load(pointers, mask=keep, other=0.0)


@triton.jit
def visible(i, j, rows, keys, delta, left, right, sink, MASK: tl.constexpr):
    """Whether row i sees key j."""
    seen = (i < rows) & (j < keys)
    if MASK:
        shifted = i + delta
        seen = seen & (j <= shifted + right) & ((j >= shifted - left) | (j < sink))
    return seen


@triton.jit
def capped(x, softcap):
    """tanh(x / softcap), from exp2 alone: every target has that."""
    return 1.0 - 2.0 / (tl.exp2(x * (2.0 * LOG2E / softcap)) + 1.0)


@triton.jit
def scores(
    dot, i, j, rows, keys, delta, scale, softcap, slope, bias, bias_row,
    BIAS: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    """(scores, tanh of the softcap, which is 0 without one) from the products of q and k. A bias of -inf hides a key, whatever it holds."""
    unit: tl.constexpr = 1.0 if BIAS == 1 else LOG2E
    t = tl.zeros_like(dot)
    if SOFTCAP:
        t = capped(dot * scale, softcap)
        s = t * (softcap * unit)
    else:
        s = dot * (scale * unit)
    if BIAS == 1:
        at = bias + i.to(tl.int64) * bias_row + j
        added = tl.load(at, mask=(i < rows) & (j < keys), other=0.0).to(tl.float32)
        s = tl.where(added == float("-inf"), added, s + added)
    if BIAS == 2:
        s -= tl.abs(i + delta - j).to(tl.float32) * (slope * LOG2E)
    return s, t


@triton.jit
def exponential(x, BIAS: tl.constexpr):
    """exp of a difference of scores."""
    if BIAS == 1:
        x = x * LOG2E
    return tl.exp2(x)


@triton.jit
def block_ranges(start, rows, keys, delta, left, right, sink, BM: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr):
    """Which blocks of BN keys the rows start ... start + BM - 1 need.

    Returns (first, full_first, full_end, end, sinks): blocks first ... end - 1 hold the window; every row sees all of the blocks
    full_first ... full_end - 1; blocks 0 ... sinks - 1 lie before ``first`` and hold keys that the left bound never hides.
    """
    first = 0
    full_first = 0
    sinks = 0
    end = tl.cdiv(keys, BN)
    full_end = keys // BN
    if MASK:
        last = tl.minimum(start + BM, rows) - 1 + delta
        seen = tl.maximum(tl.minimum(keys, last + right + 1), 0)
        end = tl.cdiv(seen, BN)
        first = tl.minimum(tl.maximum(start + delta - left, 0) // BN, end)
        full_first = tl.minimum(tl.maximum(tl.cdiv(tl.maximum(last - left, 0), BN), first), end)
        full_end = tl.maximum(tl.minimum(keys, start + delta + right + 1), 0) // BN
        full_end = tl.minimum(tl.maximum(full_end, full_first), end)
        sinks = tl.minimum(tl.cdiv(tl.minimum(sink, seen), BN), first)
    return first, full_first, full_end, end, sinks
