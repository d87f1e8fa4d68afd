"""Rules that concern single families: upstream's dispatcher checks 18 to 46."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli.backends.ck_tile.kernel_rule import Check, CkKernelRule, Stage, ck_rule, upstream_number
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, KvLayout, Pipeline, VLayout, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Severity
from fmha_cli.domain.signature import CacheKey, ModeKey, Need

_VALIDATION = "dispatcher/codegen/fmha/validation.py"
_PREFILL = (Family.BATCH_PREFILL,)
_GFX11 = Pipeline.BATCH_PREFILL_GFX11
_GFX11_ROWS = {(128, 128): 128, (96, 96): 64, (64, 64): 64}
"""Head dims of ``batch_prefill_gfx11`` and the query rows of its block."""
_COMBINE_COLUMNS = 32
_MX = (DType.MXFP8, DType.MXFP4)


def _row_major(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    layout = algorithm_of(kernel).vlayout
    if layout is VLayout.ROW or (kernel.family is Family.FWD and kernel.signature.dtype in _MX):
        return None
    return Refusal(f"V in {layout.value} layout", "vlayout=row")


def _paged(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    cache = kernel.signature.cache
    return None if cache is CacheKey.PAGED else Refusal(f"a cache of kind {cache.value}", "cache=paged")


def _page(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    page = kernel.signature.page
    return None if page > 0 and page & (page - 1) == 0 else Refusal(f"pages of {page} keys", "a power of two")


def _is(*wanted: Pipeline) -> Check:
    def check(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
        pipeline = algorithm_of(kernel).pipeline
        return (
            None if pipeline in wanted else Refusal(f"pipeline {pipeline.value}", " or ".join(w.value for w in wanted))
        )

    return check


def _mode(*wanted: ModeKey) -> Check:
    def check(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
        mode = kernel.signature.mode
        return None if mode in wanted else Refusal(f"mode {mode.value}", " or ".join(w.value for w in wanted))

    return check


def _gfx1100_own(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    pipeline = algorithm_of(kernel).pipeline
    if arch.name != "gfx1100" or pipeline is _GFX11:
        return None
    return Refusal(f"pipeline {pipeline.value} on gfx1100", f"pipeline={_GFX11.value}")


def _gfx11_only(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    if algorithm_of(kernel).pipeline is not _GFX11 or arch.name == "gfx1100":
        return None
    return Refusal(f"batch_prefill_gfx11 on {arch.name}", "gfx1100")


def _of_gfx11(wrong: Callable[[KernelSpec, CkAlgorithm], str | None], hint: str | None = None) -> Check:
    """A check of ``batch_prefill_gfx11`` kernels only. ``wrong`` returns what is wrong with a kernel."""

    def check(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
        a = algorithm_of(kernel)
        text = wrong(kernel, a) if a.pipeline is _GFX11 else None
        return None if text is None else Refusal(text, hint)

    return check


def _hdims(kernel: KernelSpec) -> tuple[int, int]:
    return kernel.signature.hdim, kernel.signature.hdim_v


def _gfx11_linear(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    return None if a.kv_layout is KvLayout.LINEAR else f"pages in {a.kv_layout.value} layout"


def _gfx11_hdims(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    return None if _hdims(kernel) in _GFX11_ROWS else f"head dims {_hdims(kernel)}"


def _gfx11_dropout(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    return "dropout" if kernel.signature.dropout is Need.YES else None


def _gfx11_softcap(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    return "a soft cap" if kernel.signature.softcap is Need.YES else None


def _waves(numbers: tuple[int, ...]) -> int:
    return numbers[0] * numbers[1] * numbers[2]


def _gfx11_waves(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    first, second = _waves(a.waves[:3]), _waves(a.waves[3:])
    return None if second % first == 0 else f"{second} waves for P V after {first} for Q K"


def _gfx11_block(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    threads = _waves(a.waves[3:]) * int(arch.fact("wavefront_size"))
    if a.pipeline is not _GFX11 or threads == 2 * a.tile[0]:
        return None
    return Refusal(f"{threads} threads for {a.tile[0]} rows", f"{2 * a.tile[0]} threads")


def _gfx11_rows(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    wanted = _GFX11_ROWS.get(_hdims(kernel))
    return None if wanted in (None, a.tile[0]) else f"{a.tile[0]} rows at head dims {_hdims(kernel)}, not {wanted}"


def _gfx11_keys(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    wanted = (32, kernel.signature.hdim_v, 32)
    have = (a.tile[1], a.tile[3], a.tile[4])
    return None if have == wanted else f"bn0, bn1, bk1 = {have}, not {wanted}"


def _gfx11_k0max(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    return None if a.tile[5] == kernel.signature.hdim else f"bk0max {a.tile[5]} at head dim {kernel.signature.hdim}"


def _gfx11_steps(kernel: KernelSpec, a: CkAlgorithm) -> str | None:
    return None if a.tile[2] == a.tile[4] else f"bk0 {a.tile[2]} and bk1 {a.tile[4]}"


def _columns(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bn1 = algorithm_of(kernel).tile[0]
    return None if bn1 == _COMBINE_COLUMNS else Refusal(f"{bn1} columns per block", f"{_COMBINE_COLUMNS}")


def _whole_columns(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bn1, hdim_v = algorithm_of(kernel).tile[0], kernel.signature.hdim_v
    if hdim_v >= bn1 and hdim_v % bn1 == 0:
        return None
    return Refusal(f"hdim-v {hdim_v} with {bn1} columns per block", f"a multiple of {bn1}")


def _rule(
    id: str,
    text: str,
    check: Check,
    reads: str,
    help: str,
    families: tuple[Family, ...],
    severity: Severity = Severity.KIND,
) -> CkKernelRule:
    return ck_rule(id, text, check, reads, families, Stage.TABLE, help, _VALIDATION, upstream_number(id), severity)


_ROWS = "Upstream generates column-major V for mxfp8 and mxfp4 forward kernels alone."
_ONLY = "For a pipeline that no known revision generates; upstream has it in review."

FAMILY_RULES: tuple[CkKernelRule, ...] = (
    _rule("K218", "batch prefill: V is row-major", _row_major, "vlayout dtype", _ROWS, _PREFILL),
    _rule(
        "K219", "batch prefill: the cache is paged", _paged, "cache", "It reads K and V through a page table.", _PREFILL
    ),
    _rule(
        "K220",
        "batch prefill: the page size is a power of two",
        _page,
        "page",
        "Positions are split by shifts.",
        _PREFILL,
    ),
    _rule(
        "K222",
        "batch prefill: qr_async or batch_prefill_gfx11",
        _is(Pipeline.QR_ASYNC, _GFX11),
        "pipeline",
        "No other pipeline follows a page table per key.",
        _PREFILL,
    ),
    _rule(
        "K223",
        "batch prefill on gfx1100: batch_prefill_gfx11",
        _gfx1100_own,
        "pipeline",
        "RDNA 3 cannot copy from global memory straight into LDS.",
        _PREFILL,
    ),
    _rule(
        "K224",
        "batch_prefill_gfx11: gfx1100",
        _gfx11_only,
        "pipeline",
        "The pipeline is written for its WMMA.",
        _PREFILL,
        Severity.PLACE,
    ),
    _rule(
        "K225",
        "batch_prefill_gfx11: linear pages",
        _of_gfx11(_gfx11_linear, "kv_layout=linear"),
        "pipeline kv_layout",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K226",
        "batch_prefill_gfx11: head dims 64, 96 or 128, equal",
        _of_gfx11(_gfx11_hdims),
        "pipeline hdim hdim_v",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K227",
        "batch_prefill_gfx11: no dropout",
        _of_gfx11(_gfx11_dropout, "dropout=no"),
        "pipeline dropout",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K228",
        "batch_prefill_gfx11: no soft cap",
        _of_gfx11(_gfx11_softcap, "softcap=no"),
        "pipeline softcap",
        "It is compiled without the fast exp2.",
        _PREFILL,
    ),
    _rule(
        "K229",
        "batch_prefill_gfx11: P V has a multiple of the waves of Q K",
        _of_gfx11(_gfx11_waves),
        "pipeline waves",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K230",
        "batch_prefill_gfx11: two threads for each row",
        _gfx11_block,
        "pipeline waves tile",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K231",
        "batch_prefill_gfx11: the rows of a block follow from the head dim",
        _of_gfx11(_gfx11_rows),
        "pipeline tile hdim hdim_v",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K232",
        "batch_prefill_gfx11: bn0 32, bn1 the head dim of V, bk1 32",
        _of_gfx11(_gfx11_keys),
        "pipeline tile hdim_v",
        _ONLY,
        _PREFILL,
    ),
    _rule(
        "K233",
        "batch_prefill_gfx11: bk0max is the head dim",
        _of_gfx11(_gfx11_k0max),
        "pipeline tile hdim",
        _ONLY,
        _PREFILL,
    ),
    _rule("K234", "batch_prefill_gfx11: bk0 equals bk1", _of_gfx11(_gfx11_steps), "pipeline tile", _ONLY, _PREFILL),
    _rule(
        "K235",
        "append: batch mode",
        _mode(ModeKey.BATCH),
        "mode",
        "New keys go to a cache with one slot for each sequence.",
        (Family.FWD_APPENDKV,),
    ),
    _rule(
        "K236",
        "append: its own pipeline",
        _is(Pipeline.APPENDKV),
        "pipeline",
        "It copies and rotates; it has no matrix product.",
        (Family.FWD_APPENDKV,),
    ),
    _rule("K237", "append: V is row-major", _row_major, "vlayout dtype", _ROWS, (Family.FWD_APPENDKV,)),
    _rule(
        "K238",
        "combine: batch or group mode",
        _mode(ModeKey.BATCH, ModeKey.GROUP),
        "mode",
        "The mode is compiled in.",
        (Family.FWD_SPLITKV_COMBINE,),
    ),
    _rule(
        "K239",
        "combine: 32 columns per block",
        _columns,
        "tile",
        "The generator has that tile alone; the header would take 8 and 16.",
        (Family.FWD_SPLITKV_COMBINE,),
    ),
    _rule(
        "K240",
        "combine: the head dim of V is made of whole blocks",
        _whole_columns,
        "tile hdim_v",
        "Blocks share the columns of a row evenly.",
        (Family.FWD_SPLITKV_COMBINE,),
    ),
    _rule(
        "K241",
        "paged forward: qr_pagedkv",
        _is(Pipeline.QR_PAGEDKV),
        "pipeline",
        "The family has one pipeline.",
        (Family.FWD_PAGEDKV,),
    ),
    _rule("K242", "paged forward: the cache is paged", _paged, "cache", "As the name says.", (Family.FWD_PAGEDKV,)),
    _rule("K243", "paged forward: V is row-major", _row_major, "vlayout dtype", _ROWS, (Family.FWD_PAGEDKV,)),
    _rule(
        "K244",
        "split-KV: qr or qr_nwarp_sshuffle",
        _is(Pipeline.QR, Pipeline.QR_NWARP_SSHUFFLE),
        "pipeline",
        "The family has two pipelines.",
        (Family.FWD_SPLITKV,),
    ),
    _rule("K245", "split-KV: V is row-major", _row_major, "vlayout dtype", _ROWS, (Family.FWD_SPLITKV,)),
    _rule(
        "K246",
        "forward: V is row-major, but for mxfp8 and mxfp4",
        _row_major,
        "vlayout dtype",
        "Upstream's dispatcher only warns; its example generator emits column-major V for the mx types alone, and decides.",
        (Family.FWD,),
    ),
)
"""Checks 18 to 46 except 21, which the generator applies itself (K221)."""
