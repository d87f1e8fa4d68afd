"""How many blocks of a kernel fit on one multiprocessor at once, and the limit.

With ``r`` registers of a thread, ``w`` warps of a block and ``s`` bytes of shared memory of a block, the limits are:

- Registers. Whole warps get them, ``up(r * warp_size, register_allocation_unit)`` each. Every scheduler has an equal
  part of the file, so it holds ``registers_per_sm // schedulers // warp_registers`` warps. No kernel has more than
  ``max_registers_per_thread``. A block's warps are rounded up to ``warp_allocation_granularity``.
- Shared memory: ``shared_per_sm // up(s + shared_reserved_per_block, shared_allocation_unit)`` blocks.
- Warps: ``max_warps_per_sm // w`` blocks.
- Blocks: ``max_blocks_per_sm``.

The numbers are facts of the architecture (``arch_specs/``). The carve-out of shared memory is assumed to be the
largest, which the driver chooses for a kernel that needs it. Barriers are left out: a block with one barrier, like each
of FlashAttention's, never lacks it.

Source: NVIDIA's published occupancy calculator, ``cuda_occupancy.h`` of CUDA 13.0
(``cudaOccMaxActiveBlocksPerMultiprocessor`` and the functions that it calls).
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.arch import ArchSpec


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The resources that one block needs.

    Attributes:
        registers: registers of a thread.
        threads: threads of the block.
        shared_bytes: static and dynamic shared memory, without the driver's addition.
    """

    registers: int
    threads: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class CudaOccupancy:
    """How a kernel fills a multiprocessor.

    Attributes:
        blocks: blocks that are resident at once; 0 if a block does not fit.
        warps: warps that are resident at once.
        warps_per_scheduler: warps / schedulers. It is fractional where the warps do not fill the schedulers evenly.
        fraction: warps / most_warps.
        limited_by: the obstacle to one more block: ``registers``, ``shared``, ``warps`` or ``blocks``.
        by_registers: blocks that the registers alone allow.
        by_shared: blocks that the shared memory alone allows.
        by_warps: blocks that the warp limit alone allows.
        by_blocks: blocks that the block limit alone allows.
        most_warps: the architecture's limit of resident warps.
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


def occupancy_of(demand: Demand, arch: ArchSpec) -> CudaOccupancy:
    """The occupancy of a launch.

    Raises:
        InternalError: the architecture's facts lack one that is needed.
    """
    # One warp of four goes to each scheduler, so the granularity is the number of schedulers
    # (cuda_occupancy.h, cudaOccSubPartitionsPerMultiprocessor).
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
    # If the warp limit is among the tightest, it alone is named: registers that fill all warp slots limit nothing.
    tight = tuple(name for name, most in bounds.items() if most == blocks)
    warps = blocks * width
    return CudaOccupancy(
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
    return shared // max(1, of_block)  # before 8.0 the driver keeps nothing for itself


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
