"""The ``fwd_splitkv`` family: partial attention over parts of the keys. The combine kernel adds the parts up.

One library holds every instance that upstream's file holds: with and without splits of uneven length. Plain kernels of
head dim 128 also have instances that treat a group's query heads as rows of one head, for a single query row.

Source of the template arguments and of the choice: ``codegen/ops/fmha_fwd_splitkv.py``,
``FMHA_FWD_SPLITKV_KERNEL_BODY``; of the call: ``fmha_fwd.hpp``, ``fmha_fwd_splitkv_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.codegen.ck_tile.call import RATIO, Call, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.features import grouped, masked
from fmha_cli.codegen.ck_tile.forward import (
    common_traits,
    forward_extents,
    forward_options,
    forward_shape,
    problem_types,
    squant,
    variant_and_mask,
)
from fmha_cli.codegen.ck_tile.paddings import padding_rules, sequence_products
from fmha_cli.codegen.ck_tile.refusals import no_emitter
from fmha_cli.codegen.ck_tile.unit import Unit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey, CacheKey

MAX_SPLITS = 128
"""The largest number of splits that a combine kernel can add up."""

_MERGED_HDIM = 128
_PROBLEM_TYPES = words("Q K V Sacc SMPLCompute Bias LSE P Oacc Oacc")
_STARTS = words("seqstart_q_ptr seqstart_k_ptr")
_TABLE = words("block_table_ptr batch_stride_block_table page_block_size")
_STRIDES = words(
    "stride_q stride_k stride_v stride_bias stride_o_acc nhead_stride_q nhead_stride_k nhead_stride_v"
    " nhead_stride_bias nhead_stride_lse_acc nhead_stride_o_acc"
)
_BATCH_STRIDES = words(
    "batch_stride_q batch_stride_k batch_stride_v batch_stride_bias batch_stride_lse_acc batch_stride_o_acc"
)
_PAGE_STRIDES = words("batch_stride_k batch_stride_v")
_SPLIT_STRIDES = words("split_stride_lse_acc split_stride_o_acc")
_MASK = words("window_size_left window_size_right mask_type")


def splitkv_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> Unit:
    """The unit of a split-KV kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR:
        raise no_emitter(kernel)
    return Unit(
        types=_types(kernel, algorithm),
        call=_call(kernel, algorithm),
        in_waves=True,
        choose=_choose(kernel, algorithm),
    )


def merges_heads(kernel: KernelSpec) -> bool:
    """Whether the library has the instances that treat a group's query heads as rows."""
    signature = kernel.signature
    return signature.hdim == _MERGED_HDIM and signature.bias is BiasKey.NONE and not masked(kernel)


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    traits = [
        *common_traits(kernel, algorithm, lse=True),
        squant(kernel),
        flag(_paged(kernel)),
        "kHasUnevenSplits",
        "kMergeNumHeadGroupsSeqLenQ",
        str(algorithm.occupancy),
    ]
    problem = [*problem_types(kernel, _PROBLEM_TYPES), "Variant", "Mask", "Traits"]
    epilogue = template(
        f"{CK}Default2DEpilogueProblem", ["Types::OaccDataType", "Types::OaccDataType", flag(False), flag(False)]
    )
    return "".join(
        (
            struct_of_types("Types", forward_types(kernel.signature)),
            forward_shape(algorithm),
            variant_and_mask(kernel),
            using("EpilogueProblem", epilogue),
            using("Epilogue", f"{CK}Default2DEpilogue<EpilogueProblem>"),
            "template <bool kHasUnevenSplits, bool kMergeNumHeadGroupsSeqLenQ>\nstruct Instance {\n",
            using("Traits", template(f"{CK}TileFmhaFwdSplitKVTraits", traits)),
            using("Problem", template(f"{CK}BlockFmhaFwdSplitKVPipelineProblem", problem)),
            using("Pipeline", f"{CK}BlockFmhaFwdSplitKVPipelineQRKSVS<Problem>"),
            using("Kernel", f"{CK}FmhaFwdSplitKVKernel<Pipeline, Epilogue>"),
            "};\n",
            using("Kernel", "Instance<true, false>::Kernel"),
        )
    )


def _paged(kernel: KernelSpec) -> bool:
    return kernel.signature.cache is CacheKey.PAGED


def _choose(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    """``fmha_fwd_splitkv_oneshot_`` and ``run_instance`` of upstream's file."""
    merged = (
        "a.max_seqlen_q == 1 && a.nhead_k < a.nhead_q"
        "\n      ? use(std::type_identity<typename Instance<{0}, true>::Kernel>{{}})\n      : "
    )

    def pick(uneven: bool) -> str:
        plain = f"use(std::type_identity<typename Instance<{flag(uneven)}, false>::Kernel>{{}})"
        return (merged.format(flag(uneven)) if merges_heads(kernel) else "") + plain

    if grouped(kernel):
        return f"  return {pick(True)};\n"
    keys = algorithm.tile[1]
    return (
        f"  const bool even = a.seqlen_k_ptr == nullptr && a.seqlen_k % (a.num_splits * {keys}) == 0;\n"
        f"  if (even) return {pick(False)};\n"
        f"  return {pick(True)};\n"
    )


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> Call:
    group, paged = grouped(kernel), _paged(kernel)
    lengths = (*_STARTS, "seqlen_k_ptr") if group else words("seqlen_q seqlen_k seqlen_k_ptr")
    needed, unused, rules = _options(kernel)
    return Call(
        maker="MakeKargs",
        arguments=(
            *words("q_ptr k_ptr v_ptr bias_ptr lse_acc_ptr o_acc_ptr batch"),
            *lengths,
            *words(f"hdim_q hdim_v nhead_q {RATIO} num_splits"),
            *_TABLE,
            "is_gappy" if group else "cache_batch_idx",
            *words("scale_s scale_p logits_soft_cap"),
            *_STRIDES,
            *(_PAGE_STRIDES if group else _BATCH_STRIDES),
            *_SPLIT_STRIDES,
            *_MASK,
        ),
        grid=words("batch nhead_q nhead_k max_seqlen_q hdim_v num_splits"),
        needed=(*needed, *(_STARTS if group else ()), *(("block_table_ptr",) if paged else ())),
        unused=(
            *unused,
            *(() if group else _STARTS),
            *(() if group and paged else ("is_gappy",)),
            *(("cache_batch_idx",) if paged else _TABLE),
            *(("cache_batch_idx",) if group and not paged else ()),
        ),
        extents=(*forward_extents(), ("num_splits", 1), *((("page_block_size", 1),) if paged else ())),
        rules=(
            *rules,
            ("num_splits", f"a.num_splits <= {MAX_SPLITS}"),
            *padding_rules(kernel, algorithm, "seqlen_k_ptr"),
        ),
        products=(
            *split_products(),
            ("num_splits", "a.num_splits", f"(a.max_seqlen_q / {algorithm.tile[0]} + 1)"),
            *sequence_products(kernel, paged=paged),
        ),
    )


def split_products() -> tuple[tuple[str, str, str], ...]:
    """Products that must fit in 32 bits, because the device code forms the offset of a split in 32 bits."""
    return tuple((name, "a.num_splits - 1", f"a.{name}") for name in _SPLIT_STRIDES)


def _options(kernel: KernelSpec) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """As in the other forward kernels, except that this kernel writes the parts and the combine kernel writes O and
    LSE."""
    needed, unused, rules = forward_options(kernel)
    theirs = ("o_ptr", "lse_ptr", "scale_o")
    return (
        (*(name for name in needed if name not in theirs), "lse_acc_ptr", "o_acc_ptr"),
        tuple(name for name in unused if name not in theirs),
        tuple(rule for rule in rules if rule[0] not in theirs),
    )
