"""The ``fwd`` family: attention in one kernel.

Source of the template arguments: ``codegen/ops/fmha_fwd.py``, ``FMHA_FWD_KERNEL_BODY``; of the call: ``fmha_fwd.hpp``,
``fmha_fwd_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, VLayout
from fmha_cli.codegen.ck_tile.call import DROP, RATIO, Call, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, sequence, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.features import bias_value, grouped, mask_type, masked, on
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.kernel import KernelSpec
from fmha_cli.signature import BiasKey, QScaleKey

_PIPELINES = {
    Pipeline.QR: f"{CK}BlockFmhaPipelineQRKSVS",
    Pipeline.QR_ASYNC: f"{CK}BlockFmhaPipelineQRKSVSAsync",
    Pipeline.QS: f"{CK}BlockFmhaPipelineQSKSVS",
    Pipeline.QR_ASYNC_TRLOAD: f"{CK}BlockFmhaPipelineQRKSVSAsyncTrload",
}
_PROBLEM_TYPES = words("Q K V Sacc SMPLCompute Bias RandValOutput LSE P Oacc O")
_HEAD = words("q_ptr k_ptr v_ptr bias_ptr rand_val_ptr lse_ptr o_ptr")
_SCALES = words(f"hdim_q hdim_v nhead_q {RATIO} scale_s scale_p scale_o logits_soft_cap")
_STRIDES = words(
    "stride_q stride_k stride_v stride_bias stride_randval stride_o nhead_stride_q nhead_stride_k nhead_stride_v"
    " nhead_stride_bias nhead_stride_randval nhead_stride_lse nhead_stride_o"
)
_BATCH_STRIDES = words(
    "batch_stride_q batch_stride_k batch_stride_v batch_stride_bias batch_stride_randval batch_stride_lse batch_stride_o"
)
_MASK = words("window_size_left window_size_right mask_type")
_TAIL = words(f"p_drop s_randval {DROP} cu_seqlen_q_ptr cu_seqlen_k_ptr")
_GROUP_POINTERS = words("seqstart_q_ptr seqstart_k_ptr seqlen_q_ptr seqlen_k_ptr")


def fwd_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a forward kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline not in _PIPELINES:
        raise no_emitter(kernel)
    return Unit(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=True)


def forward_shape(algorithm: CkAlgorithm) -> str:
    """Aliases of the tile and its distribution over waves, common to the forward families with two GEMMs."""
    row_major = flag(algorithm.vlayout is VLayout.ROW)
    parts = [
        sequence(algorithm.waves[:3]),
        sequence(algorithm.warp[:3]),
        sequence(algorithm.waves[3:]),
        sequence(algorithm.warp[3:]),
    ]
    return using("Tile", sequence(algorithm.tile)) + using(
        "Shape", template(f"{CK}TileFmhaShape", ["Tile", *parts, row_major])
    )


def epilogue(algorithm: CkAlgorithm) -> str:
    """Aliases of the epilogue that stores O."""
    arguments = ["Types::OaccDataType", "Types::ODataType", flag(algorithm.pad_s), flag(algorithm.pad_dv > 0)]
    problem = template(f"{CK}Default2DEpilogueProblem", arguments)
    return using("EpilogueProblem", problem) + using("Epilogue", f"{CK}Default2DEpilogue<EpilogueProblem>")


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    signature = kernel.signature
    softcap = flag(on(signature.softcap))
    traits = [
        flag(algorithm.pad_s),
        flag(algorithm.pad_sk),
        flag(algorithm.pad_d > 0),
        flag(algorithm.pad_dv > 0),
        softcap,
        bias_value(kernel),
        flag(False),
        flag(on(signature.lse)),
        flag(on(signature.dropout)),
        flag(signature.qscale is QScaleKey.TENSOR),
        str(algorithm.occupancy),
        flag(algorithm.skip_min_seqlen_q),
    ]
    problem = [
        *(f"Types::{name}DataType" for name in _PROBLEM_TYPES),
        "Shape",
        flag(grouped(kernel)),
        "Variant",
        "Mask",
        flag(algorithm.trload),
        "Traits",
    ]
    return "".join(
        (
            struct_of_types("Types", forward_types(signature)),
            forward_shape(algorithm),
            using("Traits", template(f"{CK}TileFmhaTraits", traits)),
            using("Variant", f"{CK}ComposedAttention<{softcap} * {CK}LOGITS_SOFT_CAP, CK_TILE_FMHA_FWD_FAST_EXP2>"),
            using("Mask", mask_type(kernel)),
            using("Problem", template(f"{CK}BlockFmhaPipelineProblem", problem)),
            using("Pipeline", f"{_PIPELINES[algorithm.pipeline]}<Problem>"),
            epilogue(algorithm),
            using("Kernel", f"{CK}FmhaFwdKernel<Pipeline, Epilogue>"),
        )
    )


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> Call:
    group = grouped(kernel)
    skips = group and algorithm.skip_min_seqlen_q
    middle = _GROUP_POINTERS if group else words("seqlen_q seqlen_k")
    strides = _STRIDES if group else (*_STRIDES, *_BATCH_STRIDES)
    after = (*_MASK, "min_seqlen_q") if group else _MASK
    needed, unused, rules = forward_options(kernel)
    dropout = on(kernel.signature.dropout)
    return Call(
        maker="MakeKargsImpl",
        arguments=(*_HEAD, *middle, *_SCALES, *strides, *after, *_TAIL),
        grid=(*words("batch nhead_q max_seqlen_q hdim_v"), "a.seqlen_k_ptr != nullptr" if group else "false"),
        needed=(*needed, *(_GROUP_POINTERS[:2] if group else ())),
        unused=(
            *unused,
            *(() if group else _GROUP_POINTERS),
            *(() if skips else ("min_seqlen_q",)),
            *(() if dropout else words("p_drop s_randval rand_val_ptr")),
        ),
        extents=forward_extents(),
        rules=(*rules, *size_rules(kernel, algorithm), *_own_rules(group), *(dropout_rules() if dropout else ())),
    )


def forward_extents() -> tuple[tuple[str, int], ...]:
    """Sizes of the forward families with their least values."""
    ones = words("batch nhead_q nhead_k max_seqlen_q hdim_q hdim_v")
    return (*((name, 1) for name in ones), ("seqlen_q", 0), ("seqlen_k", 0))


def forward_options(
    kernel: KernelSpec,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Needed, unused and rules for what forward kernels compile in or out: bias, LSE, soft cap, mask, quantisation."""
    signature = kernel.signature
    needed = ["q_ptr", "k_ptr", "v_ptr", "o_ptr"]
    unused: list[str] = []
    (unused if signature.bias is BiasKey.NONE else needed).append("bias_ptr")
    (needed if on(signature.lse) else unused).append("lse_ptr")
    rules = [("nhead_q", "a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0")]
    if on(signature.softcap):
        rules.append(("logits_soft_cap", "a.logits_soft_cap > 0"))
    else:
        unused.append("logits_soft_cap")
    rules.append(("mask_type", "a.mask_type >= 0 && a.mask_type <= 3" if masked(kernel) else "a.mask_type == 0"))
    if signature.qscale is not QScaleKey.TENSOR:
        rules += [("scale_p", "a.scale_p == 1"), ("scale_o", "a.scale_o == 1")]
    return tuple(needed), tuple(unused), tuple(rules)


def size_rules(kernel: KernelSpec, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    """Head dims that the tile holds: all of it without padding, at most it with."""
    signature = kernel.signature
    return (
        ("hdim_q", f"a.hdim_q {'<=' if algorithm.pad_d else '=='} {signature.hdim}"),
        ("hdim_v", f"a.hdim_v {'<=' if algorithm.pad_dv else '=='} {signature.hdim_v}"),
    )


def dropout_rules() -> tuple[tuple[str, str], ...]:
    """Dropout's own conditions in the forward families."""
    return (
        ("p_drop", "a.p_drop >= 0 && a.p_drop < 1"),
        ("rand_val_ptr", "a.s_randval == 0 || a.rand_val_ptr != nullptr"),
        ("drop_seed_ptr", "a.drop_from_device == 0 || a.drop_seed_ptr != nullptr"),
        ("drop_offset_ptr", "a.drop_from_device == 0 || a.drop_offset_ptr != nullptr"),
    )


def _own_rules(group: bool) -> tuple[tuple[str, str], ...]:
    if group:
        return (
            ("cu_seqlen_q_ptr", "a.cu_seqlen_q_ptr == nullptr || a.seqlen_q_ptr == nullptr"),
            ("cu_seqlen_k_ptr", "a.cu_seqlen_k_ptr == nullptr || a.seqlen_k_ptr == nullptr"),
        )
    return (("max_seqlen_q", "a.max_seqlen_q >= a.seqlen_q"),)
