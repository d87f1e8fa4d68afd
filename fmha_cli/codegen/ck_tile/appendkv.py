"""The ``fwd_appendkv`` family: appends new keys and values to the cache, and rotates keys and queries as it does so.

Source of the template arguments: ``codegen/ops/fmha_fwd_appendkv.py``, ``FMHA_FWD_APPENDKV_KERNEL_BODY``; of the call:
``fmha_fwd.hpp``, ``fmha_fwd_appendkv_create_kargs_and_grids``.
"""

from __future__ import annotations

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, VLayout
from fmha_cli.codegen.ck_tile.call import RATIO, KernelCall, UnitPart, strides, words
from fmha_cli.codegen.ck_tile.cpp import CK, flag, struct_of_types, template, using
from fmha_cli.codegen.ck_tile.element_types import forward_types
from fmha_cli.codegen.ck_tile.paddings import sequence_products
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import CacheKey, RotaryKey

_ROTARY = {
    RotaryKey.NONE: f"{CK}RotaryEmbeddingEnum::NONE",
    RotaryKey.INTERLEAVED: f"{CK}RotaryEmbeddingEnum::INTERLEAVED",
    RotaryKey.HALF: f"{CK}RotaryEmbeddingEnum::HALF_ROTATED",
}
_TABLES = words("rotary_cos_ptr rotary_sin_ptr")
_ROTARY_STEP = 16
"""Rotary dims are multiples of this: 8 table elements, one load of 16 bytes, rotate 16 elements of a head."""
_PAGED = words("block_table_ptr batch_stride_block_table page_block_size")


def appendkv_unit(kernel: KernelSpec, algorithm: CkAlgorithm) -> UnitPart:
    """The unit of a kernel that appends to a cache.

    Raises:
        InternalError: the signature allows any rotary style, which no CK kernel supports.
    """
    return UnitPart(types=_types(kernel, algorithm), call=_call(kernel, algorithm), in_waves=False)


def _types(kernel: KernelSpec, algorithm: CkAlgorithm) -> str:
    signature = kernel.signature
    if signature.rotary not in _ROTARY:
        raise InternalError(f"{kernel.name}: CK compiles in one rotary style", where="codegen.ck_tile")
    traits = [flag(pad) for pad in (algorithm.pad_s, algorithm.pad_sk, algorithm.pad_d > 0, algorithm.pad_dv > 0)]
    problem = [
        *(f"Types::{name}DataType" for name in "QKV"),
        *map(str, algorithm.tile),
        flag(algorithm.vlayout is VLayout.ROW),
        _ROTARY[signature.rotary],
        flag(_paged(kernel)),
        "Traits",
    ]
    return "".join(
        (
            struct_of_types("Types", forward_types(signature)),
            using("Traits", template(f"{CK}TileFmhaFwdAppendKVTraits", [*traits, str(algorithm.occupancy)])),
            using("Problem", template(f"{CK}BlockFmhaFwdAppendKVPipelineProblem", problem)),
            using("Pipeline", f"{CK}BlockFmhaFwdAppendKVPipeline<Problem>"),
            using("Kernel", f"{CK}FmhaFwdAppendKVKernel<Pipeline>"),
        )
    )


def _paged(kernel: KernelSpec) -> bool:
    return kernel.signature.cache is CacheKey.PAGED


def _call(kernel: KernelSpec, algorithm: CkAlgorithm) -> KernelCall:
    paged, rotates = _paged(kernel), kernel.signature.rotary is not RotaryKey.NONE
    return KernelCall(
        maker="MakeKargs",
        arguments=(
            *words("q_ptr k_ptr knew_ptr v_ptr vnew_ptr seqlen_q seqlen_k_ptr seqlen_knew hdim_q hdim_v nhead_q"),
            RATIO,
            *_TABLES,
            *words("rotary_dim has_mask"),
            *_PAGED,
            "cache_batch_idx",
            *(name for prefix in ("", "nhead_", "batch_") for name in strides(prefix, "q k knew v vnew")),
        ),
        grid=words("batch nhead_q seqlen_q seqlen_knew"),
        needed=(
            *words("q_ptr k_ptr v_ptr seqlen_k_ptr"),
            *(_TABLES if rotates else ()),
            *(("block_table_ptr",) if paged else ()),
        ),
        unused=(*(() if rotates else (*_TABLES, "rotary_dim")), *(("cache_batch_idx",) if paged else _PAGED)),
        extents=(
            *((name, 1) for name in words("batch nhead_q nhead_k hdim_q hdim_v")),
            *((name, 0) for name in words("seqlen_q seqlen_knew")),
            *((("page_block_size", 1),) if paged else ()),
        ),
        rules=(*_own_rules(kernel, algorithm), *(_rotary_rules() if rotates else ())),
        products=sequence_products(kernel, paged=paged),
    )


def _own_rules(kernel: KernelSpec, algorithm: CkAlgorithm) -> tuple[tuple[str, str], ...]:
    """Sizes that the paddings admit (upstream's ``scheck``, ``dcheck``, ``dvcheck``), and a check for work to do."""
    rows, _, columns, value_columns = algorithm.tile
    signature = kernel.signature
    whole_rows = () if algorithm.pad_s else (("seqlen_q", f"a.seqlen_q % {rows} == 0"),)
    return (
        ("nhead_q", "a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0"),
        ("seqlen_q", "a.seqlen_q > 0 || a.seqlen_knew > 0"),
        *whole_rows,
        ("hdim_q", f"a.hdim_q <= {signature.hdim}" + ("" if algorithm.pad_d else f" && a.hdim_q % {columns} == 0")),
        (
            "hdim_v",
            f"a.hdim_v <= {signature.hdim_v}" + ("" if algorithm.pad_dv else f" && a.hdim_v % {value_columns} == 0"),
        ),
        *((f"{name}_ptr", f"a.seqlen_knew == 0 || a.{name}_ptr != nullptr") for name in ("knew", "vnew")),
    )


def _rotary_rules() -> tuple[tuple[str, str], ...]:
    return (("rotary_dim", f"a.rotary_dim > 0 && a.rotary_dim <= a.hdim_q && a.rotary_dim % {_ROTARY_STEP} == 0"),)
