"""``BackwardSizes``: the sizes of a backward pass that depend on the main kernel's tile, and the scratch tensors made by them.

Source: ``hopper/flash_api.cpp`` ``mha_bwd``, ``flash_bwd_launch_template.h`` ``run_flash_bwd``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.backends.cuda.scratch import Scratch
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance

LSE_LOG2, DOT, DQ_SUMS = "softmax_lse_log2", "softmax_d", "dq_accum"
SEMAPHORES = ("dk_semaphore", "dv_semaphore")
KEY_SUMS = ("dk_accum", "dv_accum")
DQ_SEMAPHORE = "dq_semaphore"
QDO_L2_BYTES = 40 << 20
"""The part of the L2 cache that ``SingleTileBwdLPTScheduler`` fills with Q, dO and the sums of dQ."""
FLOAT = 4


@dataclass(frozen=True)
class BackwardSizes:
    """Sizes by the names of ``run_flash_bwd``.

    Attributes:
        seqlen_q, seqlen_k: rows; of packed sequences of all together.
        seqlen_q_rounded, seqlen_k_rounded: rows of the scratch tensors: whole tiles. Each packed sequence begins at a tile.
        batch: ``batch_q`` and ``batch_k``: 1 of packed sequences.
        hdim: ``d_rounded`` and ``dv_rounded``: the head dim of the kernel.
        key_tiles: ``num_blocks_n`` of the longest sequence.
        row_tiles: tiles of rows of the longest sequence.
    """

    seqlen_q: int
    seqlen_k: int
    seqlen_q_rounded: int
    seqlen_k_rounded: int
    batch: int
    hdim: int
    key_tiles: int
    row_tiles: int

    @staticmethod
    def of(s: Fa3Situation, i: BackwardInstance) -> BackwardSizes:
        p, (rows, keys) = s.problem, i.a.tile
        q, k, apart = s.seqlen_q, s.seqlen_k, 0
        if s.packed_q:
            q, k, apart = sum(p.query_lengths()), sum(p.key_lengths()), p.batch
        return BackwardSizes(
            seqlen_q=q,
            seqlen_k=k,
            seqlen_q_rounded=next_multiple(q + apart * rows, rows),
            seqlen_k_rounded=next_multiple(k + apart * keys, keys),
            batch=s.batch_q,
            hdim=i.hdim,
            key_tiles=-(-s.seqlen_k // keys),
            row_tiles=-(-s.seqlen_q // rows),
        )

    def swizzle(self, s: Fa3Situation) -> int:
        """``swizzle``: heads whose Q, dO and sums of dQ fill a part of the L2 cache; a power of two."""
        p = s.problem
        head_bytes = s.seqlen_q * (2 * (p.hdim + p.hdim_v) + FLOAT * p.hdim)
        return 1 if head_bytes > QDO_L2_BYTES else 1 << (QDO_L2_BYTES // head_bytes).bit_length() - 1


def backward_scratch(s: Fa3Situation, i: BackwardInstance) -> dict[str, Scratch]:
    """The scratch tensors of a backward pass by name, all fp32 or int32.

    - ``softmax_d``, ``softmax_lse_log2``: (batch, heads, rounded rows), without the batch of packed rows. The first stage writes them.
    - ``dq_accum``: (batch, heads, rounded rows * head dim), likewise. The first stage clears it.
    - ``dk_accum``, ``dv_accum``: the same over the keys and their heads, with grouped heads. They must be zero.
    - ``dq_semaphore``: (tiles of rows, batch, heads). The first stage clears it.
    - ``dk_semaphore``, ``dv_semaphore``: (tiles of keys, batch, key heads), with grouped heads in a fixed order. They must be zero.
    """
    p, z = s.problem, BackwardSizes.of(s, i)
    rows, sums = (z.batch, p.heads, z.seqlen_q_rounded), (z.batch, p.kv_heads, z.seqlen_k_rounded * z.hdim)
    made = {name: Scratch(rows) for name in (DOT, LSE_LOG2)}
    made[DQ_SUMS] = Scratch((*rows[:2], z.seqlen_q_rounded * z.hdim))
    made |= {name: Scratch(sums) for name in KEY_SUMS if i.a.gqa}
    made[DQ_SEMAPHORE] = Scratch((z.row_tiles, p.batch, p.heads))
    counted = i.a.gqa and i.a.fixed_order
    return made | {name: Scratch((z.key_tiles, p.batch, p.kv_heads)) for name in SEMAPHORES if counted}


def cleared_by(i: BackwardInstance) -> tuple[str, ...]:
    """The scratch tensors that must be zero when the main kernel starts (``torch::zeros`` of ``mha_bwd``)."""
    if not i.a.gqa:
        return ()
    return (*KEY_SUMS, *SEMAPHORES) if i.a.fixed_order else KEY_SUMS
