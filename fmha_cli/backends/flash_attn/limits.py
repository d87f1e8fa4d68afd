"""Rules K420-K435 and K446: what FlashAttention-2 cannot compute or express, whatever the kernel."""

from __future__ import annotations

from math import inf

from fmha_cli.backends.flash_attn.citations import API, SRC
from fmha_cli.backends.flash_attn.signatures import DTYPES
from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.flash_attn.tiles import HDIMS, backward_traits, facts_of
from fmha_cli.backends.gpu.arithmetic import single
from fmha_cli.backends.gpu.conditions import BACKWARD, FORWARD, Condition, limit, next_multiple
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.features import Alibi, Bias, CacheKind, QScale
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align
from fmha_cli.domain.rules import Refusal, Severity

STEP = 8
"""Head dims are multiples of this: 16 bytes of a 16-bit type."""


def _dtype(s: Situation, kernel: KernelSpec) -> Refusal | None:
    want, have = s.problem.dtype, kernel.signature.dtype
    if want is have:
        return None
    if want not in DTYPES:
        text = f"dtype {want.value}: FlashAttention-2 is for {' and '.join(d.value for d in DTYPES)}"
    else:
        text = f"dtype {want.value} is not what the kernel is compiled for (dtype {have.value})"
    return Refusal(text, f"--dtype {have.value}")


def _other_output(s: Situation, kernel: KernelSpec) -> bool:
    p = s.problem
    return p.dtype_out is not p.dtype and (p.dtype in DTYPES or p.dtype_out is not p.dtype.default_output)


def _mask(s: Situation, kernel: KernelSpec) -> Refusal | None:
    mask = s.problem.mask
    if s.given is not None:
        return None
    if mask.align is Align.TOP_LEFT and (mask.left or 0) >= 0 and (mask.right or 0) >= 0:
        text = f"mask {mask.text()}: FlashAttention-2 counts from the bottom-right corner, and the sequences differ"
        return Refusal(text, "a mask from the bottom right, or seqlen_k equal to seqlen")
    text = f"mask {mask.text()}: a bound below 0 means unlimited to FlashAttention-2"
    return Refusal(text, "--mask window:L,R with L and R of 0 or more")


def _alibi_corner(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    if p.alibi is Alibi.NONE or p.mask.align is Align.BOTTOM_RIGHT or all(q in (0, k) for q, k in lengths):
        return None
    text = f"ALiBi with mask {p.mask.text()}: FlashAttention-2 measures distances from the bottom-right corner"
    return Refusal(text, "a mask from the bottom right")


def _clipped(s: Situation, kernel: KernelSpec) -> Refusal | None:
    if s.given is None:
        return None
    given, taken = (inf if bound < 0 else bound for bound in (s.given.right, s.mask.right))
    for q, k in zip(s.problem.query_lengths(), s.problem.key_lengths(), strict=True):
        if k and min(given, q - 1) != min(taken, q - 1):
            there, here = (f"{bound} to the right" if bound < inf else "no bound" for bound in (taken, given))
            text = f"{q} rows and {k} keys with mask {s.problem.mask.text()}: upstream makes {there} of {here}, "
            text += "which shows the first rows other keys"
            return Refusal(text, "--seqlen-k of seqlen or more, or --mask causal")
    return None


def _scale(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    scale = single(p.scale)
    factor = single(scale / single(p.softcap)) if p.softcap else scale
    if factor > 0:
        return None
    if p.scale > 0:
        text = f"scale {p.scale:g} (softcap {p.softcap:g}) is 0 in single precision"
    else:
        text = f"scale {p.scale:g}: the kernels take a row's largest score before they scale it"
    return Refusal(text, "a scale above 0 (and the signs of Q turned)")


def _dropout(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem.dropout
    if not p or 0 < single(1 - single(p)) < 1:
        return None
    text = f"dropout {p:g}: the share that is kept, in single precision, is {single(1 - single(p)):g}"
    return Refusal(text, "--dropout 0, or a probability between 1e-7 and 1 - 1e-7")


def _dropout_256(s: Situation, kernel: KernelSpec) -> Refusal | None:
    p = s.problem
    if not p.dropout or s.bucket != HDIMS[-1]:
        return None
    facts = facts_of(load_arch(kernel.arch))
    if backward_traits(HDIMS[-1], True, facts) is not None:
        return None
    text = f"hdim {p.hdim} with dropout backwards: {kernel.arch} has {facts.block // 1024} KiB of shared memory a block"
    return Refusal(text, "--dropout 0, or --hdim 192")


LIMITS: tuple[Condition[Situation], ...] = (
    Condition(
        "K420",
        "Q, K and V are fp16 or bf16, and the kernel's type",
        _dtype,
        "Upstream compiles its kernels for cutlass::half_t and cutlass::bfloat16_t. fp8 needs FlashAttention-3 or 4.",
        f"{API} mha_fwd: FlashAttention only support fp16 and bf16 data type",
        reads=lambda kernel: kernel.signature.dtype,
    ),
    limit(
        "K421",
        "the output has the inputs' type",
        _other_output,
        lambda s, k: (
            f"output {s.problem.dtype_out.value} of inputs {s.problem.dtype.value}: FlashAttention-2 writes its inputs' type"
        ),
        lambda s, k: f"--dtype {s.problem.dtype.value}",
        "One Element type stands for Q, K, V and O in the kernel traits.",
        f"{API} mha_fwd: Output must have the same dtype as inputs",
    ),
    limit(
        "K422",
        "the head dim is a multiple of 8",
        lambda s, k: s.problem.hdim % STEP,
        lambda s, k: f"hdim {s.problem.hdim} is not a multiple of {STEP}",
        lambda s, k: f"--hdim {next_multiple(s.problem.hdim, STEP)}",
        "Rows are read 16 bytes at a time. Upstream's Python, and mha_fwd_kvcache, pad copies of the tensors to the next "
        "multiple; here the tensors are what the kernels see.",
        f"{API} mha_fwd: query, key, value, and out_ must have a head_size that is a multiple of 8",
        severity=Severity.SHAPE,
    ),
    limit(
        "K423",
        "the head dim is at most 256",
        lambda s, k: s.problem.hdim > HDIMS[-1],
        lambda s, k: f"hdim {s.problem.hdim}: FlashAttention-2 holds at most {HDIMS[-1]}",
        f"--hdim {HDIMS[-1]}",
        "HEADDIM_SWITCH ends at 256.",
        f"{API} mha_fwd: FlashAttention forward only supports head dimension at most 256",
        severity=Severity.SHAPE,
    ),
    limit(
        "K424",
        "V has the head dim of Q and K",
        lambda s, k: s.problem.hdim_v != s.problem.hdim,
        lambda s, k: (
            f"hdim-v {s.problem.hdim_v} with hdim {s.problem.hdim}: FlashAttention-2 has one head dim for Q, K and V"
        ),
        lambda s, k: f"--hdim-v {s.problem.hdim}",
        "The kernel traits have one kHeadDim. FlashAttention-3 and CK-Tile have kernels for unequal head dims.",
        f"{API} mha_fwd: CHECK_SHAPE(v, batch_size, seqlen_k, num_heads_k, head_size)",
        severity=Severity.SHAPE,
    ),
    limit(
        "K425",
        "softcap and dropout exclude each other",
        lambda s, k: s.problem.softcap and s.problem.dropout,
        lambda s, k: f"softcap {s.problem.softcap:g} with dropout {s.problem.dropout:g}",
        "--dropout 0, or --softcap 0",
        "The launch templates would silently drop the dropout, so the host refuses.",
        f"{API} mha_fwd: Softcapping does not support dropout for now",
        severity=Severity.OPTION,
    ),
    limit(
        "K426",
        "no elementwise bias",
        lambda s, k: s.problem.bias is not Bias.NONE,
        lambda s, k: f"bias elementwise:{s.problem.bias.value}: FlashAttention-2 adds ALiBi or nothing",
        "--bias none, or --alibi",
        "The kernels add ALiBi or nothing to the scores; so there is no gradient of a bias either.",
        f"{SRC}/mask.h Mask::apply_mask",
    ),
    limit(
        "K427",
        "no attention sinks",
        lambda s, k: s.problem.sink,
        lambda s, k: f"sink {s.problem.sink}: a window of FlashAttention-2 hides every key before it",
        "--sink 0",
        "apply_mask_local knows two bounds.",
        f"{SRC}/mask.h apply_mask_local",
        severity=Severity.OPTION,
    ),
    limit(
        "K428",
        "no sink logits",
        lambda s, k: s.problem.sink_logits,
        lambda s, k: "sink logits: the softmax of FlashAttention-2 has no extra column",
        "drop --sink-logits",
        "The row sum starts from the first block of keys.",
        f"{SRC}/softmax.h Softmax::normalize_softmax_lse",
        severity=Severity.OPTION,
    ),
    limit(
        "K429",
        "no scales of quantised tensors",
        lambda s, k: s.problem.qscale is not QScale.NONE,
        lambda s, k: f"qscale {s.problem.qscale.value}: FlashAttention-2 reads no scales of quantised tensors",
        "--qscale none",
        "The inputs are fp16 or bf16.",
        f"{SRC}/flash.h",
        severity=Severity.OPTION,
    ),
    Condition(
        "K430",
        "the mask has two bounds from the bottom-right corner",
        _mask,
        "A mask from the top-left corner is the same when all sequences differ by the same number of keys and rows "
        "and neither bound, moved by it, falls below 0: then that mask is passed on. -1 means unlimited.",
        f"{API} set_params_fprop, {SRC}/mask.h apply_mask_local",
    ),
    Condition(
        "K431",
        "ALiBi is measured from the bottom-right corner",
        _alibi_corner,
        "The kernels take |i + seqlen_k - seqlen_q - j|, or j under a causal mask, whatever the mask's corner.",
        f"{SRC}/mask.h Mask::apply_mask, {SRC}/alibi.h Alibi::apply_alibi",
    ),
    Condition(
        "K446",
        "the right bound of a window survives upstream's clipping",
        _clipped,
        "Upstream takes a bound of seqlen_k or more as unlimited, and an unlimited right bound beside a left one as "
        "seqlen_k. Counted from the bottom-right corner, a bound hides nothing only from seqlen_q - 1 on, so both are "
        "wrong for sequences with more rows than keys.",
        f"{API} mha_fwd: if (window_size_right >= seqlen_k), set_params_fprop",
        severity=Severity.SHAPE,
    ),
    Condition(
        "K432",
        "the softmax scale is positive in single precision",
        _scale,
        "A row's maximum is taken of unscaled scores, so a negative scale would overflow, and 0 times a masked score "
        "is NaN. With softcap the kernel is chosen by scale / softcap > 0.",
        f"{SRC}/softmax.h Softmax::softmax_rescale_o, {API} set_params_fprop",
        severity=Severity.OPTION,
    ),
    Condition(
        "K433",
        "dropout drops and keeps in single precision",
        _dropout,
        "The host computes 1 - p in float: 1 picks the kernel without dropout, 0 is refused.",
        f"{API} set_params_fprop: TORCH_CHECK(p_dropout < 1.f)",
        severity=Severity.OPTION,
    ),
    Condition(
        "K434",
        "head dim 256 backwards with dropout needs shared memory",
        _dropout_256,
        "With less than 144 KiB a block (8.6, 8.9, 12.0) upstream has no such kernel and launches nothing, without a "
        "word.",
        f"{SRC}/flash_bwd_launch_template.h run_mha_bwd_hdim256",
        families=BACKWARD,
        severity=Severity.OPTION,
    ),
    limit(
        "K435",
        "no dropout with a KV cache",
        lambda s, k: s.problem.dropout and s.problem.kv_cache.kind is not CacheKind.NONE,
        lambda s, k: f"dropout {s.problem.dropout:g} with a KV cache: mha_fwd_kvcache has none",
        "--dropout 0",
        "The API for caches has no argument for it, and split-KV kernels ignore it.",
        f"{API} mha_fwd_kvcache",
        families=FORWARD,
        severity=Severity.OPTION,
    ),
)
"""Conditions on the problem. Of the kernel they read only the element type and the architecture."""
