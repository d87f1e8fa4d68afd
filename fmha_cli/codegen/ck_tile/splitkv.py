"""The ``fwd_splitkv`` family, partial attention over parts of the keys, and ``fwd_splitkv_combine``, which adds them up.

One library holds every instance that upstream's file holds:

- Split-KV: with and without splits of uneven length. Plain kernels of head dim 128 also have instances that treat a
  group's query heads as rows of one head, for a single query row.
- Combine: up to 8, 16, 32, 64 and 128 splits.

Source of the template arguments and of the choice: ``codegen/ops/fmha_fwd_splitkv.py``,
``FMHA_FWD_SPLITKV_KERNEL_BODY`` and ``FMHA_FWD_SPLITKV_COMBINE_KERNEL_BODY``; of the calls: ``fmha_fwd.hpp``,
``fmha_fwd_splitkv_create_kargs_and_grids`` and ``fmha_fwd_splitkv_combine_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline, no_emitter
from fmha_cli.codegen.ck_tile.call import RATIO, KernelCall, UnitPart, strides, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.features import grouped, is_wave32, masked, on
from fmha_cli.codegen.ck_tile.forward import (
    common_traits,
    epilogue,
    forward_extents,
    forward_options,
    forward_shape,
    problem_types,
    squant,
    variant_and_mask,
)
from fmha_cli.codegen.ck_tile.paddings import padding_rules, sequence_products
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey, CacheKey, QScaleKey

MAX_SPLITS = 128
"""The largest number of splits that a combine kernel can add up."""

_MERGED_HDIM = 128
_PROBLEM_TYPES = words("Q K V Sacc SMPLCompute Bias LSE P Oacc Oacc")
_STARTS = words("seqstart_q_ptr seqstart_k_ptr")
_TABLE = words("block_table_ptr batch_stride_block_table page_block_size")
_STRIDES = (*strides("", "q k v bias o_acc"), *strides("nhead_", "q k v bias lse_acc o_acc"))
_SPLIT_STRIDES = strides("split_", "lse_acc o_acc")
_LOG_MAX_SPLITS = (3, 4, 5, 6, 7)
_REPRESENTATIVE = 6
"""The combine instance whose name upstream prints."""
_LOAD_ELEMENTS = 4
"""Floats in one load of 16 bytes; ``bn1 / 4`` lanes of a combine kernel share a row."""
_MASK = words("window_size_left window_size_right mask_type")


def splitkv_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a split-KV kernel.

    Raises:
        EnvironmentProblem: a pipeline that the baseline CK does not have.
    """
    if algorithm.pipeline is not Pipeline.QR:
        raise no_emitter(kernel)
    return UnitPart(
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
    return "".join(
        (
            struct_of_types("Types", forward_types(kernel.signature)),
            forward_shape(algorithm),
            variant_and_mask(kernel),
            epilogue("Oacc", pad_s=False, pad_dv=False),
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


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    group, paged = grouped(kernel), _paged(kernel)
    lengths = (*_STARTS, "seqlen_k_ptr") if group else words("seqlen_q seqlen_k seqlen_k_ptr")
    needed, unused, rules = _options(kernel)
    return KernelCall(
        maker="MakeKargs",
        arguments=(
            *words("q_ptr k_ptr v_ptr bias_ptr lse_acc_ptr o_acc_ptr batch"),
            *lengths,
            *words(f"hdim_q hdim_v nhead_q {RATIO} num_splits"),
            *_TABLE,
            "is_gappy" if group else "cache_batch_idx",
            *words("scale_s scale_p logits_soft_cap"),
            *_STRIDES,
            *strides("batch_", "k v" if group else "q k v bias lse_acc o_acc"),
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


def combine_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a combine kernel."""
    return UnitPart(
        types=_combine_types(kernel, algorithm), call=_combine_call(kernel, algorithm), in_waves=True, choose=_pick()
    )


def rows_per_block(kernel: KernelSpec, algorithm: CkAlgorithm) -> int:
    """``kM0`` on the device: the rows that one wave covers."""
    return (32 if is_wave32(kernel.arch) else 64) // (algorithm.tile[0] // _LOAD_ELEMENTS)


def _combine_types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    signature = kernel.signature
    traits = [
        flag(algorithm.pad_s),
        flag(algorithm.pad_dv > 0),
        flag(on(signature.lse)),
        squant(kernel),
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
    return "".join(
        (
            struct_of_types("Types", forward_types(signature)),
            epilogue("O", pad_s=False, pad_dv=False),
            f"template <{CK}index_t kLogMaxSplits>\nstruct Instance {{\n",
            using("Traits", template(f"{CK}TileFmhaFwdSplitKVCombineTraits", traits)),
            using("Problem", template(f"{CK}BlockFmhaSplitKVCombinePipelineProblem", problem)),
            using("Pipeline", f"{CK}BlockFmhaFwdSplitKVCombinePipeline<Problem>"),
            using("Kernel", f"{CK}FmhaFwdSplitKVCombineKernel<Pipeline, Epilogue>"),
            "};\n",
            using("Kernel", f"Instance<{_REPRESENTATIVE}>::Kernel"),
        )
    )


def _pick() -> str:
    """``fmha_fwd_splitkv_combine_oneshot_`` of upstream's file, which launches nothing if there are more splits."""

    def pick(log: int) -> str:
        return f"return use(std::type_identity<typename Instance<{log}>::Kernel>{{}});\n"

    *some, last = _LOG_MAX_SPLITS
    return "".join(f"  if (a.num_splits <= {1 << log}) {pick(log)}" for log in some) + f"  {pick(last)}"


def _combine_call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    group, lse = grouped(kernel), on(kernel.signature.lse)
    columns, rows = algorithm.tile[0], rows_per_block(kernel, algorithm)
    return KernelCall(
        maker="MakeKargs",
        arguments=(
            *words("lse_acc_ptr o_acc_ptr lse_ptr o_ptr batch"),
            "seqstart_q_ptr" if group else "seqlen_q",
            *words("hdim_v num_splits scale_o stride_o_acc stride_o"),
            *strides("nhead_", "lse_acc o_acc lse o"),
            *(() if group else strides("batch_", "lse_acc o_acc lse o")),
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
        rules=_combine_rules(kernel, algorithm),
        products=(
            *split_products(),
            ("max_seqlen_q", f"(a.max_seqlen_q / {rows} + 1)", f"(a.hdim_v / {columns} + 1)"),
        ),
    )


def _combine_rules(kernel: KernelSpec, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
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
