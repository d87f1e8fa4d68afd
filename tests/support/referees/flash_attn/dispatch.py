"""A model of upstream's dispatch table, written independently of ``decide``: it maps a key to its one kernel.

``lookup`` follows upstream's launch templates and names a kernel whether or not one is listed. ``strict_lookup`` admits
only listed kernels. ``validate`` covers the refusals of earlier dispatch libraries. If upstream's FlashAttention-2
decides differently, upstream wins (``docs/explanation/backends/flash_attn.md``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.key import PREFIX, DispatchKey, Page
from fmha_cli.backends.flash_attn.signatures import DTYPES, NAME, signature
from fmha_cli.backends.flash_attn.tiles import (
    HDIMS,
    TileFacts,
    backward_traits,
    bucket,
    facts_of,
    forward_traits,
    split_traits,
)
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.encode import decode_fields
from fmha_cli.domain.features import Direction
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Reason, Severity
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need, RotaryKey

NOT_LISTED, CONTRADICTION = "not-listed", "contradiction"
"""Reasons that only a hand-written key can have; all others carry the id of the rule that refuses a problem."""


def parse_key(name: str) -> DispatchKey:
    """The inverse of ``DispatchKey.name``.

    Raises:
        UsageError: the name lacks an axis or has an unknown one.
    """
    return decode_fields(name.removeprefix(PREFIX), DispatchKey)


@dataclass(frozen=True)
class Lookup:
    """The kernel of a key, or all reasons against it."""

    key: DispatchKey
    kernel: KernelSpec | None
    reasons: tuple[Reason, ...] = ()


def lookup(key: DispatchKey) -> Lookup:
    """The kernel that upstream's launch templates instantiate for a key, or all reasons against it."""
    reasons = validate(key)
    return Lookup(key, None, reasons) if reasons else Lookup(key, _kernel(key))


def strict_lookup(key: DispatchKey, listed: Collection[KernelSpec] | None = None) -> Lookup:
    """Like :func:`lookup`, but only for ``listed`` kernels; the default is the catalogue."""
    found = lookup(key)
    if found.kernel is None:
        return found
    if found.kernel in (
        family_kernels(load_arch(found.kernel.arch), found.kernel.family) if listed is None else listed
    ):
        return found
    text = f"no kernel is listed for {key.name}"
    return Lookup(key, None, (Reason(NOT_LISTED, text, "fmha list-kernels --backend flash_attn", Severity.PLACE),))


def validate(key: DispatchKey) -> tuple[Reason, ...]:
    """All faults of a key, under the ids of the rules that refuse such a problem."""
    types, at_least_8 = " and ".join(d.value for d in DTYPES), max(8, -(-key.head_dim // 8) * 8)
    wrong: tuple[tuple[bool, str, str, str], ...] = (
        (not _served(key.arch), "K479", f"FlashAttention-2 has no kernels for {key.arch}", "--arch sm_80"),
        (key.direction is Direction.FWD_BWD, "K025", "two directions are two kernels, with a key each", "--direction"),
        (key.dtype not in DTYPES, "K420", f"dtype {key.dtype.value}: FlashAttention-2 is for {types}", "--dtype bf16"),
        (
            key.dtype_kv is not key.dtype,
            "K420",
            f"K and V of {key.dtype_kv.value} with Q of {key.dtype.value}: FlashAttention-2 has one type for all",
            f"K and V of {key.dtype.value}",
        ),
        (
            key.dtype_out is not (key.dtype if key.dtype in DTYPES else key.dtype.default_output),
            "K421",
            f"output {key.dtype_out.value} of inputs {key.dtype.value}",
            f"--dtype {key.dtype.value}",
        ),
        (
            key.head_dim % 8 != 0 or key.head_dim < 1,
            "K422",
            f"hdim {key.head_dim} is not a multiple of 8",
            f"--hdim {at_least_8}",
        ),
        (key.head_dim > HDIMS[-1], "K423", f"hdim {key.head_dim} is above {HDIMS[-1]}", f"--hdim {HDIMS[-1]}"),
        (
            key.hdim_v != key.head_dim,
            "K424",
            f"hdim-v {key.hdim_v} with hdim {key.head_dim}",
            f"--hdim-v {key.head_dim}",
        ),
        (key.softcap and key.dropout, "K425", "softcap with dropout", "--dropout 0, or --softcap 0"),
        (key.bias, "K426", "an elementwise bias", "--bias none, or --alibi"),
        (key.sink, "K427", "attention sinks", "--sink 0"),
        (key.sink_logits, "K428", "sink logits", "drop --sink-logits"),
        (key.qscale, "K429", "scales of quantised tensors", "--qscale none"),
        (key.corner, "K430", "a mask that is not counted from the bottom-right corner", "--mask causal"),
        (key.causal and key.window, CONTRADICTION, "a mask is causal or a window", "one of the two"),
        (_no_dropout_256(key), "K434", f"hdim {key.head_dim} with dropout backwards on {key.arch}", "--dropout 0"),
        (key.dropout and key.cache, "K435", "dropout with a KV cache", "--dropout 0"),
        (key.page is Page.OTHER, "K436", "pages of a size that is not a multiple of 256", "--kv-cache paged:256"),
        (
            key.page is not Page.NONE and not key.cache,
            CONTRADICTION,
            "pages without a KV cache",
            "--kv-cache paged:256",
        ),
        (key.append and not key.cache, CONTRADICTION, "new keys without a KV cache to append to", "--kv-cache linear"),
        (key.append and key.varlen, "K437", "appending with packed queries", "--append 0"),
        (key.indexed and not key.cache, CONTRADICTION, "an index of no cache", "--kv-cache linear"),
        (key.indexed and key.page is not Page.NONE, CONTRADICTION, "an index of a paged cache", "--kv-cache linear"),
        (key.indexed and key.varlen, "K447", "an index of the cache with packed queries", "drop --cache-batch-idx"),
        (key.split and key.dropout, "K009", "split keys with dropout", "--splits 1"),
        (key.split and _backward(key), CONTRADICTION, "split keys backwards", "--splits 1"),
        (key.cache and _backward(key), CONTRADICTION, "a KV cache backwards", "--direction fwd"),
        (
            key.even and not _may_be_even(key),
            CONTRADICTION,
            "even lengths where no kernel is compiled for them",
            "even=no",
        ),
    )
    return tuple(Reason(id, text, hint, Severity.KIND) for is_wrong, id, text, hint in wrong if is_wrong)


def _backward(key: DispatchKey) -> bool:
    return key.direction is Direction.BWD


def _served(arch: str) -> bool:
    return arch in arch_names() and NAME in load_arch(arch).backends


def _no_dropout_256(key: DispatchKey) -> bool:
    largest = _backward(key) and key.dropout and bucket(key.head_dim) == HDIMS[-1]
    return largest and _served(key.arch) and backward_traits(HDIMS[-1], True, facts_of(load_arch(key.arch))) is None


def _even_k(key: DispatchKey) -> bool:
    return key.head_dim in HDIMS and not key.alibi


def _may_be_even(key: DispatchKey) -> bool:
    unlike = key.varlen or key.window or key.append or key.cache
    return _even_k(key) and key.head_dim <= 128 and not unlike


def _kernel(key: DispatchKey) -> KernelSpec:
    """The kernel of a valid key."""
    hdim, facts = bucket(key.head_dim) or 0, facts_of(load_arch(key.arch))
    family = _family(key)
    compiled: dict[str, Any] = {
        "mode": ModeKey.BATCH if key.even else ModeKey.ANY,
        "mask": MaskKey.CAUSAL if key.causal else MaskKey.WINDOW if key.window else MaskKey.NONE,
        "bias": BiasKey.ALIBI if key.alibi else BiasKey.NONE,
        "softcap": Need.of(key.softcap),
    }
    if family is Family.FWD_SPLITKV:
        rotary = RotaryKey.ANY if key.append else RotaryKey.NONE
        compiled |= {"split": Need.of(key.split), "append": Need.of(key.append), "rotary": rotary}
    else:
        compiled["dropout"] = Need.of(key.dropout)
    return KernelSpec(
        backend=NAME,
        family=family,
        arch=key.arch,
        signature=signature(family, key.dtype, hdim, **compiled),
        algorithm=_algorithm(key, family, hdim, facts),
    )


def _family(key: DispatchKey) -> Family:
    if _backward(key):
        return Family.BWD_DQ_DK_DV
    forced = key.split or key.append or key.page is not Page.NONE or key.indexed
    return Family.FWD_SPLITKV if forced else Family.FWD


def _algorithm(key: DispatchKey, family: Family, hdim: int, facts: TileFacts) -> FaAlgorithm:
    if family is Family.BWD_DQ_DK_DV:
        traits = backward_traits(hdim, key.dropout, facts)
        assert traits is not None
        return replace(traits, even_mn=key.even, even_k=_even_k(key))
    made = split_traits(hdim) if family is Family.FWD_SPLITKV else forward_traits(hdim, key.dropout, key.causal, facts)
    return replace(made, even_mn=key.even, even_k=_even_k(key))
