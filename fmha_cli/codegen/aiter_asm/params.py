"""The arguments of the kernels: packed structs in which every member has a place of 16 bytes.

Source, in sdist amd-aiter 0.1.7.post2.dev18: ``aiter_meta/csrc/include/mha_fwd.h`` ``fmha_fwd_v3_args``;
``aiter_hip_common.h`` ``p2``, ``p3``.
"""

from __future__ import annotations

import ctypes
from typing import Annotated

from fmha_cli.codegen.struct import ArgumentBlock, CType

PLACE = 16
"""Bytes between two members."""

Address = Annotated[int, CType("void*", ctypes.c_void_p, PLACE)]
Number = Annotated[int, CType("unsigned int", ctypes.c_uint32, PLACE)]
Scalar = Annotated[float, CType("float", ctypes.c_float, PLACE)]


class AiterForward(ArgumentBlock):
    """``fmha_fwd_v3_args``. Strides are in bytes: ``Seqs`` from row to row, ``Hs`` from head to head, ``Bs`` from sequence to sequence."""

    rows = (
        (Address, "ptr_o ptr_q ptr_k ptr_v ptr_lse"),
        (Scalar, "scalar"),
        (Number, "s_seq_len s_Seqs s_Ts s_Hs s_Bs s_gqa s_k_Seqs s_k_Hs s_k_Bs s_opt s_lse s_kv_seq_len"),
        (Number, "s_qk_head_dim s_v_head_dim s_q_head_num s_v_Seqs s_v_Hs s_v_Bs s_o_Seqs s_o_Hs s_o_Bs"),
        (Address, "ptr_qseq ptr_kseq"),
        (Number, "s_lse_Hs"),
        (Address, "ptr_qseq_padding ptr_kseq_padding"),
    )
