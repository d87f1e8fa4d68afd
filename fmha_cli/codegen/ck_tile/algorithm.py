"""The free choices of a CK-Tile kernel: the template arguments beyond the signature that upstream's generator sets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from fmha_cli.domain.kernel import Algorithm, KernelSpec

BASELINE = "baseline"
"""The revision of CK whose kernels can be built."""


class Pipeline(StrEnum):
    """Upstream's pipeline tags (``codegen/cpp_symbol_map.py`` ``PIPELINE_MAP`` and similar maps in ``ops/``)."""

    QR = "qr"
    """Q in registers."""
    QR_ASYNC = "qr_async"
    """Q in registers, K and V copied from global memory to LDS asynchronously."""
    QS = "qs"
    """Q in LDS."""
    QR_HPAD = "qr_hpad"
    """For RDNA, with a padded head dim."""
    QR_TDM = "qr_tdm"
    """With gfx1250's tensor data mover."""
    QR_ASYNC_TRLOAD = "qr_async_trload"
    """With gfx950's transposed LDS loads."""
    QR_ASYNC_TRLOAD_V3 = "qr_async_trload_v3"
    """Eight-wave ping-pong."""
    QR_PAGEDKV = "qr_pagedkv"
    QR_NWARP_SSHUFFLE = "qr_nwarp_sshuffle"
    """Split-KV decode with waves along keys."""
    BATCH_PREFILL_GFX11 = "batch_prefill_gfx11"
    BWD = "bwd"
    """dQ, dK and dV in one kernel."""
    APPENDKV = "appendkv"
    COMBINE = "combine"
    DOT_DO_O = "dot_do_o"
    CONVERT_DQ = "convert_dq"


class VLayout(StrEnum):
    """Memory order of V: ``row`` is (seqlen, hdim), ``col`` is (hdim, seqlen)."""

    ROW = "row"
    COL = "col"


class KvLayout(StrEnum):
    """How a paged cache orders the elements of a page (later revisions' ``kv_memory_layout``)."""

    VECTORIZED = "vectorized"
    LINEAR = "linear"


class KvLookup(StrEnum):
    """The form of page table that a batch prefill reads (later revisions' ``kv_lookup_table``)."""

    VLLM = "vllm"
    SGLANG = "sglang"


class Constraint(StrEnum):
    """A run-time condition of a tile-table row, in addition to the paddings."""

    NONE = "none"
    FEW_BLOCKS_128 = "few-blocks-128"
    """``get_num_blocks(128) < num_cus * 0.8``: a small grid."""
    FEW_BLOCKS_64 = "few-blocks-64"
    """``get_num_blocks(64) <= num_cus``."""
    SEQLEN_K_256 = "seqlen-k-256"
    """``seqlen_k <= 256``."""
    SEQLEN_Q_4096 = "seqlen-q-4096"
    """``max_seqlen_q < 4096``."""
    SEQLEN_Q_2048 = "seqlen-q-2048"
    """``max_seqlen_q < 2048``."""
    SEQLEN_Q_2048_OR_CAUSAL = "seqlen-q-2048-or-causal"
    """gfx1250: the previous condition, or the pure causal case of upstream's gfx125 table."""
    SHORT_PAGES = "short-pages"
    """A paged cache whose pages are shorter than the key tile (``bn0 <= 2 * page_block_size``)."""


@dataclass(frozen=True, kw_only=True)
class CkAlgorithm(Algorithm):
    """Tile, waves, pipeline, paddings and the other compile-time choices.

    Attributes:
        pipeline: upstream's tag.
        tile: depends on the family.
            Forward families: bm0, bn0, bk0, bn1, bk1, bk0max. Backward main: bm0, bn0, bk0 ... bk4, bhdq, bhdv.
            appendkv: bs, bsk, bd, bdv. combine: bn1. dot_do_o: bm0. convert_dq: bm0, bn0 (0 = not deterministic).
        waves: waves along m, n, k of each GEMM group: six numbers forward, nine backward.
        warp: m, n, k of the matrix instruction of gemm 0 and gemm 1: six numbers.
        occupancy: blocks per CU that the compiler should reach; -1 = the pipeline decides.
        vlayout: memory order of V.
        pad_s, pad_sk: true = any seqlen_q and seqlen_k; false = they are multiples of the tile. For the 1-D backward
            kernels ``pad_s`` is upstream's ``spad1d``.
        pad_d, pad_dv: 0 = the head dim equals the tile's, 8 = it is a multiple of 8, 1 = any. Forward kernels use only
            0 and 1.
        trload: transposed LDS loads.
        skip_min_seqlen_q: sequences shorter than ``min_seqlen_q`` are skipped (group mode, run-time value).
        store_randval: the kernel also writes the random bytes of dropout (backward; forward decides at run time).
        max_seq_q: longest seqlen_q of a small-tile backward kernel; 0 = any.
        wide_loads: 64-bit addresses into caches above 2 GB (later revisions' ``64bit``).
        kv_lds_prefetch, progressive_dsk: choices of ``qr_tdm``.
        constraint: the run-time condition of the tile's row.
        rev: the revision of CK whose generator emits the kernel.
    """

    pipeline: Pipeline
    tile: tuple[int, ...]
    waves: tuple[int, ...] = ()
    warp: tuple[int, ...] = ()
    occupancy: int = -1
    vlayout: VLayout = VLayout.ROW
    pad_s: bool = False
    pad_sk: bool = False
    pad_d: int = 0
    pad_dv: int = 0
    trload: bool = False
    skip_min_seqlen_q: bool = False
    store_randval: bool = False
    max_seq_q: int = 0
    wide_loads: bool = False
    kv_lds_prefetch: bool = False
    progressive_dsk: bool = False
    kv_layout: KvLayout = KvLayout.VECTORIZED
    kv_lookup: KvLookup = KvLookup.SGLANG
    constraint: Constraint = Constraint.NONE
    rev: str = BASELINE


def algorithm_of(kernel: KernelSpec) -> CkAlgorithm:
    """The algorithm of a CK kernel.

    Raises:
        InternalError: the kernel belongs to another backend.
    """
    if not isinstance(kernel.algorithm, CkAlgorithm):
        raise InternalError(f"{kernel.name} is not a CK-Tile kernel")
    return kernel.algorithm


def no_emitter(kernel: KernelSpec) -> EnvironmentProblem:
    """The error for a kernel that only another revision of CK has."""
    revision = getattr(kernel.algorithm, "rev", BASELINE)
    return EnvironmentProblem(
        f"{kernel.name} cannot be built: the available sources are those of the baseline CK",
        code="B040",
        where="ck_tile",
        why=f"the kernel is of revision {revision}, which fmha can list but not build",
        help="fmha list-kernels without --ck-rev lists the kernels that can be built",
    )
