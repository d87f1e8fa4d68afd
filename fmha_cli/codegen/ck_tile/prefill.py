"""The ``batch_prefill`` family: attention over a cache whose keys are found through a list of pages of one key.

Source of the template arguments: ``codegen/ops/fmha_batch_prefill.py``, ``FMHA_FWD_KERNEL_BODY``; of the call:
``fmha_fwd.hpp``, ``fmha_batch_prefill_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.call import DROP, RATIO, Call, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.features import bias_value, grouped, mask_type, on
from fmha_cli.codegen.ck_tile.forward import dropout_rules, epilogue, forward_extents, forward_options, forward_shape
from fmha_cli.codegen.ck_tile.paddings import padding_rules, sequence_products
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.kernel import KernelSpec
from fmha_cli.signature import QScaleKey

_PROBLEM_TYPES = words("Q K V Sacc SMPLCompute Bias RandValOutput LSE P Oacc O")
_HEAD = words("q_ptr k_ptr v_ptr bias_ptr rand_val_ptr lse_ptr o_ptr")
_PAGES = words("num_total_pages kv_indptr kv_page_indices")
_SCALES = words("scale_s scale_p scale_o logits_soft_cap")
_ROW_TENSORS = words("q k v bias randval o")
_TENSORS = words("q k v bias randval lse o")
_GROUP_TENSORS = words("k v")
_MASK = words("window_size_left window_size_right mask_type")


def prefill_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a batch prefill kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR_ASYNC:
        raise no_emitter(kernel)
    return Unit(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=True)


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
            using("Pipeline", f"{CK}BlockFmhaBatchPrefillPipelineQRKSVSAsync<Problem>"),
            epilogue(algorithm),
            using("Kernel", f"{CK}FmhaBatchPrefillWithPagedKVCacheKernel<Pipeline, Epilogue>"),
        )
    )


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> Call:
    group, dropout = grouped(kernel), on(kernel.signature.dropout)
    needed, unused, rules = forward_options(kernel)
    return Call(
        maker="MakeKargs",
        arguments=(
            *_HEAD,
            "seqstart_q_ptr" if group else "seqlen_q",
            *words(f"hdim_q hdim_v nhead_q {RATIO}"),
            *_PAGES,
            *_SCALES,
            *(f"stride_{name}" for name in _ROW_TENSORS),
            *(f"nhead_stride_{name}" for name in _TENSORS),
            *(f"batch_stride_{name}" for name in (_GROUP_TENSORS if group else _TENSORS)),
            *_MASK,
            *words(f"p_drop s_randval {DROP}"),
        ),
        grid=words("batch nhead_q max_seqlen_q hdim_v"),
        needed=(*needed, *_PAGES[1:], *(("seqstart_q_ptr",) if group else ())),
        unused=(
            *unused,
            *(() if group else ("seqstart_q_ptr",)),
            *(() if dropout else words("p_drop s_randval rand_val_ptr")),
        ),
        extents=(*forward_extents(), ("num_total_pages", 1)),
        rules=(*rules, *padding_rules(kernel, algorithm), *(dropout_rules() if dropout else ())),
        products=(
            *sequence_products(kernel, paged=False),
            *((f"stride_{name}", "a.num_total_pages - 1", f"a.stride_{name}") for name in _GROUP_TENSORS),
        ),
    )
