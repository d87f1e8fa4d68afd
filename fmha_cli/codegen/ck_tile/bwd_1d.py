"""The ``bwd_dot_do_o`` and ``bwd_convert_dq`` families: the kernels before and after the main backward kernel.

Source of the template arguments: ``codegen/ops/fmha_bwd.py``, ``FMHA_BWD_DOT_DO_O_KERNEL_BODY`` and
``FMHA_BWD_CONVERT_DQ_KERNEL_BODY``; of the calls: ``fmha_bwd.hpp``, ``fmha_bwd_*_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.call import Call, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import backward_types
from fmha_cli.codegen.ck_tile.features import grouped, on
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.domain.kernel import KernelSpec

_CONVERT_THREADS = 256
_QUERY_POINTERS = words("seqstart_q_ptr seqlen_q_ptr cu_seqlen_q_ptr")
_ALL_POINTERS = words("seqstart_q_ptr seqstart_k_ptr seqlen_q_ptr seqlen_k_ptr cu_seqlen_q_ptr cu_seqlen_k_ptr")


def bwd_dot_do_o_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a kernel that sums dO * O along each row."""
    group, hdim = grouped(kernel), kernel.signature.hdim
    traits = [flag(algorithm.pad_s), flag(algorithm.pad_dv > 0), str(algorithm.occupancy)]
    problem = [
        *(f"Types::{name}DataType" for name in ("O", "OGrad", "D")),
        str(algorithm.tile[0]),
        str(hdim),
        flag(group),
        "Traits",
    ]
    types = (
        struct_of_types("Types", backward_types(kernel.signature))
        + using("Traits", template(f"{CK}TileFmhaBwdOGradDotOTraits", traits))
        + using("Problem", template(f"{CK}BlockFmhaBwdOGradDotOPipelineProblem", problem))
        + using("Pipeline", f"{CK}BlockFmhaBwdOGradDotO<Problem>")
        + using("Kernel", f"{CK}FmhaBwdOGradDotOKernel<Pipeline>")
    )
    call = Call(
        maker="MakeKargs",
        arguments=(
            *words("o_ptr do_ptr d_ptr p_undrop"),
            *(_QUERY_POINTERS if group else ("seqlen_q",)),
            *words("hdim_v stride_do stride_o nhead_stride_do nhead_stride_o nhead_stride_lsed"),
            *(() if group else words("batch_stride_do batch_stride_o batch_stride_lsed")),
        ),
        grid=words("batch nhead_q max_seqlen_q"),
        needed=(*words("o_ptr do_ptr d_ptr"), *(_QUERY_POINTERS[:1] if group else ())),
        unused=() if group else _ALL_POINTERS,
        extents=_extents("hdim_v"),
        rules=(
            ("p_undrop", "a.p_undrop > 0 && a.p_undrop <= 1"),
            ("hdim_v", f"a.hdim_v {'<=' if algorithm.pad_dv else '=='} {hdim}"),
            *_rows(group, algorithm),
        ),
    )
    return Unit(types=types, call=call, in_waves=False)


def bwd_convert_dq_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a kernel that sums the parts of the fp32 dQ and rounds it."""
    group, hdim = grouped(kernel), kernel.signature.hdim
    traits = [flag(algorithm.pad_s), flag(algorithm.pad_d > 0), str(algorithm.occupancy)]
    problem = [
        "Types::AccDataType",
        "Types::QGradDataType",
        str(_CONVERT_THREADS),
        *map(str, algorithm.tile),
        str(hdim),
        flag(group),
        flag(on(kernel.signature.deterministic)),
        "Traits",
    ]
    types = (
        struct_of_types("Types", backward_types(kernel.signature))
        + using("Traits", template(f"{CK}TileFmhaBwdConvertQGradTraits", traits))
        + using("Problem", template(f"{CK}BlockFmhaBwdConvertQGradPipelineProblem", problem))
        + using("Pipeline", f"{CK}BlockFmhaBwdConvertQGrad<Problem>")
        + using("Kernel", f"{CK}FmhaBwdConvertQGradKernel<Pipeline>")
    )
    call = Call(
        maker="MakeKargs",
        arguments=(
            *words("dq_acc_ptr dq_ptr"),
            *(_ALL_POINTERS if group else words("seqlen_q seqlen_k")),
            *words("hdim_q stride_dq stride_dq_acc nhead_stride_dq nhead_stride_dq_acc"),
            *(() if group else words("batch_stride_dq batch_stride_dq_acc")),
            "split_stride_dq_acc",
        ),
        grid=words("batch nhead_q max_seqlen_q"),
        needed=(*words("dq_acc_ptr dq_ptr"), *(_ALL_POINTERS[:2] if group else ())),
        unused=() if group else _ALL_POINTERS,
        extents=_extents("hdim_q"),
        rules=(("hdim_q", f"a.hdim_q {'<=' if algorithm.pad_d else '=='} {hdim}"), *_rows(group, algorithm)),
    )
    return Unit(types=types, call=call, in_waves=False)


def _extents(hdim: str) -> tuple[tuple[str, int], ...]:
    ones = ("batch", "nhead_q", "max_seqlen_q", hdim)
    return (*((name, 1) for name in ones), ("seqlen_q", 0), ("seqlen_k", 0))


def _rows(group: bool, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    """In batch mode, every row is in the grid. Without padding, the rows fill whole tiles."""
    if group:
        return ()
    whole = () if algorithm.pad_s else (("seqlen_q", f"a.seqlen_q % {algorithm.tile[0]} == 0"),)
    return (("max_seqlen_q", "a.max_seqlen_q >= a.seqlen_q"), *whole)
