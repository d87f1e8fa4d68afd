"""The Hopper forward kernel in Gluon: one warp loads tiles by TMA, eight warps multiply by wgmma and compute the softmax.

The keys are taken from the last visible block to the first, so that the blocks that need a mask come first. The product of one block's P
and V runs while the scores of the next block are computed. All descriptors have the axes (batch, heads, rows, head dim), so rows
behind the end of a sequence are loaded as 0 and never stored.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)  # fmt: skip

LOG2E = gl.constexpr(1.4426950408889634)
LN2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def blocks_of(start, rows, keys, BM: gl.constexpr, BN: gl.constexpr, CAUSAL: gl.constexpr):
    """(end of the visible blocks, at least 1; end of those that every row sees whole)."""
    end = gl.cdiv(keys, BN)
    whole = keys // BN
    if CAUSAL:
        last = gl.minimum(start + BM, rows) + keys - rows
        end = gl.cdiv(gl.minimum(keys, gl.maximum(last, 0)), BN)
        whole = gl.minimum(keys, gl.maximum(start + 1 + keys - rows, 0)) // BN
    end = gl.maximum(end, 1)
    return end, gl.minimum(whole, end)


@gluon.jit
def load_tiles(
    q_desc, k_desc, v_desc, q_tile, k_tiles, v_tiles, q_ready, k_ready, k_empty, v_ready, v_empty,
    start, head, batch, kv_head, end, BN: gl.constexpr, BUFFERS: gl.constexpr,
):  # fmt: skip
    """The producer: Q once, then K and V of every block, as buffers become empty."""
    mbarrier.expect(q_ready, q_desc.nbytes_per_cta)
    tma.async_load(q_desc, [batch, head, start, 0], q_ready, q_tile)
    for n in range(end):
        place, phase = n % BUFFERS, (n // BUFFERS & 1) ^ 1
        row = (end - 1 - n) * BN
        mbarrier.wait(k_empty.index(place), phase)
        mbarrier.expect(k_ready.index(place), k_desc.nbytes_per_cta)
        tma.async_load(k_desc, [batch, kv_head, row, 0], k_ready.index(place), k_tiles.index(place))
        mbarrier.wait(v_empty.index(place), phase)
        mbarrier.expect(v_ready.index(place), v_desc.nbytes_per_cta)
        tma.async_load(v_desc, [batch, kv_head, row, 0], v_ready.index(place), v_tiles.index(place))


@gluon.jit
def softmax(
    s, top, total, scale, i, block, rows, keys,
    BN: gl.constexpr, CAUSAL: gl.constexpr, MASKED: gl.constexpr, SHAPE: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """(P, the factor of what was summed before, the new maximum and sum) of the products of one block."""
    s = s * (scale * LOG2E)
    if MASKED:
        j = block * BN + gl.arange(0, BN, layout=gl.SliceLayout(0, layout))
        seen = gl.expand_dims(j, 0) < keys
        if CAUSAL:
            seen = seen & (gl.expand_dims(j, 0) <= gl.expand_dims(i, 1) + keys - rows)
        s = gl.where(seen, s, gl.full(SHAPE, float("-inf"), gl.float32, layout=layout))
    new = gl.maximum(top, gl.max(s, 1))
    safe = gl.where(new == float("-inf"), 0.0, new)
    p = gl.exp2(s - gl.expand_dims(safe, 1))
    alpha = gl.exp2(top - safe)
    return p, alpha, new, total * alpha + gl.sum(p, 1)


@gluon.jit
def step(
    n, p, acc, top, total, q, k_tiles, v_tiles, k_ready, k_empty, v_ready, v_empty, scale, i, end, rows, keys,
    D: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BUFFERS: gl.constexpr, CAUSAL: gl.constexpr,
    MASKED: gl.constexpr, s_layout: gl.constexpr, p_layout: gl.constexpr,
):  # fmt: skip
    """Block number n: its scores, while P of the block before is multiplied with its V."""
    place, phase = n % BUFFERS, n // BUFFERS & 1
    before, phase_before = (n - 1) % BUFFERS, (n - 1) // BUFFERS & 1
    zero = gl.zeros([BM, BN], gl.float32, layout=s_layout)
    mbarrier.wait(k_ready.index(place), phase)
    k = k_tiles.index(place).reshape([BN, D]).permute((1, 0))
    s = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
    mbarrier.wait(v_ready.index(before), phase_before)
    acc = warpgroup_mma(p, v_tiles.index(before).reshape([BN, D]), acc, is_async=True)
    s = warpgroup_mma_wait(1, deps=(s,))
    mbarrier.arrive(k_empty.index(place), count=1)
    p_next, alpha, top, total = softmax(
        s, top, total, scale, i, end - 1 - n, rows, keys, BN, CAUSAL, MASKED, [BM, BN], s_layout
    )
    # P is named too: its registers are operands until the product is done
    acc, p = warpgroup_mma_wait(0, deps=(acc, p))
    mbarrier.arrive(v_empty.index(before), count=1)
    alpha = gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))
    acc = acc * gl.expand_dims(alpha, 1)
    p = gl.convert_layout(p_next.to(p.dtype), p_layout)
    return p, acc, top, total


@gluon.jit
def attend(
    o_desc, Lse, q_tile, k_tiles, v_tiles, q_ready, k_ready, k_empty, v_ready, v_empty,
    start, head, batch, end, whole, rows, keys, scale, lse_batch, lse_head, has_lse,
    D: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BUFFERS: gl.constexpr, CAUSAL: gl.constexpr,
    num_warps: gl.constexpr,
):  # fmt: skip
    """The consumers: O and the LSE of BM rows."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    i = start + gl.arange(0, BM, layout=gl.SliceLayout(1, s_layout))
    top = gl.full([BM], float("-inf"), gl.float32, layout=gl.SliceLayout(1, s_layout))
    total = gl.zeros([BM], gl.float32, layout=gl.SliceLayout(1, s_layout))
    acc = gl.zeros([BM, D], gl.float32, layout=o_layout)
    mbarrier.wait(q_ready, 0)
    q = q_tile.reshape([BM, D])
    mbarrier.wait(k_ready.index(0), 0)
    zero = gl.zeros([BM, BN], gl.float32, layout=s_layout)
    k = k_tiles.index(0).reshape([BN, D]).permute((1, 0))
    s = warpgroup_mma_wait(0, deps=(warpgroup_mma(q, k, zero, use_acc=False, is_async=True),))
    mbarrier.arrive(k_empty.index(0), count=1)
    p, _, top, total = softmax(s, top, total, scale, i, end - 1, rows, keys, BN, CAUSAL, True, [BM, BN], s_layout)
    p = gl.convert_layout(p.to(o_desc.dtype), p_layout)
    masked = gl.maximum(end - whole, 1)
    for n in range(1, masked):
        p, acc, top, total = step(
            n, p, acc, top, total, q, k_tiles, v_tiles, k_ready, k_empty, v_ready, v_empty, scale, i, end, rows,
            keys, D, BM, BN, BUFFERS, CAUSAL, True, s_layout, p_layout,
        )  # fmt: skip
    for n in range(masked, end):
        p, acc, top, total = step(
            n, p, acc, top, total, q, k_tiles, v_tiles, k_ready, k_empty, v_ready, v_empty, scale, i, end, rows,
            keys, D, BM, BN, BUFFERS, CAUSAL, False, s_layout, p_layout,
        )  # fmt: skip
    final = (end - 1) % BUFFERS
    mbarrier.wait(v_ready.index(final), (end - 1) // BUFFERS & 1)
    acc = warpgroup_mma(p, v_tiles.index(final).reshape([BN, D]), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=(acc,))
    seen = total > 0
    whole_sum = gl.where(seen, total, 1.0)
    lse = gl.where(seen, (top + gl.log2(whole_sum)) * LN2, float("-inf"))
    at = Lse + batch.to(gl.int64) * lse_batch + head.to(gl.int64) * lse_head + i
    gl.store(at, lse, mask=(i < rows) & (has_lse != 0))
    share = gl.convert_layout(1.0 / whole_sum, gl.SliceLayout(1, o_layout))
    q.store((acc * gl.expand_dims(share, 1)).to(o_desc.dtype))
    fence_async_shared()
    gl.barrier()
    tma.async_store(o_desc, [batch, head, start, 0], q_tile)
    tma.store_wait(0)


@gluon.jit
def forward_hopper(
    QMap, KMap, VMap, OutMap, Lse, lse_batch, lse_head, rows, keys, group, scale, has_lse,
    D: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BUFFERS: gl.constexpr, CAUSAL: gl.constexpr,
    WARPS: gl.constexpr,
):  # fmt: skip
    """O, and the LSE where it is wanted. Grid (blocks of BM rows, heads, batch)."""
    start, head, batch = gl.program_id(0) * BM, gl.program_id(1), gl.program_id(2)
    end, whole = blocks_of(start, rows, keys, BM, BN, CAUSAL)
    q_tile = gl.allocate_shared_memory(QMap.dtype, QMap.block_type.shape, QMap.layout)
    k_tiles = gl.allocate_shared_memory(KMap.dtype, [BUFFERS] + KMap.block_type.shape, KMap.layout)
    v_tiles = gl.allocate_shared_memory(VMap.dtype, [BUFFERS] + VMap.block_type.shape, VMap.layout)
    q_ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_ready = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [BUFFERS, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_ready, count=1)
    for n in gl.static_range(BUFFERS):
        mbarrier.init(k_ready.index(n), count=1)
        mbarrier.init(k_empty.index(n), count=1)
        mbarrier.init(v_ready.index(n), count=1)
        mbarrier.init(v_empty.index(n), count=1)
    gl.warp_specialize([
        (attend, (OutMap, Lse, q_tile, k_tiles, v_tiles, q_ready, k_ready, k_empty, v_ready, v_empty, start, head,
                  batch, end, whole, rows, keys, scale, lse_batch, lse_head, has_lse, D, BM, BN, BUFFERS, CAUSAL, WARPS)),
        (load_tiles, (QMap, KMap, VMap, q_tile, k_tiles, v_tiles, q_ready, k_ready, k_empty, v_ready, v_empty, start,
                      head, batch, head // group, end, BN, BUFFERS)),
    ], [1], [24])  # fmt: skip
