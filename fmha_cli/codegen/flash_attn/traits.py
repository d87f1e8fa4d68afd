"""Properties that upstream's kernel traits derive from the free choices: threads and shared memory of a launch, rows of a block.

The functions are pure and take a :class:`KernelSpec` with an :class:`FaAlgorithm`.

Source: ``csrc/flash_attn/src/kernel_traits.h`` ``Flash_fwd_kernel_traits`` and ``Flash_bwd_kernel_traits``, and the
launches in ``flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h``.
"""

from __future__ import annotations

from typing import NamedTuple

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec

WARP = 32
MAX_SPLITS = 128
"""The most parts that a combine kernel takes (``Log_max_splits`` 7)."""
FORWARD = (Family.FWD, Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE)
"""Families whose traits are ``Flash_fwd_kernel_traits``."""
BACKWARD = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)
"""Families whose traits are ``Flash_bwd_kernel_traits``."""


class Areas(NamedTuple):
    """The parts of a backward kernel's shared memory in bytes: ``kSmemQdOSize`` and so on."""

    qdo: int
    kv: int
    ds: int
    p: int
    dq: int


def algorithm_of(kernel: KernelSpec) -> FaAlgorithm:
    """The kernel's algorithm, typed as ``FaAlgorithm``.

    Raises:
        InternalError: the kernel belongs to another backend.
    """
    if not isinstance(kernel.algorithm, FaAlgorithm):
        raise InternalError(f"{kernel.name} is not a FlashAttention kernel")
    return kernel.algorithm


def traits_of(kernel: KernelSpec) -> FaAlgorithm:
    """The part of a kernel's algorithm that its traits hold: tile, warps, atoms, and how V and Q are kept."""
    a = algorithm_of(kernel)
    return FaAlgorithm(tile=a.tile, warps=a.warps, atoms=a.atoms, v_in_regs=a.v_in_regs, single_buffer=a.single_buffer)


def element_bytes(kernel: KernelSpec) -> int:
    """Bytes of the traits' ``Element``."""
    return kernel.signature.dtype.bits // 8


def threads(kernel: KernelSpec) -> int:
    """``kNThreads``: threads of a block in every family."""
    return algorithm_of(kernel).warps * WARP


def rows_per_block(kernel: KernelSpec) -> int:
    """Rows along the first dimension of the grid for each block: keys in the main backward kernel, else query rows.

    The combine kernel counts the rows of all heads and sequences together; other kernels count those of one.
    """
    algorithm = algorithm_of(kernel)
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        return algorithm.combine_rows
    return algorithm.tile[1] if kernel.family is Family.BWD_DQ_DK_DV else algorithm.tile[0]


def combine_rows(hdim: int) -> int:
    """``kBlockM`` of the combine kernel for a head dim (``run_flash_splitkv_fwd``)."""
    return 4 if hdim % 128 == 0 else 8 if hdim % 64 == 0 else 16


def smem_bytes(kernel: KernelSpec) -> int:
    """Dynamic shared memory of the launch, bytes.

    - Forward and split-KV: ``kSmemSize`` with ``Is_Q_in_regs`` and ``Share_Q_K_smem`` false, as upstream launches them.
    - Main backward kernel: ``kSmemSize1colblock``.
    - Conversion of dQ: ``kSmemdQSize``.
    - Other kernels: 0.
    """
    if kernel.family in (Family.FWD, Family.FWD_SPLITKV):
        rows, keys = algorithm_of(kernel).tile
        return (rows + 2 * keys) * kernel.signature.hdim * element_bytes(kernel)
    if kernel.family is Family.BWD_DQ_DK_DV:
        return _one_column_block(kernel)
    return backward_areas(kernel).dq if kernel.family is Family.BWD_CONVERT_DQ else 0


def backward_areas(kernel: KernelSpec) -> Areas:
    """The areas of the backward traits, for any family with these traits."""
    algorithm, hdim, element = algorithm_of(kernel), kernel.signature.hdim, element_bytes(kernel)
    rows, keys = algorithm.tile
    buffers = 2 if algorithm.single_buffer else 3
    scores = rows * keys * element
    return Areas(
        qdo=rows * hdim * buffers * element, kv=keys * hdim * 2 * element, ds=scores, p=scores, dq=rows * hdim * element
    )


def _one_column_block(kernel: KernelSpec) -> int:
    areas = backward_areas(kernel)
    if algorithm_of(kernel).v_in_regs:
        return areas.qdo + max(areas.kv, areas.kv // 2 + areas.ds + areas.p)
    return areas.qdo + areas.kv + areas.ds + areas.p
