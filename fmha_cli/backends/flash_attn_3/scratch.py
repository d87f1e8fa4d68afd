"""The scratch tensors of a plan. They have upstream's names and shapes, and all are dense.

Source: ``hopper/flash_api.cpp`` ``mha_fwd``, its ``torch::empty``.
"""

from __future__ import annotations

from fmha_cli.backends.cuda.scratch import Scratch
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation, rounded_batch
from fmha_cli.codegen.flash_attn_3.instance import TileScheduler, forward_instance
from fmha_cli.domain.kernel import KernelSpec

LSE, SEMAPHORE, METADATA = "softmax_lse", "tile_count_semaphore", "scheduler_metadata"
OUT_PARTS, LSE_PARTS = "out_accum", "softmax_lse_accum"
KEPT = "v_behind_keys"
COUNTING = (TileScheduler.DYNAMIC, TileScheduler.VARLEN)
"""Schedulers whose blocks take tiles from a counter (``scheduler_needs_semaphore``)."""


def scratch_of(situation: Fa3Situation, main: KernelSpec) -> dict[str, Scratch]:
    """The scratch tensors by name.

    - ``softmax_lse``: fp32 (batch, heads, seqlen_q), which kernels always write; only where the LSE is not asked for.
    - ``tile_count_semaphore``: int32, the counter of tiles, zero before each launch.
    - ``scheduler_metadata``: int32, what prepare writes for each sequence (``metadata_places``). Upstream has the counter behind it.
    - ``out_accum``: fp32 (splits, batch, heads, seqlen_q, hdim_v), the parts of O; of packed rows without the batch.
    - ``softmax_lse_accum``: fp32 (splits, batch, heads, seqlen_q), the LSE of the parts; likewise.
    - ``v_behind_keys``: rows of V that the host keeps (``cache_tails.py``). No kernel reads them.
    """
    s, p, i = situation, situation.problem, forward_instance(main)
    rows = (s.batch_q, p.heads, s.total_q)
    made: dict[str, Scratch] = {} if p.lse else {LSE: Scratch(rows)}
    if i.scheduler in COUNTING:
        made[SEMAPHORE] = Scratch((1,))
    if i.a.varlen:
        made[METADATA] = Scratch((len(metadata_places(s)) * rounded_batch(p.batch),))
    if i.split:
        made[OUT_PARTS] = Scratch((s.splits.count, *rows, p.hdim_v))
        made[LSE_PARTS] = Scratch((s.splits.count, *rows))
    tails = sum(map(len, tails_of(s, main)))
    if tails:
        made[KEPT] = Scratch((tails, p.kv_heads, p.hdim_v), i.element_bytes)
    return made


def metadata_places(situation: Fa3Situation) -> dict[str, int]:
    """The numbers that prepare writes for each sequence, by upstream's names without ``_ptr``, and their first elements."""
    names = ["num_splits_dynamic", "num_m_blocks"]
    names += ["varlen_batch_idx"] * situation.sorts + ["num_nheads_in_l2"] * situation.swizzles
    return {name: at * rounded_batch(situation.problem.batch) for at, name in enumerate(names)}


def tails_of(situation: Fa3Situation, main: KernelSpec) -> list[range]:
    """The rows behind each sequence's keys that a kernel loads, counted from the first row of its place in the cache."""
    s, p = situation, situation.problem
    if not s.varlen or s.packed_k or forward_instance(main).a.paged:
        return []
    keys = forward_instance(main).a.tile[1]
    found = zip(p.key_lengths(), p.leftpads(), strict=True)
    return [range(pad + n, min(pad + -(-n // keys) * keys, s.seqlen_k)) for n, pad in found]
