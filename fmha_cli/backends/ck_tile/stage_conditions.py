"""K310-K313: the stages that a main kernel needs exist."""

from __future__ import annotations

from fmha_cli.backends.ck_tile import stages
from fmha_cli.backends.ck_tile.condition import BACKWARD, Condition
from fmha_cli.backends.ck_tile.situation import Situation
from fmha_cli.dtypes import DType
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.rules import Reason, Severity

FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)


def _combine(s: Situation, kernel: KernelSpec) -> Reason | None:
    if stages.combine_for(s, kernel) is not None:
        return None
    if s.problem.lse and kernel.signature.dtype in FP8:
        text = "fp8 split-KV returns no LSE: its combine kernels are compiled without"
        return Reason("K310", text, "drop --lse", Severity.OPTION)
    return Reason("K310", "no combine kernel goes with this split-KV kernel", None, Severity.KIND)


def _append(s: Situation, kernel: KernelSpec) -> Reason | None:
    p = s.problem
    if not p.append or s.group or stages.append_for(s, kernel.arch) is not None:
        return None
    rotary = f", rotary {p.rotary.text()}" if p.rotary.dim else ""
    cache = p.kv_cache.text()
    text = (
        f"no append kernel for {p.dtype.value}:{p.dtype_out.value}, hdim {p.hdim}, hdim-v {p.hdim_v}, {cache}{rotary}"
    )
    hint = "--rotary 0 and --kv-cache linear" if p.dtype in FP8 and (p.rotary.dim or p.paged) else "--append 0"
    return Reason("K311", text, hint, Severity.OPTION)


def _backward(s: Situation, kernel: KernelSpec) -> Reason | None:
    if stages.dot_for(s, kernel) is None:
        return Reason("K312", "no bwd_dot_do_o kernel goes with this kernel", None, Severity.KIND)
    if stages.converts(kernel) and stages.convert_for(s, kernel) is None:
        return Reason("K312", "no bwd_convert_dq kernel goes with this kernel", None, Severity.KIND)
    return None


_OPS = "example/ck_tile/01_fmha/codegen/ops"

STAGE_CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "K310",
        "a combine kernel exists for the split-KV kernel",
        _combine,
        (Family.FWD_SPLITKV,),
        "The combine kernel has the main kernel's dtype, head dim, mode, paddings and quantisation, and LSE as asked.",
        f"{_OPS}/fmha_fwd_splitkv.py write_blobs, FMHA_FWD_SPLITKV_API_INNER_DISPATCH",
    ),
    Condition(
        "K311",
        "an append kernel exists",
        _append,
        (Family.FWD_SPLITKV, Family.FWD_PAGEDKV),
        "New keys are written by a kernel of their own before attention. fp8 has neither rotary nor pages there.",
        f"{_OPS}/fmha_fwd_appendkv.py get_pipelines",
    ),
    Condition(
        "K312",
        "the backward's other stages exist",
        _backward,
        BACKWARD,
        "Backward is dot_do_o, then dq_dk_dv, then convert_dq unless the kernel writes dQ itself.",
        f"{_OPS}/fmha_bwd.py FMHA_BWD_API_INNER_DISPATCH",
    ),
)
