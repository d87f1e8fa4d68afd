"""Rules K450-K456: the kernels' 32-bit numbers, and the grids and shared memory that CUDA can launch.

Strides of tensors are 64-bit.
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import ROUND_ROWS, FlashSituation
from fmha_cli.backends.flash_attn.tiles import facts_of
from fmha_cli.backends.gpu.arithmetic import GRID_END
from fmha_cli.backends.gpu.conditions import Condition, refuse
from fmha_cli.backends.gpu.rule_rows import conditions
from fmha_cli.codegen.flash_attn.traits import smem_bytes
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import Need

INT_END = 1 << 31
LENGTH_END = 1 << 30
COUNTERS = 32
"""Philox counters of one head of one sequence: one for each lane of a warp."""
SMALLER = "a smaller --batch, fewer heads or shorter sequences"


def _packed_rows(s: FlashSituation) -> int:
    return max(s.total_q, sum(s.problem.key_lengths())) if s.api.varlen else 0


def rows_of(s: FlashSituation) -> int:
    """Rows of one head in LSE or, in a backward pass, in the sums of dO * O. Padding is included."""
    if not s.api.backward:
        return s.total_q if s.api.varlen else s.problem.batch * s.seqlen_q
    return s.total_q + ROUND_ROWS * s.problem.batch if s.api.varlen else s.problem.batch * s.seqlen_q_rounded


def _partials(s: FlashSituation) -> int:
    return s.splits.count * s.problem.batch * s.heads * s.seqlen_q * s.hdim_rounded


def _counters(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    count = s.problem.batch * s.problem.heads * COUNTERS
    if not s.problem.dropout or count < INT_END:
        return None
    text = f"dropout of {s.problem.batch * s.problem.heads} heads: {count} random counters, which are 32-bit"
    return Refusal(text, "a smaller --batch")


def grid_yz(s: FlashSituation, *, split: bool) -> tuple[int, int]:
    """The second and third dimension of a main kernel's grid."""
    return (s.splits.count, s.problem.batch * s.heads) if split else (s.problem.batch, s.heads)


def _grid(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    y, z = grid_yz(s, split=kernel.signature.split is Need.YES)
    if y < GRID_END and z < GRID_END:
        return None
    text = f"a grid of {y} by {z} blocks: CUDA accepts fewer than {GRID_END} along y and z"
    return Refusal(text, "a smaller --batch")


def _shared_memory(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    own, need = s.device.archs[0], smem_bytes(kernel)
    if own == kernel.arch or need <= facts_of(load_arch(own)).block:
        return None
    text = f"{need} bytes of shared memory per block: {kernel.arch} has them, {own} does not"
    return Refusal(text, f"--arch {own}, or a smaller --hdim")


WIDTHS: tuple[Condition[FlashSituation], ...] = conditions(
    NAME,
    {
        "K450": refuse(
            lambda s, k: max(s.seqlen_q, s.seqlen_k) >= LENGTH_END,
            lambda s, k: f"a sequence of {max(s.seqlen_q, s.seqlen_k)}: the kernels add two lengths in 32 bits",
            "sequences shorter than 2^30",
        ),
        "K451": refuse(
            lambda s, k: _packed_rows(s) >= INT_END,
            lambda s, k: f"{_packed_rows(s)} packed rows: offsets of sequences are 32-bit",
            SMALLER,
        ),
        "K452": refuse(
            lambda s, k: rows_of(s) * s.heads >= INT_END,
            lambda s, k: f"{rows_of(s) * s.heads} rows of all heads: offsets into the LSE are 32-bit",
            SMALLER,
        ),
        "K453": refuse(
            lambda s, k: k.signature.split is Need.YES and _partials(s) >= INT_END,
            lambda s, k: f"{_partials(s)} elements of partial outputs: the kernels' offsets into them are 32-bit",
            f"fewer --splits, or {SMALLER}",
        ),
        "K454": _counters,
        "K455": _grid,
        "K456": _shared_memory,
    },
)
"""Conditions on sizes."""
