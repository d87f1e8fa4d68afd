"""K310-K313: the stages that a main kernel needs must exist."""

from __future__ import annotations

from fmha_cli.backends.ck_tile import stages
from fmha_cli.backends.ck_tile.revisions import NAME
from fmha_cli.backends.ck_tile.situation import CkSituation
from fmha_cli.backends.gpu.conditions import Condition
from fmha_cli.backends.gpu.rule_rows import conditions
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal, Severity

FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)


def _combine(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if stages.combine_for(s, kernel) is not None:
        return None
    if s.problem.lse and kernel.signature.dtype in FP8:
        text = "fp8 split-KV returns no LSE: its combine kernels are compiled without it"
        return Refusal(text, "drop --lse", severity=Severity.OPTION)
    return Refusal("no combine kernel matches this split-KV kernel")


def _append(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.append or s.group or stages.append_for(s, kernel) is not None:
        return None
    rotary = f", rotary {p.rotary.text()}" if p.rotary.dim else ""
    cache = p.kv_cache.text()
    text = (
        f"no append kernel for {p.dtype.value}:{p.dtype_out.value}, hdim {p.hdim}, hdim-v {p.hdim_v}, {cache}{rotary}"
    )
    hint = "--rotary 0 and --kv-cache linear" if p.dtype in FP8 and (p.rotary.dim or p.paged) else "--append 0"
    return Refusal(text, hint)


def _backward(s: CkSituation, kernel: KernelSpec) -> Refusal | None:
    if stages.dot_for(s, kernel) is None:
        return Refusal("no bwd_dot_do_o kernel matches this kernel")
    if stages.converts(kernel) and stages.convert_for(s, kernel) is None:
        return Refusal("no bwd_convert_dq kernel matches this kernel")
    return None


STAGE_CONDITIONS: tuple[Condition[CkSituation], ...] = conditions(
    NAME,
    {
        "K310": _combine,
        "K311": _append,
        "K312": _backward,
    },
)
