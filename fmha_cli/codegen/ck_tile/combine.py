"""The ``fwd_splitkv_combine`` family: adds up the parts that a split-KV kernel wrote.

One library holds an instance for up to 8, 16, 32, 64 and 128 splits.

Source of the template arguments and of the choice: ``codegen/ops/fmha_fwd_splitkv.py``,
``FMHA_FWD_SPLITKV_COMBINE_KERNEL_BODY``; of the call: ``fmha_fwd.hpp``,
``fmha_fwd_splitkv_combine_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.call import Call, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.features import grouped, is_wave32, on
from fmha_cli.codegen.ck_tile.splitkv import MAX_SPLITS, split_products
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import QScaleKey

_LOG_MAX_SPLITS = (3, 4, 5, 6, 7)
_REPRESENTATIVE = 6
"""The instance whose name upstream prints."""
_LOAD_ELEMENTS = 4
"""Floats in one load of 16 bytes; ``bn1 / 4`` lanes lie along a row."""


def combine_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a combine kernel."""
    return Unit(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=True, choose=_choose())


def rows_per_block(kernel: KernelSpec, algorithm: CkAlgorithm) -> int:
    """``kM0`` on the device: the rows that one wave covers."""
    return (32 if is_wave32(kernel.arch) else 64) // (algorithm.tile[0] // _LOAD_ELEMENTS)


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    signature = kernel.signature
    traits = [
        flag(algorithm.pad_s),
        flag(algorithm.pad_dv > 0),
        flag(on(signature.lse)),
        flag(signature.qscale is QScaleKey.TENSOR),
        "kLogMaxSplits",
        str(algorithm.occupancy),
    ]
    problem = [
        *(f"Types::{name}DataType" for name in words("LSE Oacc O")),
        str(signature.hdim_v),
        flag(grouped(kernel)),
        str(algorithm.tile[0]),
        "Traits",
    ]
    epilogue = template(
        f"{CK}Default2DEpilogueProblem", ["Types::OaccDataType", "Types::ODataType", flag(False), flag(False)]
    )
    return "".join(
        (
            struct_of_types("Types", forward_types(signature)),
            using("EpilogueProblem", epilogue),
            using("Epilogue", f"{CK}Default2DEpilogue<EpilogueProblem>"),
            f"template <{CK}index_t kLogMaxSplits>\nstruct Instance {{\n",
            using("Traits", template(f"{CK}TileFmhaFwdSplitKVCombineTraits", traits)),
            using("Problem", template(f"{CK}BlockFmhaSplitKVCombinePipelineProblem", problem)),
            using("Pipeline", f"{CK}BlockFmhaFwdSplitKVCombinePipeline<Problem>"),
            using("Kernel", f"{CK}FmhaFwdSplitKVCombineKernel<Pipeline, Epilogue>"),
            "};\n",
            using("Kernel", f"Instance<{_REPRESENTATIVE}>::Kernel"),
        )
    )


def _choose() -> str:
    """``fmha_fwd_splitkv_combine_oneshot_`` of upstream's file, which launches nothing if there are more splits."""

    def pick(log: int) -> str:
        return f"return use(std::type_identity<typename Instance<{log}>::Kernel>{{}});\n"

    *some, last = _LOG_MAX_SPLITS
    return "".join(f"  if (a.num_splits <= {1 << log}) {pick(log)}" for log in some) + f"  {pick(last)}"


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> Call:
    group, lse = grouped(kernel), on(kernel.signature.lse)
    columns, rows = algorithm.tile[0], rows_per_block(kernel, algorithm)
    tensors = words("lse_acc o_acc lse o")
    return Call(
        maker="MakeKargs",
        arguments=(
            *words("lse_acc_ptr o_acc_ptr lse_ptr o_ptr batch"),
            "seqstart_q_ptr" if group else "seqlen_q",
            *words("hdim_v num_splits scale_o stride_o_acc stride_o"),
            *(f"nhead_stride_{name}" for name in tensors),
            *(() if group else (f"batch_stride_{name}" for name in tensors)),
            *words("split_stride_lse_acc split_stride_o_acc"),
        ),
        grid_text=(
            f"dim3((a.max_seqlen_q + {rows - 1}) / {rows} * ((a.hdim_v + {columns - 1}) / {columns}),\n"
            "           a.nhead_q, a.batch)"
        ),
        needed=(
            *words("lse_acc_ptr o_acc_ptr o_ptr"),
            *(("lse_ptr",) if lse else ()),
            *(("seqstart_q_ptr",) if group else ()),
        ),
        unused=(*(() if lse else ("lse_ptr",)), *(() if group else ("seqstart_q_ptr",))),
        extents=(
            *((name, 1) for name in words("batch nhead_q max_seqlen_q hdim_v num_splits")),
            ("seqlen_q", 0),
        ),
        rules=_rules(kernel, algorithm),
        products=(
            *split_products(),
            ("max_seqlen_q", f"(a.max_seqlen_q / {rows} + 1)", f"(a.hdim_v / {columns} + 1)"),
        ),
    )


def _rules(kernel: KernelSpec, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    columns, rows = algorithm.tile[0], rows_per_block(kernel, algorithm)
    out = [
        ("num_splits", f"a.num_splits <= {MAX_SPLITS}"),
        (
            "hdim_v",
            f"a.hdim_v <= {kernel.signature.hdim_v}" + ("" if algorithm.pad_dv else f" && a.hdim_v % {columns} == 0"),
        ),
    ]
    if kernel.signature.qscale is not QScaleKey.TENSOR:
        out.append(("scale_o", "a.scale_o == 1"))
    if not grouped(kernel):
        out.append(("max_seqlen_q", "a.max_seqlen_q >= a.seqlen_q"))
        if not algorithm.pad_s:
            out.append(("seqlen_q", f"a.seqlen_q % {rows} == 0"))
    return tuple(out)
