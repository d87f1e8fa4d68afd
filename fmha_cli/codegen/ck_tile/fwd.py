"""The families that attend in one kernel.

- ``fwd``: over packed or batched keys.
- ``fwd_pagedkv``: over a paged cache.
- ``batch_prefill``: over a cache whose keys are found through a list of one-key pages.

Source of the template arguments: ``FMHA_FWD_KERNEL_BODY`` of ``codegen/ops/fmha_fwd.py``, ``fmha_pagedkv_prefill.py`` and
``fmha_batch_prefill.py``; of the calls: ``fmha_fwd.hpp``, ``fmha_fwd_create_kargs_and_grids``,
``fmha_fwd_pagedkv_create_kargs_and_grids`` and ``fmha_batch_prefill_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, no_emitter
from fmha_cli.codegen.ck_tile.call import DROP, RATIO, KernelCall, UnitPart, strides, words
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
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import CacheKey

_PIPELINES = {
    Pipeline.QR: "BlockFmhaPipelineQRKSVS",
    Pipeline.QR_ASYNC: "BlockFmhaPipelineQRKSVSAsync",
    Pipeline.QS: "BlockFmhaPipelineQSKSVS",
    Pipeline.QR_ASYNC_TRLOAD: "BlockFmhaPipelineQRKSVSAsyncTrload",
}
_DROPOUT_TYPES = words("Q K V Sacc SMPLCompute Bias RandValOutput LSE P Oacc O")
_PAGED_TYPES = words("Q K V Sacc SMPLCompute Bias LSE P Oacc O")
_DROPOUT_HEAD = words("q_ptr k_ptr v_ptr bias_ptr rand_val_ptr lse_ptr o_ptr")
_PAGED_HEAD = words("q_ptr k_ptr v_ptr bias_ptr lse_ptr o_ptr")
_SIZES = words(f"hdim_q hdim_v nhead_q {RATIO}")
_SCALES = words("scale_s scale_p scale_o logits_soft_cap")
_DROPOUT_STRIDES = (*strides("", "q k v bias randval o"), *strides("nhead_", "q k v bias randval lse o"))
_PAGED_STRIDES = (*strides("", "q k v bias o"), *strides("nhead_", "q k v bias lse o"))
_MASK = words("window_size_left window_size_right mask_type")
_DROPOUT = words(f"p_drop s_randval {DROP}")
_NO_DROPOUT = words("p_drop s_randval rand_val_ptr")
_GROUP_POINTERS = words("seqstart_q_ptr seqstart_k_ptr seqlen_q_ptr seqlen_k_ptr")
_STARTS = _GROUP_POINTERS[:2]
_TABLE = words("block_table_ptr batch_stride_block_table page_block_size")
_PAGES = words("num_total_pages kv_indptr kv_page_indices")
_GRID = words("batch nhead_q max_seqlen_q hdim_v")


def fwd_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a forward kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline not in _PIPELINES:
        raise no_emitter(kernel)
    return UnitPart(types=_fwd_types(kernel, algorithm), call=_fwd_call(kernel, algorithm), in_waves=True)


def _fwd_types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
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
        types=_DROPOUT_TYPES,
        trait_tail=tail,
        problem_tail=(flag(algorithm.trload),),
    )
    return forward_aliases(kernel, algorithm, templates)


def _fwd_call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    group = grouped(kernel)
    skips = group and algorithm.skip_min_seqlen_q
    middle = _GROUP_POINTERS if group else words("seqlen_q seqlen_k")
    batches = () if group else strides("batch_", "q k v bias randval lse o")
    after = (*_MASK, "min_seqlen_q") if group else _MASK
    needed, unused, rules = forward_options(kernel)
    dropout = on(kernel.signature.dropout)
    return KernelCall(
        maker="MakeKargsImpl",
        arguments=(
            *(*_DROPOUT_HEAD, *middle, *_SIZES, *_SCALES, *_DROPOUT_STRIDES, *batches),
            *(*after, *_DROPOUT, "cu_seqlen_q_ptr", "cu_seqlen_k_ptr"),
        ),
        grid=(*_GRID, "a.seqlen_k_ptr != nullptr" if group else "false"),
        needed=(*needed, *(_STARTS if group else ())),
        unused=(
            *unused,
            *(() if group else _GROUP_POINTERS),
            *(() if skips else ("min_seqlen_q",)),
            *(() if dropout else _NO_DROPOUT),
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


def pagedkv_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a kernel over a paged cache.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR_PAGEDKV:
        raise no_emitter(kernel)
    return UnitPart(types=_pagedkv_types(kernel, algorithm), call=_pagedkv_call(kernel, algorithm), in_waves=True)


def _pagedkv_types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    paged = flag(kernel.signature.cache is CacheKey.PAGED)
    templates = Templates(
        traits="TileFmhaFwdPagedKVTraits",
        problem="BlockFmhaFwdPagedKVPipelineProblem",
        pipeline="BlockFmhaFwdPagedKVPipelineQRKSVS",
        kernel="FmhaFwdPagedKVKernel",
        types=_PAGED_TYPES,
        trait_tail=(paged, squant(kernel), str(algorithm.occupancy), flag(algorithm.skip_min_seqlen_q)),
    )
    return forward_aliases(kernel, algorithm, templates)


def _pagedkv_call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    group = grouped(kernel)
    skips = group and algorithm.skip_min_seqlen_q
    lengths = (*_STARTS, "seqlen_k_ptr") if group else words("seqlen_q seqlen_k seqlen_k_ptr")
    needed, unused, rules = forward_options(kernel)
    return KernelCall(
        maker="MakeKargs",
        arguments=(
            *_PAGED_HEAD,
            *lengths,
            *_SIZES,
            *_TABLE,
            "is_gappy" if group else "cache_batch_idx",
            *_SCALES,
            *_PAGED_STRIDES,
            *strides("batch_", "k v" if group else "q k v bias lse o"),
            *_MASK,
            *(("min_seqlen_q",) if group else ()),
        ),
        grid=(*_GRID, "a.seqlen_k_ptr != nullptr" if group else "false"),
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


def prefill_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a batch prefill kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR_ASYNC:
        raise no_emitter(kernel)
    return UnitPart(types=_prefill_types(kernel, algorithm), call=_prefill_call(kernel, algorithm), in_waves=True)


def _prefill_types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    templates = Templates(
        traits="TileFmhaTraits",
        problem="BlockFmhaPipelineProblem",
        pipeline="BlockFmhaBatchPrefillPipelineQRKSVSAsync",
        kernel="FmhaBatchPrefillWithPagedKVCacheKernel",
        types=_DROPOUT_TYPES,
        trait_tail=(flag(on(kernel.signature.dropout)), squant(kernel), str(algorithm.occupancy)),
        problem_tail=(flag(algorithm.trload),),
    )
    return forward_aliases(kernel, algorithm, templates)


def _prefill_call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    group, dropout = grouped(kernel), on(kernel.signature.dropout)
    needed, unused, rules = forward_options(kernel)
    return KernelCall(
        maker="MakeKargs",
        arguments=(
            *_DROPOUT_HEAD,
            "seqstart_q_ptr" if group else "seqlen_q",
            *_SIZES,
            *_PAGES,
            *_SCALES,
            *_DROPOUT_STRIDES,
            *strides("batch_", "k v" if group else "q k v bias randval lse o"),
            *_MASK,
            *_DROPOUT,
        ),
        grid=_GRID,
        needed=(*needed, *_PAGES[1:], *(("seqstart_q_ptr",) if group else ())),
        unused=(
            *unused,
            *(() if group else ("seqstart_q_ptr",)),
            *(() if dropout else _NO_DROPOUT),
        ),
        extents=(*forward_extents(), ("num_total_pages", 1)),
        rules=(*rules, *padding_rules(kernel, algorithm), *(dropout_rules() if dropout else ())),
        products=(
            *sequence_products(kernel, paged=False),
            *((name, "a.num_total_pages - 1", f"a.{name}") for name in strides("", "k v")),
        ),
    )
