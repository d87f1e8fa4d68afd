"""A numpy model of FlashAttention-2's six kernels.

The model reads a packed parameter block and device memory, and writes to memory what the CUDA kernel would. It was
written from upstream's device code and uses none of the product's host code. So a wrong stride, pointer, length, scale
or layout shows without a GPU: in the outputs, in the guards around every tensor, or as an address outside every
allocation. Sums run in numpy's order, so the model repeats upstream's roundings to 16 bits, but not its last bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import ctypes_structure
from fmha_cli.domain.kernel import Family, KernelSpec
from tests.support.models.flash_attn.backward import run_convert_dq, run_dot_do_o, run_dq_dk_dv
from tests.support.models.flash_attn.blocks import Flags
from tests.support.models.flash_attn.forward import Grid, run_forward
from tests.support.models.flash_attn.splitkv import run_combine, run_splitkv
from tests.support.models.kernel_memory import Memory

BACKWARD = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)


def run_kernel(kernel: KernelSpec, params: bytes, grid: Grid, memory: Memory, extra: Sequence[int] = ()) -> None:
    """Run one kernel over a grid.

    Args:
        params: the parameter block as it lies in constant memory. extra: the int parameters that follow it.

    Raises:
        BadAddress: the kernel reads or writes outside every allocation.
    """
    block = FaBwdParams if kernel.family in BACKWARD else FaFwdParams
    p, f, a = ctypes_structure(block).from_buffer_copy(params), Flags.of(kernel), kernel.algorithm
    assert isinstance(a, FaAlgorithm)
    with np.errstate(all="ignore"):
        if kernel.family is Family.FWD:
            run_forward(f, p, grid, memory)
        elif kernel.family is Family.FWD_SPLITKV:
            run_splitkv(f, p, grid, memory)
        elif kernel.family is Family.FWD_SPLITKV_COMBINE:
            run_combine(f, p, grid, memory, a.combine_rows, 1 << a.log_max_splits)
        elif kernel.family is Family.BWD_DOT_DO_O:
            run_dot_do_o(f, p, grid, memory, clear=a.clear_dq_accum)
        elif kernel.family is Family.BWD_DQ_DK_DV:
            run_dq_dk_dv(f, p, grid, memory)
        else:
            (parts,) = extra
            run_convert_dq(f, p, grid, memory, parts)
