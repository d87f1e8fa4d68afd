"""How a stage is launched: grid, block, dynamic shared memory, and what it gets beside the parameter block."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.backends.flash_attn.grids import grid_of
from fmha_cli.backends.flash_attn.places import Call
from fmha_cli.codegen.flash_attn import traits
from fmha_cli.kernel import Family
from fmha_cli.plan import Stage

Blocks = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One launch.

    Attributes:
        grid, block: in blocks and in threads. smem: dynamic shared memory in bytes.
        extra: values of the kernel's ``int`` parameters behind the block.
    """

    grid: Blocks
    block: Blocks
    smem: int
    extra: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        """A grid without blocks: there is nothing to do, and CUDA refuses it."""
        return 0 in self.grid


def launch_of(stage: Stage, call: Call) -> Launch:
    """The launch of a stage. ``convert_dQ`` gets the number of dQ's parts (``nsplits``)."""
    kernel = stage.kernel
    extra = (call.situation.dq_parts,) if stage.family is Family.BWD_CONVERT_DQ else ()
    grid = grid_of(call.situation, kernel, call.plan.splits).blocks
    return Launch(grid, (traits.threads(kernel), 1, 1), traits.smem_bytes(kernel), extra)
