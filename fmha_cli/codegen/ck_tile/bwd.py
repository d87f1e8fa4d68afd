"""The backward families.

- ``bwd_dot_do_o``: sums dO * O along each row.
- ``bwd_dq_dk_dv``: the gradients, except dQ where it is accumulated in fp32.
- ``bwd_convert_dq``: sums the parts of the fp32 dQ and rounds it.

Source of the template arguments: ``codegen/ops/fmha_bwd.py``, ``FMHA_BWD_DQ_DK_DV_KERNEL_BODY``,
``FMHA_BWD_DOT_DO_O_KERNEL_BODY`` and ``FMHA_BWD_CONVERT_DQ_KERNEL_BODY``; of the calls: ``fmha_bwd.hpp``,
``fmha_bwd_*_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.call import DROP, RATIO, KernelCall, UnitPart, strides, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, sequence, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import backward_types
from fmha_cli.codegen.ck_tile.features import bias_value, grouped, mask_type, masked, on
from fmha_cli.codegen.ck_tile.paddings import sequence_products
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey

_PROBLEM_TYPES = words("Q K V Gemm LSE Acc D Bias RandValOutput O OGrad QGrad KGrad VGrad BiasGrad")
_WG32 = 32
_CONVERT_THREADS = 256
_GROUP_POINTERS = words("seqstart_q_ptr seqstart_k_ptr seqlen_q_ptr seqlen_k_ptr cu_seqlen_q_ptr cu_seqlen_k_ptr")
_QUERY_POINTERS = words("seqstart_q_ptr seqlen_q_ptr cu_seqlen_q_ptr")


def bwd_dq_dk_dv_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a main backward kernel."""
    return UnitPart(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=True)


def _shape(algorithm: CkAlgorithm) -> str:
    """GEMMs 0 and 2 share waves and matrix instruction, and so do 1 and 3. GEMM 4 uses GEMM 0's instruction with its
    own depth."""
    waves = [sequence(algorithm.waves[i : i + 3]) for i in (0, 3, 6)]
    m, n, k = algorithm.warp[:3]
    first, second = sequence((m, n, k)), sequence(algorithm.warp[3:])
    last = sequence((m, n, min(k, algorithm.tile[6])))
    gemms = [waves[0], first, waves[1], second] * 2 + [waves[2], last]
    arguments = ["Tile", *gemms, str(algorithm.max_seq_q)]
    return using("Tile", sequence(algorithm.tile)) + using("Shape", template(f"{CK}TileFmhaBwdShape", arguments))


def _dropout(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    drops = on(kernel.signature.dropout)
    wide = not drops or algorithm.warp[0] == _WG32
    arguments = ", ".join(flag(value) for value in (drops, wide, algorithm.store_randval))
    return f"{CK}BlockDropoutBwd<{arguments}>"


def _epilogue(name: str, gradient: str, padded: bool) -> str:
    arguments = ["Types::AccDataType", f"Types::{gradient}GradDataType", flag(False), flag(padded)]
    problem = template(f"{CK}Default2DEpilogueProblem", arguments)
    return using(name, f"{CK}Default2DEpilogue<{problem}>")


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    signature = kernel.signature
    traits = [
        str(algorithm.pad_d),
        str(algorithm.pad_dv),
        bias_value(kernel),
        flag(on(signature.dbias)),
        str(algorithm.occupancy),
    ]
    problem = [
        *(f"Types::{name}DataType" for name in _PROBLEM_TYPES),
        "Shape",
        flag(grouped(kernel)),
        flag(on(signature.deterministic)),
        "Mask",
        "Dropout",
        flag(algorithm.trload),
        "Traits",
    ]
    return "".join(
        (
            struct_of_types("Types", backward_types(signature)),
            _shape(algorithm),
            using("Traits", template(f"{CK}TileFmhaBwdTraits", traits)),
            using("Mask", mask_type(kernel)),
            using("Dropout", _dropout(kernel, algorithm)),
            using("Problem", template(f"{CK}BlockFmhaBwdPipelineProblem", problem)),
            using("Pipeline", f"{CK}BlockFmhaBwdDQDKDVPipeline<Problem>"),
            _epilogue("KGradEpilogue", "K", algorithm.pad_d > 0),
            _epilogue("VGradEpilogue", "V", algorithm.pad_dv > 0),
            _epilogue("QGradEpilogue", "Q", algorithm.pad_d > 0),
            using("Kernel", f"{CK}FmhaBwdDQDKDVKernel<Pipeline, KGradEpilogue, VGradEpilogue, QGradEpilogue>"),
        )
    )


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    signature, group = kernel.signature, grouped(kernel)
    dq = "dq" if algorithm.max_seq_q else "dq_acc"
    by_head = f"q k v bias randval do lsed {dq} dk dv dbias"
    needed = [f"{name}_ptr" for name in ("q", "k", "v", "lse", "do", "d", dq, "dk", "dv")]
    unused: list[str] = []
    (unused if signature.bias is BiasKey.NONE else needed).append("bias_ptr")
    (needed if on(signature.dbias) else unused).append("dbias_ptr")
    stores = on(signature.dropout) and algorithm.store_randval
    (needed if stores else unused).append("rand_val_ptr")
    if group:
        needed += _GROUP_POINTERS[:2]
    else:
        unused += _GROUP_POINTERS
    if not on(signature.dropout):
        unused.append("p_drop")
    return KernelCall(
        maker="MakeKargsImpl",
        arguments=(
            *words("q_ptr k_ptr v_ptr bias_ptr lse_ptr do_ptr d_ptr rand_val_ptr dk_ptr dv_ptr dbias_ptr"),
            f"{dq}_ptr",
            *(_GROUP_POINTERS if group else words("seqlen_q seqlen_k")),
            *words(f"hdim_q hdim_v nhead_q {RATIO} scale"),
            *strides("", f"q k v bias randval do {dq} dk dv dbias"),
            *strides("nhead_", by_head),
            *(() if group else strides("batch_", by_head)),
            *words(f"split_stride_dq_acc window_size_left window_size_right mask_type p_drop {DROP}"),
        ),
        grid=words("batch nhead_q max_seqlen_k"),
        needed=tuple(needed),
        unused=tuple(unused),
        extents=(
            *((name, 1) for name in words("batch nhead_q nhead_k max_seqlen_k hdim_q hdim_v")),
            *((name, 0) for name in words("seqlen_q seqlen_k")),
        ),
        rules=_rules(kernel, algorithm),
        products=sequence_products(kernel, paged=False),
    )


def _head_dim(name: str, tile: int, pad: int) -> str:
    """``dcheck`` and ``dvcheck`` of upstream's API: the tile's own head dim, a multiple of 8, or any head dim."""
    if not pad:
        return f"a.{name} == {tile}"
    return f"a.{name} <= {tile}" + (f" && a.{name} % {pad} == 0" if pad > 1 else "")


def _rules(kernel: KernelSpec, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    rules = [
        ("nhead_q", "a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0"),
        ("mask_type", "a.mask_type >= 0 && a.mask_type <= 3" if masked(kernel) else "a.mask_type == 0"),
        ("hdim_q", _head_dim("hdim_q", algorithm.tile[7], algorithm.pad_d)),
        ("hdim_v", _head_dim("hdim_v", algorithm.tile[8], algorithm.pad_dv)),
    ]
    if not grouped(kernel):
        rules.append(("max_seqlen_k", "a.max_seqlen_k >= a.seqlen_k"))
    if algorithm.max_seq_q:
        rules.append(("seqlen_q", f"a.seqlen_q <= {algorithm.max_seq_q}"))
    if on(kernel.signature.dropout):
        rules += [
            ("p_drop", "a.p_drop >= 0 && a.p_drop < 1"),
            ("drop_seed_ptr", "a.drop_from_device == 0 || a.drop_seed_ptr != nullptr"),
            ("drop_offset_ptr", "a.drop_from_device == 0 || a.drop_offset_ptr != nullptr"),
        ]
    return tuple(rules)


def bwd_dot_do_o_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
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
    call = KernelCall(
        maker="MakeKargs",
        arguments=(
            *words("o_ptr do_ptr d_ptr p_undrop"),
            *(_QUERY_POINTERS if group else ("seqlen_q",)),
            *words("hdim_v stride_do stride_o nhead_stride_do nhead_stride_o nhead_stride_lsed"),
            *(() if group else words("batch_stride_do batch_stride_o batch_stride_lsed")),
        ),
        grid=words("batch nhead_q max_seqlen_q"),
        needed=(*words("o_ptr do_ptr d_ptr"), *(_QUERY_POINTERS[:1] if group else ())),
        unused=() if group else _GROUP_POINTERS,
        extents=_extents("hdim_v"),
        rules=(
            ("p_undrop", "a.p_undrop > 0 && a.p_undrop <= 1"),
            ("hdim_v", f"a.hdim_v {'<=' if algorithm.pad_dv else '=='} {hdim}"),
            *_whole_rows(group, algorithm),
        ),
    )
    return UnitPart(types=types, call=call, in_waves=False)


def bwd_convert_dq_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
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
    call = KernelCall(
        maker="MakeKargs",
        arguments=(
            *words("dq_acc_ptr dq_ptr"),
            *(_GROUP_POINTERS if group else words("seqlen_q seqlen_k")),
            *words("hdim_q stride_dq stride_dq_acc nhead_stride_dq nhead_stride_dq_acc"),
            *(() if group else words("batch_stride_dq batch_stride_dq_acc")),
            "split_stride_dq_acc",
        ),
        grid=words("batch nhead_q max_seqlen_q"),
        needed=(*words("dq_acc_ptr dq_ptr"), *(_GROUP_POINTERS[:2] if group else ())),
        unused=() if group else _GROUP_POINTERS,
        extents=_extents("hdim_q"),
        rules=(("hdim_q", f"a.hdim_q {'<=' if algorithm.pad_d else '=='} {hdim}"), *_whole_rows(group, algorithm)),
    )
    return UnitPart(types=types, call=call, in_waves=False)


def _extents(hdim: str) -> tuple[tuple[str, int], ...]:
    ones = ("batch", "nhead_q", "max_seqlen_q", hdim)
    return (*((name, 1) for name in ones), ("seqlen_q", 0), ("seqlen_k", 0))


def _whole_rows(group: bool, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    """In batch mode, every row is in the grid. Without padding, the rows fill whole tiles."""
    if group:
        return ()
    whole = () if algorithm.pad_s else (("seqlen_q", f"a.seqlen_q % {algorithm.tile[0]} == 0"),)
    return (("max_seqlen_q", "a.max_seqlen_q >= a.seqlen_q"), *whole)
