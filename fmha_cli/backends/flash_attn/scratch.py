"""The scratch tensors of a plan. They have upstream's names and shapes, and all are dense.

Source: ``csrc/flash_attn/flash_api.cpp``, the ``torch::empty`` and ``torch::zeros`` of each API.
"""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.cuda.scratch import Scratch, workspaces
from fmha_cli.backends.cuda.staging import Staging
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.domain.features import Mode
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need

PAD_ROWS = 128
"""Rows between packed sequences in the backward pass's scratch tensors: the tallest tile (``mha_varlen_bwd``)."""
COMBINE_ROWS = 16
"""Most rows of a combine kernel's block. It stores LSE in whole blocks, past the end of a batched tensor."""
RNG_STATE = 16


def scratch_of(situation: FlashSituation, main: KernelSpec, splits: int) -> dict[str, Scratch]:
    """The scratch tensors of a main kernel's plan, by name. Each is a workspace of the plan.

    - ``softmax_lse``: fp32, natural logarithm, see :func:`lse_scratch`.
    - ``softmax_lse_accum``: (splits, batch, heads, seqlen_q), with several splits only.
    - ``out_accum``: (splits, batch, heads, seqlen_q, hdim_rounded), with several splits only.
    - ``rng_state``: two uint64. The forward kernel writes them with dropout; a backward plan always has them.
    - ``softmax_d``: row sums of dO * O.
    - ``dq_accum``: see ``FaBwdParams``.
    - ``dk_expanded``, ``dv_expanded``: dK and dV of each query head, see :func:`expand_heads`.
    """
    made = _backward(situation) if main.family is Family.BWD_DQ_DK_DV else _forward(situation, main, splits)
    return dict(made)


def workspaces_of(situation: FlashSituation, main: KernelSpec, splits: int) -> tuple[Workspace, ...]:
    """The scratch tensors that have bytes, in the order in which upstream allocates them."""
    return workspaces(scratch_of(situation, main, splits))


def lse_scratch(situation: FlashSituation, main: KernelSpec) -> Scratch:
    """``softmax_lse``, with heads and rows as they are after their exchange.

    - Batched: (batch, heads, seqlen_q).
    - Packed: (heads, total_q).
    - Packed and exchanged: (heads, seqlen_q, batch), see ``get_lse_tile``.
    """
    s = situation
    if not lse_is_packed(s, main):
        return Scratch((s.problem.batch, s.heads, s.seqlen_q), spare=COMBINE_ROWS)
    if s.swapped:
        return Scratch((s.heads, s.seqlen_q, s.problem.batch))
    return Scratch((s.heads, s.total_q))


def lse_is_packed(situation: FlashSituation, main: KernelSpec) -> bool:
    """``params.unpadded_lse``, which is upstream's except for one kernel.

    That kernel is the split-KV kernel that writes O itself (``Split`` false). It computes the place of a row in a
    packed LSE from total_q where a tile has keys, but from seqlen_q where it has none
    (``compute_attn_1rowblock_splitkv``, ``row_offset_lseaccum``). It also ignores the exchange of heads and rows. Its
    batched LSE is right.
    """
    whole = main.family is Family.FWD_SPLITKV and main.signature.split is Need.NO
    return situation.unpadded_lse and not whole


def expand_heads(problem: Problem) -> Staging:
    """dK and dV of each query head, with grouped heads."""
    names = {"dk": "dk_expanded", "dv": "dv_expanded"} if problem.heads != problem.kv_heads else {}
    return Staging(problem, (problem.hdim, problem.hdim_v), names, groups=True)


def _forward(s: FlashSituation, main: KernelSpec, splits: int) -> Iterator[tuple[str, Scratch]]:
    yield "softmax_lse", lse_scratch(s, main)
    if splits > 1:
        parts = (splits, s.problem.batch, s.heads, s.seqlen_q)
        yield "softmax_lse_accum", Scratch(parts)
        yield "out_accum", Scratch((*parts, s.hdim_rounded))
    if s.problem.dropout:
        yield "rng_state", Scratch((2,), RNG_STATE // 2)


def _backward(s: FlashSituation) -> Iterator[tuple[str, Scratch]]:
    p = s.problem
    lse, d, dq = _packed_shapes(s) if p.mode is Mode.GROUP else _batch_shapes(s)
    yield "softmax_lse", Scratch(lse)
    yield "rng_state", Scratch((2,), RNG_STATE // 2)
    yield "softmax_d", Scratch(d)
    yield "dq_accum", Scratch((s.dq_parts, *dq))
    yield from expand_heads(p).staged()


def _packed_shapes(s: FlashSituation) -> tuple[tuple[int, ...], ...]:
    """The shapes of LSE, ``softmax_d``, and one part of ``dq_accum``."""
    heads, rows = s.problem.heads, s.total_q + PAD_ROWS * s.problem.batch
    return (heads, s.total_q), (heads, rows), (rows, heads, s.hdim_rounded)


def _batch_shapes(s: FlashSituation) -> tuple[tuple[int, ...], ...]:
    """The same shapes as :func:`_packed_shapes`, for batch mode."""
    batch, heads, rows = s.problem.batch, s.problem.heads, s.seqlen_q_rounded
    return (batch, heads, s.seqlen_q), (batch, heads, rows), (batch, rows, heads, s.hdim_rounded)
