"""Rules K460-K466: what a kernel is compiled for, where upstream's view of a feature differs from the problem's.

The core's signature rules compare the other features (``SHARED_RULES``).
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.backends.gpu.conditions import Condition, next_multiple, refuse
from fmha_cli.backends.gpu.rule_rows import conditions
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.features import Alibi, CacheKind, Mode
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import (
    ANGLES_RULE,
    CACHE_ITEM_RULE,
    HDIM_RULE,
    LEFTPAD_RULE,
    SIGNATURE_RULE_IDS,
    Refusal,
    core_rules,
)
from fmha_cli.domain.signature import BiasKey, MaskKey, Need
from fmha_cli.domain.signature_hints import unpacked, with_hdim

_OWN = (
    "dtype",
    "dtype_out",
    "mode",
    "mask",
    "sink",
    "sink_logits",
    "bias",
    "cache",
    "page",
    "split",
    "qscale",
    "dbias",
)
"""Signature fields that rules of this backend judge."""
_SERVED = (HDIM_RULE, LEFTPAD_RULE, ANGLES_RULE, CACHE_ITEM_RULE)
SHARED_RULES = core_rules(*(SIGNATURE_RULE_IDS[field] for field in _OWN), *(rule.id for rule in _SERVED))
"""The core's rules that apply to this backend. Its own replace the others, except those about left padding, rotary angles and the
index of a cache, which the kernels serve."""


def _mask(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    want, have = s.mask_key, kernel.signature.mask
    if s.given is None or want is have:
        return None
    why = "" if want.value == s.problem.mask.kind.value else f", which mask {s.problem.mask.text()} reduces to"
    text = f"mask {want.value}{why} is not what the kernel is compiled for (mask {have.value})"
    if have is not MaskKey.WINDOW:
        return Refusal(text, f"--mask {have.value}")
    return Refusal(text, f"--mask window:{max(s.seqlen_k - 2, 0)},0 (a window that hides a key)")


def _alibi(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    want = s.problem.alibi is not Alibi.NONE
    if want == (kernel.signature.bias is BiasKey.ALIBI):
        return None
    text = "the kernel is compiled without ALiBi" if want else "the kernel is compiled for ALiBi"
    return Refusal(text, "--bias none" if want else "--alibi")


def _split(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    asked, count = s.problem.splits, s.splits.count
    if kernel.signature.split is Need.YES:
        if count > 1:
            return None
        packed = s.problem.mode is Mode.GROUP and not s.swapped  # K443: such queries are never split
        hint = f"{unpacked(s.problem)} and --splits 2" if packed else "--splits 2"
        return Refusal(f"one split ({s.splits.why}): nothing to combine", hint)
    if asked <= 1:
        return None
    return Refusal(f"splits {asked}: the kernel does not split keys", "--splits 1")


def _storage(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    if s.problem.paged:
        text = f"--kv-cache {s.problem.kv_cache.text()}: the plain forward kernel reads no block table"
        return Refusal(text, "--kv-cache linear")
    if s.problem.cache_batch_idx is not None:
        return Refusal("cache-batch-idx: the plain forward kernel reads no index", "drop --cache-batch-idx")
    return None


def _even_lengths(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    rows, keys = a.tile
    if not a.even_mn or s.fills_tiles(rows, keys):
        return None
    if s.packed_q or s.key_lengths.value != "common":
        text = "the kernel takes one length for all sequences from its parameters; here each has its own"
        packed = s.packed_q or s.problem.kv_cache.kind is CacheKind.NONE
        return Refusal(text, unpacked(s.problem) if packed else "--kv-cache none")
    text = f"{s.seqlen_q} rows and {s.seqlen_k} keys are not multiples of the kernel's tile, {rows} by {keys}"
    wanted = next_multiple(max(s.seqlen_q, 1), rows), next_multiple(max(s.seqlen_k, 1), keys)
    return Refusal(text, "--seqlen {} and --seqlen-k {}".format(*wanted))


def _even_hdim(s: FlashSituation, kernel: KernelSpec) -> Refusal | None:
    if not algorithm_of(kernel).even_k or s.problem.hdim == kernel.signature.hdim or s.bucket is None:
        return None
    text = f"hdim {s.problem.hdim}: the kernel reads {kernel.signature.hdim} columns of every row"
    return Refusal(text, with_hdim(s.problem, kernel.signature.hdim))


FIT: tuple[Condition[FlashSituation], ...] = conditions(
    NAME,
    {
        "K460": refuse(
            lambda s, k: s.bucket not in (None, k.signature.hdim),
            lambda s, k: (
                f"hdim {s.problem.hdim} needs a kernel for head dim {s.bucket}, this one is for {k.signature.hdim}"
            ),
            lambda s, k: with_hdim(s.problem, k.signature.hdim),
        ),
        "K461": _mask,
        "K462": _alibi,
        "K463": _split,
        "K464": _storage,
        "K465": _even_lengths,
        "K466": _even_hdim,
    },
)
"""Conditions that match a problem with what a kernel is compiled for."""
