"""The kernels around a main kernel: combine, append, and the backward's first and last stage. K310-K312: they must exist.

Source: ``codegen/ops/fmha_fwd_splitkv.py`` (``write_blobs``: the combine kernel of a split-KV kernel),
``fmha_fwd_appendkv.py`` (its API file) and ``fmha_bwd.py`` (``FmhaBwdApiTrait``'s stage kernels).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fmha_cli.backends.ck_tile.api_conditions import ROWS_1D
from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.situation import CkSituation
from fmha_cli.backends.gpu.rule_rows import conditions
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Severity
from fmha_cli.domain.signature import CacheKey, Need, RotaryKey


def _stage_kernels(arch: str, family: Family, revision: str) -> Sequence[KernelSpec]:

    return family_kernels(load_arch(arch), family, revision)


@lru_cache(maxsize=512)
def _alike(
    arch: str, family: Family, revision: str, dtype: str, dtype_out: str, hdim: int, mode: str
) -> tuple[KernelSpec, ...]:
    """Stage kernels of one dtype and head dim, and of one mode if the stage has modes."""
    return tuple(
        k
        for k in _stage_kernels(arch, family, revision)
        if k.signature.dtype.value == dtype
        and k.signature.hdim == hdim
        and k.signature.mode.value in (mode, "any")
        and k.signature.dtype_out.value in (dtype_out, "any")
    )


def _around(main: KernelSpec, family: Family) -> tuple[KernelSpec, ...]:
    s, revision = main.signature, algorithm_of(main).rev
    return _alike(main.arch, family, revision, s.dtype.value, s.dtype_out.value, s.hdim, s.mode.value)


def combine_for(situation: CkSituation, main: KernelSpec) -> KernelSpec | None:
    """The combine kernel of a split-KV kernel: same paddings and quantisation, LSE as the problem requests."""
    a, wanted = algorithm_of(main), Need.of(situation.problem.lse)

    def goes(kernel: KernelSpec) -> bool:
        b, s = algorithm_of(kernel), kernel.signature
        same_pads = b.pad_s == a.pad_s and bool(b.pad_dv) == bool(a.pad_dv)
        return same_pads and s.lse in (wanted, Need.ANY) and s.qscale is main.signature.qscale

    return next(filter(goes, _around(main, Family.FWD_SPLITKV_COMBINE)), None)


def append_for(situation: CkSituation, main: KernelSpec) -> KernelSpec | None:
    """The append kernel that upstream's ``fmha_fwd_appendkv`` takes: the first one of the first fitting head dim."""
    p = situation.problem
    rotary = RotaryKey(p.rotary.style.value) if p.rotary.dim else RotaryKey.NONE
    bucket = 0
    for kernel in _stage_kernels(main.arch, Family.FWD_APPENDKV, algorithm_of(main).rev):
        s, a = kernel.signature, algorithm_of(kernel)
        if (s.dtype, s.dtype_out) != (p.dtype, p.dtype_out) or p.hdim > s.hdim or p.hdim_v > s.hdim_v:
            continue
        bucket = bucket or s.hdim
        fits = (
            s.hdim == bucket
            and s.rotary in (rotary, RotaryKey.ANY)
            and (s.cache is CacheKey.PAGED) == p.paged
            and (a.pad_s or situation.rows % a.tile[0] == 0)
            and (a.pad_d or p.hdim % a.tile[2] == 0)
            and (a.pad_dv or p.hdim_v % a.tile[3] == 0)
        )
        if fits:
            return kernel
    return None


def pads_rows_1d(situation: CkSituation, main: KernelSpec) -> bool:
    """``spad1d`` of the backward's one-dimensional kernels: that of the first form whose ``scheck`` passes."""
    most = algorithm_of(main).max_seq_q
    return situation.group or situation.rows % ROWS_1D != 0 or 0 < most < ROWS_1D


def dot_for(situation: CkSituation, main: KernelSpec) -> KernelSpec | None:
    """The kernel that sums the rows of dO * O."""
    pad_s, pad_dv = pads_rows_1d(situation, main), algorithm_of(main).pad_dv > 0
    pairs = ((kernel, algorithm_of(kernel)) for kernel in _around(main, Family.BWD_DOT_DO_O))
    return next((kernel for kernel, a in pairs if a.pad_s == pad_s and bool(a.pad_dv) == pad_dv), None)


def converts(main: KernelSpec) -> bool:
    """Whether dQ is accumulated in single precision and converted afterwards."""
    return algorithm_of(main).max_seq_q == 0


def convert_for(situation: CkSituation, main: KernelSpec) -> KernelSpec | None:
    """The kernel that sums (when deterministic) and converts dQ."""
    deterministic = main.signature.deterministic is Need.YES
    pad_s, pad_d = pads_rows_1d(situation, main), algorithm_of(main).pad_d > 0
    keys = algorithm_of(main).tile[1] if deterministic else 0

    def goes(kernel: KernelSpec) -> bool:
        a, s = algorithm_of(kernel), kernel.signature
        same = s.deterministic is main.signature.deterministic and a.tile[1] == keys
        return same and a.pad_s == pad_s and bool(a.pad_d) == pad_d

    return next(filter(goes, _around(main, Family.BWD_CONVERT_DQ)), None)


FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)


def _combine(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if combine_for(s, kernel) is not None:
        return None
    if s.problem.lse and kernel.signature.dtype in FP8:
        text = "fp8 split-KV returns no LSE: its combine kernels are compiled without it"
        return Refusal(text, "drop --lse", severity=Severity.OPTION)
    return Refusal("no combine kernel matches this split-KV kernel")


def _append(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.append or s.group or append_for(s, kernel) is not None:
        return None
    rotary = f", rotary {p.rotary.text()}" if p.rotary.dim else ""
    cache = p.kv_cache.text()
    text = (
        f"no append kernel for {p.dtype.value}:{p.dtype_out.value}, hdim {p.hdim}, hdim-v {p.hdim_v}, {cache}{rotary}"
    )
    hint = "--rotary 0 and --kv-cache linear" if p.dtype in FP8 and (p.rotary.dim or p.paged) else "--append 0"
    return Refusal(text, hint)


def _backward(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if dot_for(s, kernel) is None:
        return Refusal("no bwd_dot_do_o kernel matches this kernel")
    if converts(kernel) and convert_for(s, kernel) is None:
        return Refusal("no bwd_convert_dq kernel matches this kernel")
    return None


STAGE_CONDITIONS = conditions(
    NAME,
    {
        "K310": _combine,
        "K311": _append,
        "K312": _backward,
    },
)
