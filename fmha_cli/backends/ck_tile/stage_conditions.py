"""K310-K313: the stages that a main kernel needs must exist."""

from __future__ import annotations

from operator import attrgetter

from fmha_cli.backends.ck_tile import stages
from fmha_cli.backends.ck_tile.situation import Situation
from fmha_cli.backends.gpu.conditions import BACKWARD, Condition
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal, Severity

FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)


def _combine(s: Situation, kernel: KernelSpec) -> Refusal | None:
    if stages.combine_for(s, kernel) is not None:
        return None
    if s.problem.lse and kernel.signature.dtype in FP8:
        text = "fp8 split-KV returns no LSE: its combine kernels are compiled without"
        return Refusal(text, "drop --lse", severity=Severity.OPTION)
    return Refusal("no combine kernel goes with this split-KV kernel")


def _append(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.append or s.group or stages.append_for(s, kernel.arch) is not None:
        return None
    rotary = f", rotary {p.rotary.text()}" if p.rotary.dim else ""
    cache = p.kv_cache.text()
    text = (
        f"no append kernel for {p.dtype.value}:{p.dtype_out.value}, hdim {p.hdim}, hdim-v {p.hdim_v}, {cache}{rotary}"
    )
    hint = "--rotary 0 and --kv-cache linear" if p.dtype in FP8 and (p.rotary.dim or p.paged) else "--append 0"
    return Refusal(text, hint)


def _backward(s: Situation, kernel: KernelSpec) -> Refusal | None:
    if stages.dot_for(s, kernel) is None:
        return Refusal("no bwd_dot_do_o kernel goes with this kernel")
    if stages.converts(kernel) and stages.convert_for(s, kernel) is None:
        return Refusal("no bwd_convert_dq kernel goes with this kernel")
    return None


_OPS = "example/ck_tile/01_fmha/codegen/ops"

_AROUND = ("signature.dtype", "signature.dtype_out", "signature.hdim", "signature.mode")
"""The fields that stages share with their main kernel."""
_COMBINE = attrgetter(*_AROUND, "signature.qscale", "algorithm.pad_s", "algorithm.pad_dv")
_BACKWARD = attrgetter(
    *_AROUND, "signature.deterministic", "algorithm.max_seq_q", "algorithm.tile", "algorithm.pad_d", "algorithm.pad_dv"
)

STAGE_CONDITIONS: tuple[Condition[Situation], ...] = (
    Condition(
        "K310",
        "a combine kernel exists for the split-KV kernel",
        _combine,
        "The combine kernel has the main kernel's dtype, head dim, mode, paddings and quantisation, and LSE as asked.",
        f"{_OPS}/fmha_fwd_splitkv.py write_blobs, FMHA_FWD_SPLITKV_API_INNER_DISPATCH",
        families=(Family.FWD_SPLITKV,),
        reads=_COMBINE,
    ),
    Condition(
        "K311",
        "an append kernel exists",
        _append,
        "New keys are written by a kernel of their own before attention. fp8 has neither rotary nor pages there.",
        f"{_OPS}/fmha_fwd_appendkv.py get_pipelines",
        families=(Family.FWD_SPLITKV, Family.FWD_PAGEDKV),
        severity=Severity.OPTION,
    ),
    Condition(
        "K312",
        "the backward's other stages exist",
        _backward,
        "Backward is dot_do_o, then dq_dk_dv, then convert_dq unless the kernel writes dQ itself.",
        f"{_OPS}/fmha_bwd.py FMHA_BWD_API_INNER_DISPATCH",
        families=BACKWARD,
        reads=_BACKWARD,
    ),
)
