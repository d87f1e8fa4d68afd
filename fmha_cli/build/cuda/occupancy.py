"""How many blocks of a kernel fit on one multiprocessor at once, and what limits them.

With ``r`` registers of a thread, ``w`` warps and ``s`` bytes of shared memory of a block:

- registers are given to whole warps, ``up(r * warp_size, register_allocation_unit)`` each, and every scheduler has an
  equal part of the file: ``registers_per_sm // schedulers // warp_registers`` warps on each. No kernel has more than
  ``max_registers_per_thread``; a block's warps are counted up to ``warp_allocation_granularity``.
- shared memory: ``shared_per_sm // up(s + shared_reserved_per_block, shared_allocation_unit)`` blocks.
- ``max_warps_per_sm // w`` and ``max_blocks_per_sm`` blocks.

Source: ``cuda_occupancy.h`` of CUDA 13.0 (``cudaOccMaxActiveBlocksPerMultiprocessor`` and what it calls), which is
NVIDIA's published occupancy calculator. The numbers are facts of the architecture (``arch_specs/``). The carve-out of
shared memory is taken as the largest, as the driver chooses it for a kernel that needs it. Barriers are left out: a
block that has one of them, like each of FlashAttention's, never lacks it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.arch import ArchSpec


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What one block asks for.

    Attributes:
        registers: of a thread; threads: of the block; shared_bytes: static and dynamic, without what the driver adds.
    """

    registers: int
    threads: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """How a kernel fills a multiprocessor.

    Attributes:
        blocks, warps: that are resident at once; 0 where a block does not fit at all.
        warps_per_scheduler: warps / schedulers; a fraction where a block does not fill all of them.
        fraction: warps of the most that the multiprocessor keeps.
        limited_by: what stands in the way of one more: ``registers``, ``shared``, ``warps`` or ``blocks``.
        by_registers, by_shared, by_warps, by_blocks: blocks that each of them alone allows.
        most_warps: the architecture's own limit.
    """

    blocks: int
    warps: int
    warps_per_scheduler: float
    fraction: float
    limited_by: tuple[str, ...]
    by_registers: int
    by_shared: int
    by_warps: int
    by_blocks: int
    most_warps: int


def occupancy_of(demand: Demand, arch: ArchSpec) -> Occupancy:
    """The occupancy of a launch.

    Raises:
        InternalError: the architecture does not state a fact that is needed.
    """
    # One warp of four goes to each scheduler: the granularity is their number (cuda_occupancy.h, cudaOccSubPartitionsPerMultiprocessor).
    schedulers: int = arch.fact("warp_allocation_granularity")
    most_warps: int = arch.fact("max_warps_per_sm")
    width = -(-demand.threads // arch.fact("warp_size"))
    bounds = {
        "registers": _by_registers(demand, width, schedulers, arch),
        "shared": _by_shared(demand, arch),
        "warps": most_warps // width if demand.threads <= arch.fact("max_threads_per_block") else 0,
        "blocks": arch.fact("max_blocks_per_sm"),
    }
    blocks = min(bounds.values())
    # The warp slots are the last to be blamed: registers "limit" to them too when they allow all of them.
    tight = tuple(name for name, most in bounds.items() if most == blocks)
    warps = blocks * width
    return Occupancy(
        blocks=blocks,
        warps=warps,
        warps_per_scheduler=warps / schedulers,
        fraction=warps / most_warps,
        limited_by=("warps",) if "warps" in tight else tight,
        by_registers=bounds["registers"],
        by_shared=bounds["shared"],
        by_warps=bounds["warps"],
        by_blocks=bounds["blocks"],
        most_warps=most_warps,
    )


def _by_registers(demand: Demand, width: int, schedulers: int, arch: ArchSpec) -> int:
    if demand.registers > arch.fact("max_registers_per_thread"):
        return 0
    of_warp = _up(max(1, demand.registers) * arch.fact("warp_size"), arch.fact("register_allocation_unit"))
    of_block = of_warp * _up(width, schedulers)
    if of_block > arch.fact("max_registers_per_block"):
        return 0
    registers: int = arch.fact("registers_per_sm")
    return registers // schedulers // of_warp * schedulers // width


def _by_shared(demand: Demand, arch: ArchSpec) -> int:
    if demand.shared_bytes > arch.fact("shared_per_block_optin"):
        return 0
    of_block = _up(demand.shared_bytes + arch.fact("shared_reserved_per_block"), arch.fact("shared_allocation_unit"))
    shared: int = arch.fact("shared_per_sm")
    return shared // of_block


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
