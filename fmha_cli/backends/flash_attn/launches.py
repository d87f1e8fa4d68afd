"""How a stage is launched: grid, block, dynamic shared memory, and what it gets beside the parameter block.

Source: ``run_flash_fwd`` and ``run_flash_splitkv_fwd`` of ``flash_fwd_launch_template.h``,
``run_flash_bwd_seqk_parallel`` of ``flash_bwd_launch_template.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fmha_cli.backends.flash_attn.places import Call
from fmha_cli.codegen.flash_attn import traits
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.plan import Stage

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One launch.

    Attributes:
        grid, block: in blocks and in threads. smem: dynamic shared memory in bytes.
        extra: values of the kernel's ``int`` parameters behind the block.
    """

    grid: Grid
    block: Grid
    smem: int
    extra: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        """A grid without blocks: there is nothing to do, and CUDA refuses it."""
        return 0 in self.grid


def launch_of(stage: Stage, call: Call) -> Launch:
    """The launch of a stage."""
    kernel = stage.kernel
    extra = (call.situation.dq_parts,) if stage.family is Family.BWD_CONVERT_DQ else ()
    grid = _GRIDS[stage.family](call, kernel)
    return Launch(grid, (traits.threads(kernel), 1, 1), traits.smem_bytes(kernel), extra)


def _blocks(length: int, size: int) -> int:
    return -(-length // size)


def _rows(call: Call, kernel: KernelSpec) -> Grid:
    s = call.situation
    return _blocks(s.seqlen_q, traits.rows_per_block(kernel)), s.problem.batch, s.heads


def _split(call: Call, kernel: KernelSpec) -> Grid:
    rows, batch, heads = _rows(call, kernel)
    return (rows, call.plan.splits, batch * heads) if call.plan.splits > 1 else (rows, batch, heads)


def _combine(call: Call, kernel: KernelSpec) -> Grid:
    s = call.situation
    return _blocks(s.problem.batch * s.heads * s.seqlen_q, traits.rows_per_block(kernel)), 1, 1


def _keys(call: Call, kernel: KernelSpec) -> Grid:
    """A deterministic pass has as many blocks of keys as copies of the dQ accumulator, whatever the keys."""
    s = call.situation
    columns = s.dq_parts if s.problem.deterministic else _blocks(s.seqlen_k, traits.rows_per_block(kernel))
    return columns, s.problem.batch, s.heads


_GRIDS: Mapping[Family, Callable[[Call, KernelSpec], Grid]] = {
    Family.FWD: _rows,
    Family.FWD_SPLITKV: _split,
    Family.FWD_SPLITKV_COMBINE: _combine,
    Family.BWD_DOT_DO_O: _rows,
    Family.BWD_DQ_DK_DV: _keys,
    Family.BWD_CONVERT_DQ: _rows,
}
