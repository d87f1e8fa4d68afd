"""Rules that concern single families: upstream's dispatcher checks 18 to 46."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.gpu.conditions import KernelCheck, KernelRule
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, KvLayout, Pipeline, VLayout, algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import CacheKey, ModeKey, Need

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


def _is(*wanted: Pipeline) -> KernelCheck:
    def check(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
        pipeline = algorithm_of(kernel).pipeline
        return (
            None if pipeline in wanted else Refusal(f"pipeline {pipeline.value}", " or ".join(w.value for w in wanted))
        )

    return check


def _mode(*wanted: ModeKey) -> KernelCheck:
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


def _of_gfx11(wrong: Callable[[KernelSpec, CkAlgorithm], str | None], hint: str | None = None) -> KernelCheck:
    """A check of ``batch_prefill_gfx11`` kernels only. ``wrong`` returns a kernel's fault."""

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


FAMILY_RULES: tuple[KernelRule, ...] = kernel_rules(
    NAME,
    {
        "K218": _row_major,
        "K219": _paged,
        "K220": _page,
        "K222": _is(Pipeline.QR_ASYNC, _GFX11),
        "K223": _gfx1100_own,
        "K224": _gfx11_only,
        "K225": _of_gfx11(_gfx11_linear, "kv_layout=linear"),
        "K226": _of_gfx11(_gfx11_hdims),
        "K227": _of_gfx11(_gfx11_dropout, "dropout=no"),
        "K228": _of_gfx11(_gfx11_softcap, "softcap=no"),
        "K229": _of_gfx11(_gfx11_waves),
        "K230": _gfx11_block,
        "K231": _of_gfx11(_gfx11_rows),
        "K232": _of_gfx11(_gfx11_keys),
        "K233": _of_gfx11(_gfx11_k0max),
        "K234": _of_gfx11(_gfx11_steps),
        "K235": _mode(ModeKey.BATCH),
        "K236": _is(Pipeline.APPENDKV),
        "K237": _row_major,
        "K238": _mode(ModeKey.BATCH, ModeKey.GROUP),
        "K239": _columns,
        "K240": _whole_columns,
        "K241": _is(Pipeline.QR_PAGEDKV),
        "K242": _paged,
        "K243": _row_major,
        "K244": _is(Pipeline.QR, Pipeline.QR_NWARP_SSHUFFLE),
        "K245": _row_major,
        "K246": _row_major,
    },
)
"""Checks 18 to 46 except 21, which the generator applies itself (K221)."""
