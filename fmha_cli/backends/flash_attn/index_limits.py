"""Rules K450-K456: the kernels' 32-bit numbers, and the grids and shared memory that CUDA can launch.

Strides of tensors are 64-bit.
"""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import ROUND_ROWS, FlashSituation
from fmha_cli.backends.flash_attn.tiles import facts_of
from fmha_cli.backends.gpu.arithmetic import GRID_END
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together
from fmha_cli.codegen.flash_attn.traits import smem_bytes
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import Need

INT_END = 1 << 31
LENGTH_END = 1 << 30
COUNTERS = 32
"""Philox counters of one head of one sequence: one for each lane of a warp."""


def _packed_rows(s: FlashSituation) -> int:
    return max(s.total_q, sum(s.problem.key_lengths())) if s.api.varlen else 0


def rows_of(s: FlashSituation) -> int:
    """Rows of one head in LSE or, in a backward pass, in the sums of dO * O. Padding is included."""
    if not s.api.backward:
        return s.total_q if s.api.varlen else s.problem.batch * s.seqlen_q
    return s.total_q + ROUND_ROWS * s.problem.batch if s.api.varlen else s.problem.batch * s.seqlen_q_rounded


def grid_yz(s: FlashSituation, *, split: bool) -> tuple[int, int]:
    """The second and third dimension of a main kernel's grid."""
    return (s.splits.count, s.problem.batch * s.heads) if split else (s.problem.batch, s.heads)


def _findings(s: FlashSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p, longest, split = s.problem, max(s.seqlen_q, s.seqlen_k), kernel.signature.split is Need.YES
    yield "K450", refuse_if(longest >= LENGTH_END, length=longest)
    yield "K451", refuse_if(_packed_rows(s) >= INT_END, rows=_packed_rows(s))
    yield "K452", refuse_if(rows_of(s) * s.heads >= INT_END, rows=rows_of(s) * s.heads)
    partials = s.splits.count * p.batch * s.heads * s.seqlen_q * s.hdim_rounded
    yield "K453", refuse_if(split and partials >= INT_END, partials=partials)
    heads = p.batch * p.heads
    yield "K454", refuse_if(p.dropout and heads * COUNTERS >= INT_END, heads=heads, count=heads * COUNTERS)
    y, z = grid_yz(s, split=split)
    yield "K455", refuse_if(y >= GRID_END or z >= GRID_END, y=y, z=z, end=GRID_END)
    own, need = s.device.archs[0], smem_bytes(kernel)
    more = own != kernel.arch and need > facts_of(load_arch(own)).block
    yield "K456", refuse_if(more, need=need, arch=kernel.arch, own=own)


WIDTHS = conditions(NAME, together([f"K{number}" for number in range(450, 457)], _findings))
"""Conditions on sizes."""
