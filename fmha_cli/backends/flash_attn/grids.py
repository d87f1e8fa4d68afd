"""The grid of every launch, as upstream's launch templates compute it from sizes and tiles.

Source: ``csrc/flash_attn/src/flash_fwd_launch_template.h`` ``run_flash_fwd`` and ``run_flash_splitkv_fwd``,
``flash_bwd_launch_template.h`` ``run_flash_bwd_seqk_parallel``.
"""

from __future__ import annotations

from typing import NamedTuple

from fmha_cli.backends.flash_attn.index_limits import grid_yz
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.codegen.flash_attn.traits import rows_per_block
from fmha_cli.domain.kernel import Family, KernelSpec


class Grid(NamedTuple):
    """Blocks along x, y and z, and the formula of x."""

    x: int
    y: int
    z: int
    formula: str

    @property
    def blocks(self) -> tuple[int, int, int]:
        return self.x, self.y, self.z


def grid_of(s: Situation, kernel: KernelSpec, splits: int) -> Grid:
    """The grid of a kernel of any stage. ``splits`` is the plan's count."""
    step, batch = rows_per_block(kernel), s.problem.batch
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        rows = batch * s.heads * s.seqlen_q
        return Grid(-(-rows // step), 1, 1, f"ceil({batch}*{s.heads}*{s.seqlen_q}/{step})")
    if kernel.family is not Family.BWD_DQ_DK_DV:
        y, z = grid_yz(s, split=splits > 1 and kernel.family is Family.FWD_SPLITKV)
        return Grid(-(-s.seqlen_q // step), y, z, f"ceil({s.seqlen_q}/{step})")
    if s.problem.deterministic:
        formula = f"ceil({s.multiprocessors} multiprocessors/({batch}*{s.heads}))"
        return Grid(s.dq_parts, batch, s.heads, formula)
    return Grid(-(-s.seqlen_k // step), batch, s.heads, f"ceil({s.seqlen_k}/{step})")
