"""The Blackwell forward kernel in Gluon: persistent, six partitions, scores and O in tensor memory.

A tile is 256 rows of one head, in two halves of 128. One warp loads Q, K and V by TMA, one issues the products by tcgen05, and one stores O.
Four warps for each half compute its softmax, and four more multiply O by the factors that the softmax sends. P lies where the scores of
its block lay. Keys are taken from the last visible block to the first, so that the blocks that need a mask come first. Descriptors
have the axes (batch, heads, rows, head dim), so rows behind the end of a sequence are loaded as 0 and never stored.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    fence_async_shared,
    mul2,
    sub2,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)

from fmha_triton.kernels.channels import SharedChannel, TensorChannel
from fmha_triton.kernels.layouts import cga_of, in_lanes, matrix, one_each, p_in, products
from fmha_triton.kernels.tiles import Work

LOG2E = gl.constexpr(1.4426950408889634)
LN2 = gl.constexpr(0.6931471805599453)
PART = gl.constexpr(32)
"""Columns of O that the correction has in registers at a time."""
P_PARTS = gl.constexpr(4)
"""Parts in which P is computed, stored and summed up. All of P in two types, beside the scores, would not fit the registers."""
P_SHIFT = gl.constexpr(8)
"""Binary places by which P is larger in e4m3, so that its least step is 2^-17 of the largest P, not 2^-9."""
STORED = gl.constexpr(64)
"""Columns of O that one row of the swizzle of shared memory holds."""


@gluon.jit
def load_partition(work, maps, channels):
    """Q of both halves, and K and V of every block through one ring."""
    q_map, k_map, v_map = maps[0], maps[1], maps[2]
    q, kv = channels[0].producer(), channels[1].producer()
    for number in range(gl.program_id(0), work.tiles, gl.num_programs(0)):
        tile = work.tile(number)
        for half in gl.static_range(2):
            rows, q = q.acquire()
            rows.fill(q_map, [tile.batch, tile.head, tile.start + half * work.HALF, 0])
        for n in range(tile.end):
            row = (tile.end - 1 - n) * work.BN
            k, kv = kv.acquire()
            k.fill(k_map, [tile.batch, tile.head // work.group, row, 0])
            v, kv = kv.acquire()
            v.fill(v_map, [tile.batch, tile.head // work.group, row, 0])
    q.drain()
    kv.drain()


@gluon.jit
def spread(x, COLUMNS: gl.constexpr):
    """A factor of each row, for all columns."""
    return gl.expand_dims(x, 1).broadcast_to(x.shape[0], COLUMNS)


@gluon.jit
def transposed(keys):
    """K of a block, as the product with Q reads it."""
    return matrix(keys).permute((1, 0))


@gluon.jit
def scores(q, k, s, signals):
    """The scores of a block: Q·K."""
    tcgen05_mma(matrix(q.memory), transposed(k.memory), s.memory, use_acc=False, multicast=True, mbarriers=signals)


@gluon.jit
def sums(s, v, v_map, o, more, signals):
    """P·V, added to the O of the blocks before if there are ``more``."""
    p = p_in(s.memory, v_map.dtype)
    tcgen05_mma(p, matrix(v.box(v_map)), o.memory, use_acc=more, multicast=True, mbarriers=signals)


@gluon.jit
def product_partition(work, maps, channels):
    """The products. They are done in order, so the scores of a block may follow the product of P that lies in their place."""
    v_map = maps[2]
    q, kv = channels[0].consumer(), channels[1].consumer()
    s0, s1 = channels[2].producer(), channels[3].producer()
    o0, o1 = channels[4].producer(), channels[5].producer()
    own0, s0 = s0.acquire()
    own1, s1 = s1.acquire()
    for number in range(gl.program_id(0), work.tiles, gl.num_programs(0)):
        end = work.tile(number).end
        q0, q = q.acquire()
        k, kv = kv.acquire()
        scores(q0, k, own0, (own0.signal,))
        q1, q = q.acquire()
        scores(q1, k, own1, (own1.signal, k.signal))
        for n in range(1, end):
            v, kv = kv.acquire()
            k, kv = kv.acquire()
            own0, s0 = s0.acquire()
            out0, o0 = o0.acquire()
            sums(own0, v, v_map, out0, n > 1, (out0.signal,))
            scores(q0, k, own0, (own0.signal,))
            own1, s1 = s1.acquire()
            out1, o1 = o1.acquire()
            sums(own1, v, v_map, out1, n > 1, (out1.signal, v.signal))
            scores(q1, k, own1, (own1.signal, k.signal))
        tcgen05_commit(q0.signal, descs=[matrix(q0.memory), transposed(k.memory)])
        tcgen05_commit(q1.signal, descs=[matrix(q1.memory), transposed(k.memory)])
        v, kv = kv.acquire()
        own0, s0 = s0.acquire()
        out0, o0 = o0.acquire()
        sums(own0, v, v_map, out0, end > 1, (out0.signal,))
        own1, s1 = s1.acquire()
        out1, o1 = o1.acquire()
        sums(own1, v, v_map, out1, end > 1, (out1.signal, v.signal))


@gluon.jit
def parts_of(x, COUNT: gl.constexpr):
    """The columns in equal parts, in order."""
    if COUNT == 1:
        return (x,)
    else:
        first, second = x.reshape([x.shape[0], 2, x.shape[1] // 2]).permute(0, 2, 1).split()
        return parts_of(first, COUNT // 2) + parts_of(second, COUNT // 2)


@gluon.jit
def softmax_step(
    work, scale, s, factors, turn, n, end, i, top, total, dtype: gl.constexpr, SHIFT: gl.constexpr, MASKED: gl.constexpr
):
    """One block: P in the place of its scores, and the factor of what was summed before, which block 0 has none of."""
    lease, s = s.acquire()
    x = mul2(lease.memory.load(), scale)
    layout: gl.constexpr = x.type.layout
    if MASKED:
        j = (end - 1 - n) * work.BN + gl.arange(0, work.BN, layout=gl.SliceLayout(0, layout))
        seen = gl.expand_dims(j, 0) < work.keys
        if work.CAUSAL:
            seen = seen & (gl.expand_dims(j, 0) <= gl.expand_dims(i, 1) + work.keys - work.rows)
        x = gl.where(seen, x, gl.full([work.HALF, work.BN], float("-inf"), gl.float32, layout=layout))
    new = gl.maximum(top, gl.max(x, 1))
    safe = gl.where(new == float("-inf"), 0.0, new)
    alpha = gl.exp2(top - safe)
    if n > 0:
        sent, factors = factors.acquire()
        sent.memory.store(alpha)
        sent.release()
    x = sub2(x, gl.expand_dims(safe - SHIFT, 1))
    if work.TURNSTILE:
        mine, turn = turn.acquire()
    total = total * alpha
    room = p_in(lease.memory, dtype)
    xs = parts_of(x, P_PARTS)
    for part in gl.static_range(P_PARTS):
        place = room.slice(part * (work.BN // P_PARTS), work.BN // P_PARTS)
        p = gl.exp2(gl.convert_layout(xs[part], place.get_reg_layout(), assert_trivial=True))
        place.store(p.to(dtype))
        total += gl.convert_layout(gl.sum(p, 1), total.type.layout, assert_trivial=True)
    lease.release()
    if work.TURNSTILE:
        mine.release()
    return s, factors, turn, new, total


@gluon.jit
def softmax_half(work, Lse, lse_batch, lse_head, has_lse, s, factors, turn, dtype: gl.constexpr, NUMBER: gl.constexpr):
    """The softmax of one half: a factor for O of every block but the first, then that which makes O of its sum."""
    layout: gl.constexpr = gl.SliceLayout(1, s.memory.index(0).get_reg_layout())
    SHIFT: gl.constexpr = P_SHIFT if dtype == gl.float8e4nv else 0
    for number in range(gl.program_id(0), work.tiles, gl.num_programs(0)):
        tile = work.tile(number)
        i = tile.start + NUMBER * work.HALF + gl.arange(0, work.HALF, layout=layout)
        scale = work.score_scale(tile)
        top = gl.full([work.HALF], float("-inf"), gl.float32, layout=layout)
        total = gl.full([work.HALF], 0.0, gl.float32, layout=layout)
        for n in range(tile.end - tile.whole):
            s, factors, turn, top, total = softmax_step(
                work, scale, s, factors, turn, n, tile.end, i, top, total, dtype, SHIFT, True
            )
        for n in range(tile.end - tile.whole, tile.end):
            s, factors, turn, top, total = softmax_step(
                work, scale, s, factors, turn, n, tile.end, i, top, total, dtype, SHIFT, False
            )
        seen = total > 0
        whole_sum = gl.where(seen, total, 1.0)
        sent, factors = factors.acquire()
        sent.memory.store(1.0 / whole_sum)
        sent.release()
        lse = gl.where(seen, (top - SHIFT + gl.log2(whole_sum)) * LN2, float("-inf"))
        at = Lse + tile.batch.to(gl.int64) * lse_batch + tile.head.to(gl.int64) * lse_head + i
        gl.store(at, lse, mask=(i < work.rows) & (has_lse != 0))


@gluon.jit
def softmax0_partition(work, maps, channels, Lse, lse_batch, lse_head, has_lse):
    s, factors, turn = channels[2].consumer(), channels[6].producer(), channels[9].producer()
    softmax_half(work, Lse, lse_batch, lse_head, has_lse, s, factors, turn, maps[2].dtype, 0)


@gluon.jit
def softmax1_partition(work, maps, channels, Lse, lse_batch, lse_head, has_lse):
    s, factors, turn = channels[3].consumer(), channels[7].producer(), channels[9].consumer()
    softmax_half(work, Lse, lse_batch, lse_head, has_lse, s, factors, turn, maps[2].dtype, 1)


@gluon.jit
def rescale(o, factors, D: gl.constexpr):
    """O of one half times the factors of a block."""
    lease, o = o.acquire()
    sent, factors = factors.acquire()
    layout: gl.constexpr = lease.memory.slice(0, PART).get_reg_layout()
    alpha = sent.memory.load(gl.SliceLayout(1, layout))
    sent.release()
    for n in gl.static_range(D // PART):
        part = lease.memory.slice(n * PART, PART)
        part.store(mul2(part.load(layout), spread(alpha, PART)))
    lease.release()
    return o, factors


@gluon.jit
def finish(o, factors, out, scale, D: gl.constexpr):
    """O of one half over its sums, times the scale of V, in shared memory."""
    room, out = out.acquire()
    lease, o = o.acquire()
    sent, factors = factors.acquire()
    layout: gl.constexpr = lease.memory.slice(0, STORED).get_reg_layout()
    share = sent.memory.load(gl.SliceLayout(1, layout)) * scale
    sent.release()
    tile = matrix(room.memory)
    for n in gl.static_range(D // STORED):
        part = lease.memory.slice(n * STORED, STORED).load(layout)
        tile.slice(n * STORED, STORED, dim=1).store(mul2(part, spread(share, STORED)).to(tile.dtype))
    lease.release()
    fence_async_shared()
    room.release()
    return o, factors, out


@gluon.jit
def correction_partition(work, maps, channels):
    o0, o1 = channels[4].consumer(), channels[5].consumer()
    factors0, factors1 = channels[6].consumer(), channels[7].consumer()
    out = channels[8].producer()
    for number in range(gl.program_id(0), work.tiles, gl.num_programs(0)):
        tile = work.tile(number)
        for _n in range(1, tile.end):
            o0, factors0 = rescale(o0, factors0, work.D)
            o1, factors1 = rescale(o1, factors1, work.D)
        scale = work.value_scale(tile)
        o0, factors0, out = finish(o0, factors0, out, scale, work.D)
        o1, factors1, out = finish(o1, factors1, out, scale, work.D)


@gluon.jit
def store_partition(work, maps, channels):
    """O of both halves to global memory; a buffer is free again when its copy has read it."""
    out = channels[8].consumer()
    for number in range(gl.program_id(0), work.tiles, gl.num_programs(0)):
        tile = work.tile(number)
        first, out = out.acquire()
        tma.async_store(maps[3], [tile.batch, tile.head, tile.start, 0], first.memory)
        second, out = out.acquire()
        tma.async_store(maps[3], [tile.batch, tile.head, tile.start + work.HALF, 0], second.memory)
        tma.store_wait(1)
        first.release()
        tma.store_wait(0)
        second.release()


@gluon.jit
def forward_blackwell(
    QMap, KMap, VMap, OutMap, Lse, DescaleQ, DescaleK, DescaleV, lse_batch, lse_head, descale_batch, descale_head,
    rows, keys, heads, group, tiles, neighbours, scale, has_lse,
    D: gl.constexpr, BN: gl.constexpr, BUFFERS: gl.constexpr, CAUSAL: gl.constexpr,
    TURNSTILE: gl.constexpr, DESCALE: gl.constexpr,
):  # fmt: skip
    """O, and the LSE where it is wanted. Grid (programs); program p computes the tiles p, p + programs ..."""
    HALF: gl.constexpr = QMap.block_type.shape[2]
    CGA: gl.constexpr = cga_of(OutMap.layout)
    PAIRS: gl.constexpr = gl.num_ctas() > 1
    work = Work(
        rows, keys, heads, group, tiles, neighbours, scale * LOG2E,
        DescaleQ, DescaleK, DescaleV, descale_batch, descale_head,
        D, BN, HALF, CAUSAL, TURNSTILE, DESCALE,
    )  # fmt: skip
    split: gl.constexpr = one_each(CGA)
    count: gl.constexpr = products(KMap.layout.cga_layout)
    s_box: gl.constexpr = [HALF, BN]
    o_box: gl.constexpr = [HALF, D]
    s_layout: gl.constexpr = in_lanes(BN, CGA)
    o_layout: gl.constexpr = in_lanes(D, CGA)
    channels = (
        SharedChannel.create(QMap.dtype, QMap.block_type.shape, QMap.layout, 2, False, PAIRS, 1, count),
        SharedChannel.create(KMap.dtype, KMap.block_type.shape, KMap.layout, BUFFERS, False, PAIRS, 1, count),
        TensorChannel.create(gl.float32, s_box, s_layout, 1, PAIRS, False, count, 1),
        TensorChannel.create(gl.float32, s_box, s_layout, 1, PAIRS, False, count, 1),
        TensorChannel.create(gl.float32, o_box, o_layout, 1, PAIRS, False, count, 1),
        TensorChannel.create(gl.float32, o_box, o_layout, 1, PAIRS, False, count, 1),
        SharedChannel.create(gl.float32, [HALF], split, 1),
        SharedChannel.create(gl.float32, [HALF], split, 1),
        SharedChannel.create(OutMap.dtype, OutMap.block_type.shape, OutMap.layout, 2),
        SharedChannel.create(gl.int8, [gl.num_ctas()], split, 1),
    )
    maps = (QMap, KMap, VMap, OutMap)
    gl.warp_specialize([
        (correction_partition, (work, maps, channels)),
        (softmax0_partition, (work, maps, channels, Lse, lse_batch, lse_head, has_lse)),
        (softmax1_partition, (work, maps, channels, Lse, lse_batch, lse_head, has_lse)),
        (product_partition, (work, maps, channels)),
        (load_partition, (work, maps, channels)),
        (store_partition, (work, maps, channels)),
    ], [4, 4, 1, 1, 1], [192, 192, 24, 24, 24])  # fmt: skip
