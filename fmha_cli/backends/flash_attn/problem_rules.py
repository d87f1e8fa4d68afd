"""Rules K420-K479 of FlashAttention-2: its kernels' needs of a problem, in one table.

- K420-K435 and K446: what FlashAttention-2 cannot compute or express, whatever the kernel.
- K436-K445 and K447: caches, splits and empty sequences.
- K450-K456: sizes.
- K460-K466: what a kernel is compiled for.
- K470-K472: rules of order, which say which of several fitting kernels upstream takes. They refuse nothing.
- K479: the device has no kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from fmha_cli.backends.flash_attn.cache_limits import CACHE_LIMITS
from fmha_cli.backends.flash_attn.compiled_for import FIT, SHARED_RULES
from fmha_cli.backends.flash_attn.index_limits import WIDTHS
from fmha_cli.backends.flash_attn.signatures import DTYPES, NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.flash_attn.tiles import HDIMS, backward_traits, facts_of
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.conditions import Condition, next_multiple
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together, unchecked_rules
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, Bias, CacheKind, QScale
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity
from fmha_cli.domain.signature_hints import either, positive_scale, with_hdim, with_keys

STEP = 8
"""Head dims are multiples of this: 16 bytes of a 16-bit type."""


def _findings(s: FlashSituation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    """Of the kernel they read only the element type and the architecture."""
    p, mask = s.problem, s.problem.mask
    want, have = p.dtype.value, kernel.signature.dtype.value
    yield "K420", None if want == have else _other_type(want, have)
    other = p.dtype_out is not p.dtype and (p.dtype in DTYPES or p.dtype_out is not p.dtype.default_output)
    yield "K421", refuse_if(other, out=p.dtype_out.value, dtype=want)
    yield "K422", refuse_if(p.hdim % STEP, hdim=p.hdim, step=STEP, next=next_multiple(p.hdim, STEP))
    yield "K423", refuse_if(p.hdim > HDIMS[-1], hdim=p.hdim, most=HDIMS[-1], help=with_hdim(p, HDIMS[-1]))
    yield "K424", refuse_if(p.hdim_v != p.hdim, hdim=p.hdim, hdim_v=p.hdim_v)
    yield "K425", refuse_if(p.softcap and p.dropout, softcap=p.softcap, dropout=p.dropout)
    yield "K426", refuse_if(p.bias is not Bias.NONE, bias=p.bias.value)
    yield "K427", refuse_if(p.sink, sink=p.sink)
    yield "K428", refuse_if(p.sink_logits)
    yield "K429", refuse_if(p.qscale is not QScale.NONE, qscale=p.qscale.value)
    yield "K430", _mask(s) if s.given is None else None
    lengths = list(zip(p.query_lengths(), p.key_lengths(), strict=True))
    corner = p.alibi is not Alibi.NONE and mask.align is not Align.BOTTOM_RIGHT
    unequal = corner and not all(q in (0, k) for q, k in lengths)
    yield "K431", refuse_if(unequal, mask=mask.text(), bounds=mask.bounds_text())
    yield "K446", _clipped(s, lengths)
    yield "K432", _scale(s)
    kept = single(1 - single(p.dropout))
    yield "K433", refuse_if(p.dropout and not 0 < kept < 1, dropout=p.dropout, kept=kept)
    facts = facts_of(load_arch(kernel.arch))
    lacking = p.dropout and s.bucket == HDIMS[-1] and backward_traits(HDIMS[-1], True, facts) is None
    yield "K434", refuse_if(lacking, hdim=p.hdim, arch=kernel.arch, kib=facts.block // 1024)
    yield "K435", refuse_if(p.dropout and p.kv_cache.kind is not CacheKind.NONE, dropout=p.dropout)


def _other_type(want: str, have: str) -> Refusal:
    known = [dtype.value for dtype in DTYPES]
    why = f"is not what the kernel is compiled for (dtype {have})"
    why = f" {why}" if want in known else f": FlashAttention-2 is for {' and '.join(known)}"
    return Refusal(f"dtype {want}{why}", f"--dtype {have}")


def _mask(s: FlashSituation) -> Refusal:
    mask, other = s.problem.mask, f"--mask window:{s.problem.mask.bounds_text()}"
    if mask.align is not Align.TOP_LEFT or (mask.left or 0) < 0 or (mask.right or 0) < 0:
        return Refusal(f"mask {mask.text()}: a bound below 0 means unlimited to FlashAttention-2", other)
    text = f"mask {mask.text()}: FlashAttention-2 counts from the bottom-right corner, and the sequences differ"
    packed = s.packed_q and s.problem.kv_cache.kind is CacheKind.NONE
    return Refusal(text, either(other, "drop --seqlens-k" if packed else with_keys(s.problem, s.problem.seqlen_q)))


def _clipped(s: FlashSituation, lengths: Iterable[tuple[int, int]]) -> Refusal | None:
    if s.given is None:
        return None
    given, taken = (inf if bound < 0 else bound for bound in (s.given.right, s.mask.right))
    for q, k in lengths:
        if k and min(given, q - 1) != min(taken, q - 1):
            there, here = (f"{bound} to the right" if bound < inf else "no bound" for bound in (taken, given))
            text = f"{q} rows and {k} keys with mask {s.problem.mask.text()}: upstream turns {here} into {there}, "
            text += "so the first rows see other keys"
            return Refusal(text, either(with_keys(s.problem, q), "--mask causal"))
    return None


def _scale(s: FlashSituation) -> Refusal | None:
    p = s.problem
    scale = single(p.scale)
    if (single(scale / single(p.softcap)) if p.softcap else scale) > 0:
        return None
    why = ": the kernels take a row's largest score before they scale it"
    why = f" (softcap {p.softcap:g}) is 0 in single precision" if p.scale > 0 else why
    return Refusal(f"scale {p.scale:g}{why}", positive_scale(p))


LIMITS = conditions(
    NAME,
    together([f"K{number}" for number in (*range(420, 432), 446, *range(432, 436))], _findings),
)
"""Conditions on the problem."""


CONDITIONS: tuple[Condition[FlashSituation], ...] = (*LIMITS, *CACHE_LIMITS, *WIDTHS, *FIT)
SPLITS, EVEN, OWN_ARCH = "K470", "K471", "K472"
"""Rules of order."""
NO_KERNELS = "K479"


def no_kernels(device: DeviceFacts) -> Reason:
    """The Reason for a device that FlashAttention-2 has no kernels for."""
    text = f"FlashAttention-2 has no kernels for {', '.join(device.archs) or 'this device'}"
    return Reason(NO_KERNELS, text, "--backend cpu", Severity.PLACE)


ORDER_RULES = unchecked_rules(NAME, (SPLITS, EVEN, OWN_ARCH, NO_KERNELS))

PROBLEM_RULES: tuple[Rule, ...] = (*(c.rule(situation_of) for c in CONDITIONS), *ORDER_RULES)
RULES: tuple[Rule, ...] = (*SHARED_RULES, *PROBLEM_RULES)
"""All rules about problems. The backend adds the rules about kernels (``kernel_rules``)."""
