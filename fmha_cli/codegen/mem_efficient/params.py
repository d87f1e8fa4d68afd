"""The parameter blocks of the kernels: ``arch_specs/_mem_efficient_params.json``, which states the meaning of every
field.
"""

from __future__ import annotations

from ctypes import c_bool, c_uint64

from fmha_cli.codegen.struct import ArgumentBlock, make_typed_rows, record
from fmha_cli.domain.arch import arch_document

_BLOCKS = arch_document("_mem_efficient_params.json", "fmha.param-blocks/1")
_STATE = record("at::PhiloxCudaState", seed=c_uint64, offset=c_uint64, captured_=c_bool)
_PHILOX = {"at::PhiloxCudaState": (_STATE, (0, 0))}
"""The random state, laid out as in the shim for it."""


class MemEffFwdParams(ArgumentBlock):
    """``AttentionKernel::Params``, 272 bytes. Every field is 0 by default."""

    rows = make_typed_rows(_BLOCKS["fwd"], _PHILOX)


class MemEffBwdParams(ArgumentBlock):
    """``AttentionBackwardKernel::Params``, 432 bytes. Every field is 0 by default, unlike upstream's."""

    rows = make_typed_rows(_BLOCKS["bwd"], _PHILOX)
