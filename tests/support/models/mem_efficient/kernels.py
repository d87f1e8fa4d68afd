"""A numpy model of the memory-efficient kernels.

The model reads a packed parameter block and device memory, and writes to memory what the CUDA kernel would. It was written
from upstream's device code and uses none of the product's host code, so a wrong stride, pointer, length, scale or layout
shows without a GPU: in the outputs, in the guards around every tensor, or as an address that the kernel may not touch. Sums
run in numpy's order, so it repeats upstream's roundings to 16 bits, but not its last bits; products of TF32 are single
precision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fmha_cli.codegen.mem_efficient.params import MemEffBwdParams, MemEffFwdParams
from fmha_cli.codegen.struct import ctypes_structure
from fmha_cli.domain.kernel import KernelSpec
from tests.support.models.kernel_memory import Memory
from tests.support.models.mem_efficient.backward import run_backward
from tests.support.models.mem_efficient.blocks import Flags
from tests.support.models.mem_efficient.forward import run_forward


def run_kernel(
    kernel: KernelSpec, params: bytes, grid: tuple[int, int, int], memory: Memory, extra: Sequence[int] = ()
) -> None:
    """Run one kernel over a grid.

    Raises:
        BadAddress: the kernel reads or writes what it may not touch, or a unit that is not aligned.
    """
    assert not extra
    f = Flags(kernel)
    block: type = MemEffFwdParams if f.forward else MemEffBwdParams
    p = ctypes_structure(block).from_buffer_copy(params)
    with np.errstate(all="ignore"):
        (run_forward if f.forward else run_backward)(f, p, grid, memory)
