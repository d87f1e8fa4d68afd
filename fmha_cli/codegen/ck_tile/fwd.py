"""The ``fwd`` family: attention in one kernel.

Source of the template arguments: ``codegen/ops/fmha_fwd.py``, ``FMHA_FWD_KERNEL_BODY``; of the call: ``fmha_fwd.hpp``,
``fmha_fwd_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.call import DROP, RATIO, Call, words
from fmha_cli.codegen.ck_tile.cpp import flag
from fmha_cli.codegen.ck_tile.features import grouped, on
from fmha_cli.codegen.ck_tile.forward import (
    Templates,
    dropout_rules,
    forward_aliases,
    forward_extents,
    forward_options,
    squant,
)
from fmha_cli.codegen.ck_tile.paddings import padding_rules, sequence_products
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.domain.kernel import KernelSpec

_PIPELINES = {
    Pipeline.QR: "BlockFmhaPipelineQRKSVS",
    Pipeline.QR_ASYNC: "BlockFmhaPipelineQRKSVSAsync",
    Pipeline.QS: "BlockFmhaPipelineQSKSVS",
    Pipeline.QR_ASYNC_TRLOAD: "BlockFmhaPipelineQRKSVSAsyncTrload",
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


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    tail = [
        flag(on(kernel.signature.dropout)),
        squant(kernel),
        str(algorithm.occupancy),
        flag(algorithm.skip_min_seqlen_q),
    ]
    templates = Templates(
        traits="TileFmhaTraits",
        problem="BlockFmhaPipelineProblem",
        pipeline=_PIPELINES[algorithm.pipeline],
        kernel="FmhaFwdKernel",
        types=_PROBLEM_TYPES,
        trait_tail=tail,
        problem_tail=(flag(algorithm.trload),),
    )
    return forward_aliases(kernel, algorithm, templates)


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
        rules=(
            *rules,
            *padding_rules(kernel, algorithm, "cu_seqlen_k_ptr"),
            *_own_rules(group, algorithm),
            *(dropout_rules() if dropout else ()),
        ),
        products=sequence_products(kernel, paged=False),
    )


def _own_rules(group: bool, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    if group:
        return (
            ("cu_seqlen_q_ptr", "a.cu_seqlen_q_ptr == nullptr || a.seqlen_q_ptr == nullptr"),
            ("cu_seqlen_k_ptr", "a.cu_seqlen_k_ptr == nullptr || a.seqlen_k_ptr == nullptr"),
        )
    whole = not algorithm.pad_sk and algorithm.pipeline is not Pipeline.QR_ASYNC_TRLOAD
    return (("seqlen_k", "a.seqlen_k > 0"),) if whole else ()
