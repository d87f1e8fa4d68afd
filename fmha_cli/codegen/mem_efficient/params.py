"""The parameter blocks of the kernels: ``arch_specs/_mem_efficient_params.json``, which says what every field means."""

from __future__ import annotations

import ctypes
from typing import Annotated

from fmha_cli.codegen.struct import ArgumentBlock, CType, typed_rows
from fmha_cli.domain.arch import arch_document


class PhiloxCudaState(ctypes.Structure):
    """The random state, laid out as in the shim for ``at::PhiloxCudaState``."""

    _fields_ = (("seed", ctypes.c_uint64), ("offset", ctypes.c_uint64), ("captured_", ctypes.c_bool))


_BLOCKS = arch_document("_mem_efficient_params.json", "fmha.param-blocks/1")
_PHILOX = {"at::PhiloxCudaState": (Annotated[tuple[int, int], CType("at::PhiloxCudaState", PhiloxCudaState)], (0, 0))}
"""(seed, offset)."""


class MemEffFwdParams(ArgumentBlock):
    """``AttentionKernel::Params``, 272 bytes. Every field is 0 by default."""

    rows = typed_rows(_BLOCKS["fwd"], _PHILOX)


class MemEffBwdParams(ArgumentBlock):
    """``AttentionBackwardKernel::Params``, 432 bytes. Every field is 0 by default, unlike upstream's."""

    rows = typed_rows(_BLOCKS["bwd"], _PHILOX)
