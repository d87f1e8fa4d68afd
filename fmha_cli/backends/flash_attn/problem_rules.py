"""Rules K420-K479 of FlashAttention-2: its kernels' needs of a problem, in one table.

- K420-K435 and K446: what FlashAttention-2 cannot compute or express, whatever the kernel.
- K436-K445 and K447: caches, splits and empty sequences.
- K450-K456: sizes.
- K460-K466: what a kernel is compiled for.
- K470-K472: rules of order, which say which of several fitting kernels upstream takes. They refuse nothing.
- K479: the device has no kernels.
"""

from __future__ import annotations

from math import inf

from fmha_cli.backends.flash_attn.cache_limits import CACHE_LIMITS
from fmha_cli.backends.flash_attn.compiled_for import FIT, SHARED_RULES
from fmha_cli.backends.flash_attn.index_limits import WIDTHS
from fmha_cli.backends.flash_attn.signatures import DTYPES, NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.flash_attn.tiles import HDIMS, backward_traits, facts_of
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.conditions import Condition, next_multiple, refuse
from fmha_cli.backends.gpu.rule_rows import conditions, unchecked_rules
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, Bias, CacheKind, QScale
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align, Mask
from fmha_cli.domain.rules import Reason, Refusal, Rule, Severity
from fmha_cli.domain.signature_hints import either, positive_scale, with_hdim, with_keys

STEP = 8
"""Head dims are multiples of this: 16 bytes of a 16-bit type."""


def _dtype(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    want, have = s.problem.dtype, kernel.signature.dtype
    if want is have:
        return None
    if want not in DTYPES:
        text = f"dtype {want.value}: FlashAttention-2 is for {' and '.join(d.value for d in DTYPES)}"
    else:
        text = f"dtype {want.value} is not what the kernel is compiled for (dtype {have.value})"
    return Refusal(text, f"--dtype {have.value}")


def _other_output(s: FlashSituation, kernel: KernelSpec) -> bool:
    p = s.problem
    return p.dtype_out is not p.dtype and (p.dtype in DTYPES or p.dtype_out is not p.dtype.default_output)


def _from_bottom_right(mask: Mask) -> str:
    """The hint to count the mask's bounds from the other corner, with bounds below 0 raised to 0."""
    return f"--mask window:{mask.bounds_text()}"


def _equal_lengths(s: FlashSituation) -> str | None:
    packed = s.packed_q and s.problem.kv_cache.kind is CacheKind.NONE
    return "drop --seqlens-k" if packed else with_keys(s.problem, s.problem.seqlen_q)


def _mask(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    mask = s.problem.mask
    if s.given is not None:
        return None
    if mask.align is Align.TOP_LEFT and (mask.left or 0) >= 0 and (mask.right or 0) >= 0:
        text = f"mask {mask.text()}: FlashAttention-2 counts from the bottom-right corner, and the sequences differ"
        return Refusal(text, either(_from_bottom_right(mask), _equal_lengths(s)))
    text = f"mask {mask.text()}: a bound below 0 means unlimited to FlashAttention-2"
    return Refusal(text, _from_bottom_right(mask))


def _alibi_corner(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    if p.alibi is Alibi.NONE or p.mask.align is Align.BOTTOM_RIGHT or all(q in (0, k) for q, k in lengths):
        return None
    text = f"ALiBi with mask {p.mask.text()}: FlashAttention-2 measures distances from the bottom-right corner"
    return Refusal(text, _from_bottom_right(p.mask))


def _clipped(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    if s.given is None:
        return None
    given, taken = (inf if bound < 0 else bound for bound in (s.given.right, s.mask.right))
    for q, k in zip(s.problem.query_lengths(), s.problem.key_lengths(), strict=True):
        if k and min(given, q - 1) != min(taken, q - 1):
            there, here = (f"{bound} to the right" if bound < inf else "no bound" for bound in (taken, given))
            text = f"{q} rows and {k} keys with mask {s.problem.mask.text()}: upstream turns {here} into {there}, "
            text += "so the first rows see other keys"
            return Refusal(text, either(with_keys(s.problem, q), "--mask causal"))
    return None


def _scale(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    scale = single(p.scale)
    factor = single(scale / single(p.softcap)) if p.softcap else scale
    if factor > 0:
        return None
    if p.scale > 0:
        text = f"scale {p.scale:g} (softcap {p.softcap:g}) is 0 in single precision"
    else:
        text = f"scale {p.scale:g}: the kernels take a row's largest score before they scale it"
    return Refusal(text, positive_scale(p))


def _dropout(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem.dropout
    if not p or 0 < single(1 - single(p)) < 1:
        return None
    text = f"dropout {p:g}: the share that is kept, in single precision, is {single(1 - single(p)):g}"
    return Refusal(text, "--dropout 0, or a probability between 1e-7 and 1 - 1e-7")


def _dropout_256(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.dropout or s.bucket != HDIMS[-1]:
        return None
    facts = facts_of(load_arch(kernel.arch))
    if backward_traits(HDIMS[-1], True, facts) is not None:
        return None
    text = (
        f"hdim {p.hdim} with dropout backwards: {kernel.arch} has {facts.block // 1024} KiB of shared memory per block"
    )
    return Refusal(text, "--dropout 0, or --hdim 192")


LIMITS: tuple[Condition[FlashSituation], ...] = conditions(
    NAME,
    {
        "K420": _dtype,
        "K421": refuse(
            _other_output,
            lambda s, k: (
                f"output {s.problem.dtype_out.value} of inputs {s.problem.dtype.value}: FlashAttention-2 writes its inputs' type"
            ),
            lambda s, k: f"--dtype {s.problem.dtype.value}",
        ),
        "K422": refuse(
            lambda s, k: s.problem.hdim % STEP,
            lambda s, k: f"hdim {s.problem.hdim} is not a multiple of {STEP}",
            lambda s, k: f"--hdim {next_multiple(s.problem.hdim, STEP)}",
        ),
        "K423": refuse(
            lambda s, k: s.problem.hdim > HDIMS[-1],
            lambda s, k: f"hdim {s.problem.hdim}: FlashAttention-2 holds at most {HDIMS[-1]}",
            lambda s, k: with_hdim(s.problem, HDIMS[-1]),
        ),
        "K424": refuse(
            lambda s, k: s.problem.hdim_v != s.problem.hdim,
            lambda s, k: (
                f"hdim-v {s.problem.hdim_v} with hdim {s.problem.hdim}: FlashAttention-2 has one head dim for Q, K and V"
            ),
            lambda s, k: f"--hdim-v {s.problem.hdim}",
        ),
        "K425": refuse(
            lambda s, k: s.problem.softcap and s.problem.dropout,
            lambda s, k: f"softcap {s.problem.softcap:g} with dropout {s.problem.dropout:g}",
            "--dropout 0, or --softcap 0",
        ),
        "K426": refuse(
            lambda s, k: s.problem.bias is not Bias.NONE,
            lambda s, k: f"bias elementwise:{s.problem.bias.value}: FlashAttention-2 adds ALiBi or nothing",
            "--bias none, or --alibi",
        ),
        "K427": refuse(
            lambda s, k: s.problem.sink,
            lambda s, k: f"sink {s.problem.sink}: a window of FlashAttention-2 hides every key before it",
            "--sink 0",
        ),
        "K428": refuse(
            lambda s, k: s.problem.sink_logits,
            lambda s, k: "sink logits: the softmax of FlashAttention-2 has no extra column",
            "drop --sink-logits",
        ),
        "K429": refuse(
            lambda s, k: s.problem.qscale is not QScale.NONE,
            lambda s, k: f"qscale {s.problem.qscale.value}: FlashAttention-2 reads no scales of quantised tensors",
            "--qscale none",
        ),
        "K430": _mask,
        "K431": _alibi_corner,
        "K446": _clipped,
        "K432": _scale,
        "K433": _dropout,
        "K434": _dropout_256,
        "K435": refuse(
            lambda s, k: s.problem.dropout and s.problem.kv_cache.kind is not CacheKind.NONE,
            lambda s, k: f"dropout {s.problem.dropout:g} with a KV cache: mha_fwd_kvcache has none",
            "--dropout 0",
        ),
    },
)
"""Conditions on the problem. Of the kernel they read only the element type and the architecture."""


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
