"""The arguments of the kernels. Each field of a block is a parameter, by its name in the engine's ``kernelParams``.

Source, in ``experimental/`` of nvidia-cudnn-frontend 1.28.0: ``attention_utils.h``; ``execute`` of both engines.
"""

from __future__ import annotations

from ctypes import Structure, c_int64, c_uint16, c_uint32
from typing import Annotated

from fmha_cli.codegen.struct import ArgumentBlock, CType, Float32, Int32, Pointer, TensorMap


class AttentionDescriptor(Structure):
    """Sizes, and query heads for each key/value head."""

    _fields_ = (
        *((name, c_uint32) for name in ("b", "q_h", "k_h", "v_h", "s_q", "s_kv", "d_qk", "d_v")),
        *((name, c_uint16) for name in ("q_heads_per_k", "q_heads_per_v", "min_q_heads_per_kv")),
    )


class FastDivisor(Structure):
    """The kernel divides n as ``umulhi(2 * n, mul) >> shr``."""

    _fields_ = (("val", c_uint32), ("shr", c_uint32), ("mul", c_uint32))


class TensorDescriptor(Structure):
    """Strides are in elements."""

    _fields_ = (("num_dims", c_int64), ("dims", c_int64 * 12), ("strides", c_int64 * 12))


ATTENTION = Annotated[tuple[int, ...], CType("AttentionDescriptor_t", AttentionDescriptor)]
DIVISOR = Annotated[tuple[int, int, int], CType("FastDivisor_t", FastDivisor)]
TENSOR = Annotated[tuple[object, ...], CType("tensor_descriptor", TensorDescriptor)]
_STATISTICS = ((Pointer, "d_max"), (TENSOR, "desc_max"), (Pointer, "d_sum_exp"), (TENSOR, "desc_sum_exp"))
_COMMON = ((TensorMap, "tma_q tma_k"), (Float32, "attn_scale tensor_13"), *_STATISTICS, (TensorMap, "tma_v tma_o"))


class Sm90Arguments(ArgumentBlock):
    _own = ((Int32, "num_tiles"), (DIVISOR, "tiles_hr_div tiles_r_div"), (Pointer, "d_tile_id_counter"))
    rows = ((ATTENTION, "attnDesc"), *_own, *_COMMON)


class Sm100Arguments(ArgumentBlock):
    _divisors = "num_head_divmod l2_minor_divmod l2_major_divmod l2_minor_residual_divmod"
    _own = ((DIVISOR, _divisors), (Int32, "num_hb_quotient num_block total_blocks"))
    rows = ((ATTENTION, "attnDesc"), *_own, *_COMMON)


BLOCKS = {"sm90": Sm90Arguments, "sm100": Sm100Arguments}


def fast_divisor(number: int) -> tuple[int, int, int]:
    """``make_fast_divisor``: val, shr and mul of a divisor below 2^31."""
    up = (2 * number - 1).bit_length()
    return (number, up - 1, -(-(1 << 31 + up) // (2 * number))) if number > 1 else (number, 0, 1 << 31)
