"""Rules K460-K466: what a kernel is compiled for, where upstream's view of a feature differs from the problem's.

The core's signature rules compare the other features (``SHARED_RULES``).
"""

from __future__ import annotations

from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if
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


def _mask(s: FlashSituation, kernel: KernelSpec) -> Found:
    want, have = s.mask_key, kernel.signature.mask
    why = "" if want.value == s.problem.mask.kind.value else f", which mask {s.problem.mask.text()} reduces to"
    hiding = f"window:{max(s.seqlen_k - 2, 0)},0 (a window that hides a key)"
    mask = hiding if have is MaskKey.WINDOW else have.value
    return refuse_if(s.given is not None and want is not have, want=want.value, why=why, have=have.value, mask=mask)


def _alibi(s: FlashSituation, kernel: KernelSpec) -> Found:
    want = s.problem.alibi is not Alibi.NONE
    how, option = ("without", "--bias none") if want else ("for", "--alibi")
    return refuse_if(want is not (kernel.signature.bias is BiasKey.ALIBI), how=how, option=option)


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


def _even_hdim(s: FlashSituation, kernel: KernelSpec) -> Found:
    p, own = s.problem, kernel.signature.hdim
    partial = algorithm_of(kernel).even_k and p.hdim != own and s.bucket is not None
    return refuse_if(partial, hdim=p.hdim, own=own, help=with_hdim(p, own))


def _bucket(s: FlashSituation, kernel: KernelSpec) -> Found:
    p, own = s.problem, kernel.signature.hdim
    return refuse_if(s.bucket not in (None, own), hdim=p.hdim, bucket=s.bucket, own=own, help=with_hdim(p, own))


FIT = conditions(
    NAME,
    {
        "K460": _bucket,
        "K461": _mask,
        "K462": _alibi,
        "K463": _split,
        "K464": _storage,
        "K465": _even_lengths,
        "K466": _even_hdim,
    },
)
"""Conditions that match a problem with what a kernel is compiled for."""
