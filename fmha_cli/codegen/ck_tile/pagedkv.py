"""The ``fwd_pagedkv`` family: attention over a paged cache in one kernel.

Source of the template arguments: ``codegen/ops/fmha_pagedkv_prefill.py``, ``FMHA_FWD_KERNEL_BODY``; of the call:
``fmha_fwd.hpp``, ``fmha_fwd_pagedkv_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.call import RATIO, Call, words
from fmha_cli.codegen.ck_tile.cpp import flag
from fmha_cli.codegen.ck_tile.features import grouped
from fmha_cli.codegen.ck_tile.forward import (
    Templates,
    forward_aliases,
    forward_extents,
    forward_options,
    squant,
)
from fmha_cli.codegen.ck_tile.paddings import padding_rules, sequence_products
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import CacheKey

_PROBLEM_TYPES = words("Q K V Sacc SMPLCompute Bias LSE P Oacc O")
_HEAD = words("q_ptr k_ptr v_ptr bias_ptr lse_ptr o_ptr")
_STARTS = words("seqstart_q_ptr seqstart_k_ptr")
_TABLE = words("block_table_ptr batch_stride_block_table page_block_size")
_SCALES = words("scale_s scale_p scale_o logits_soft_cap")
_STRIDES = words(
    "stride_q stride_k stride_v stride_bias stride_o nhead_stride_q nhead_stride_k nhead_stride_v nhead_stride_bias"
    " nhead_stride_lse nhead_stride_o"
)
_BATCH_STRIDES = words("batch_stride_q batch_stride_k batch_stride_v batch_stride_bias batch_stride_lse batch_stride_o")
_PAGE_STRIDES = words("batch_stride_k batch_stride_v")
_MASK = words("window_size_left window_size_right mask_type")


def pagedkv_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a kernel over a paged cache.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR_PAGEDKV:
        raise no_emitter(kernel)
    return Unit(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=True)


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    paged = flag(kernel.signature.cache is CacheKey.PAGED)
    templates = Templates(
        traits="TileFmhaFwdPagedKVTraits",
        problem="BlockFmhaFwdPagedKVPipelineProblem",
        pipeline="BlockFmhaFwdPagedKVPipelineQRKSVS",
        kernel="FmhaFwdPagedKVKernel",
        types=_PROBLEM_TYPES,
        trait_tail=(paged, squant(kernel), str(algorithm.occupancy), flag(algorithm.skip_min_seqlen_q)),
    )
    return forward_aliases(kernel, algorithm, templates)


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> Call:
    group = grouped(kernel)
    skips = group and algorithm.skip_min_seqlen_q
    lengths = (*_STARTS, "seqlen_k_ptr") if group else words("seqlen_q seqlen_k seqlen_k_ptr")
    needed, unused, rules = forward_options(kernel)
    return Call(
        maker="MakeKargs",
        arguments=(
            *_HEAD,
            *lengths,
            *words(f"hdim_q hdim_v nhead_q {RATIO}"),
            *_TABLE,
            "is_gappy" if group else "cache_batch_idx",
            *_SCALES,
            *_STRIDES,
            *(_PAGE_STRIDES if group else _BATCH_STRIDES),
            *_MASK,
            *(("min_seqlen_q",) if group else ()),
        ),
        grid=(*words("batch nhead_q max_seqlen_q hdim_v"), "a.seqlen_k_ptr != nullptr" if group else "false"),
        needed=(*needed, "block_table_ptr", *(_STARTS if group else ())),
        unused=(
            *unused,
            "cache_batch_idx",
            *(() if group else (*_STARTS, "is_gappy")),
            *(() if skips else ("min_seqlen_q",)),
        ),
        extents=(*forward_extents(), ("page_block_size", 1)),
        rules=(*rules, *padding_rules(kernel, algorithm, "seqlen_k_ptr")),
        products=sequence_products(kernel, paged=True),
    )
