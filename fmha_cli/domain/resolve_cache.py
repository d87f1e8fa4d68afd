"""Resolves the flags of a KV cache: its storage, lengths, padding and rotary embedding."""

from __future__ import annotations

from typing import Any

from fmha_cli.domain.features import CacheKind, KvCache, Rotary, RotaryStyle
from fmha_cli.domain.flags import parse_size
from fmha_cli.domain.impossible import at_least, conflict, impossible, lacks


def cache_storage(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Put ``kv_cache``, ``append`` and ``rotary`` into ``out``, which has the head dim already.

    Raises:
        ImpossibleProblem: P005, P007, P008, P009.
    """
    text = given.get("kv_cache", "none")
    word, _, page = text.partition(":")
    known = word in CacheKind._value2member_map_
    if not known or (word == "paged") != bool(page):
        example = f"--kv-cache paged:{page or 128}" if word.startswith("pag") else "e.g. --kv-cache linear or paged:128"
        raise impossible("P008", f"--kv-cache {text}", "--kv-cache", "none, linear or paged:PAGE", example)
    size = parse_size(page, "--kv-cache paged") if page else 0
    if page:
        at_least(1, {"kv-cache paged": size})
    out["kv_cache"] = KvCache(CacheKind(word), size)
    out["append"] = given.get("append", 0)
    at_least(0, {"append": out["append"]})
    out["rotary"] = _rotary(given.get("rotary", "0"), out["hdim"])
    if word == "none":
        for flag in ("cache_seqlens", "append", "k_new", "v_new", "rotary"):
            if given.get(flag):
                raise lacks(f"--{flag.replace('_', '-')}", "--kv-cache", "it describes a KV cache")
    if any(given.get("cache_leftpad", ())) and word != "linear":
        why = "padding rows are in front of the keys of a linear cache"
        if word == "none":
            raise lacks("--cache-leftpad", "--kv-cache linear", why)
        raise conflict("--cache-leftpad", f"--kv-cache {text}", why, "--kv-cache linear, or leave --cache-leftpad out")
    new = next((flag for flag in ("k_new", "v_new") if flag in given and not out["append"]), None)
    if new is not None:
        raise lacks(f"--{new.replace('_', '-')}", "--append", "it has the keys that are appended")
    if out["rotary"].dim and not out["append"]:
        raise lacks("--rotary", "--append", "rotary embedding is applied only while keys are appended")
    if "block_table" in given and word != "paged":
        help = "--kv-cache paged:PAGE, or leave --block-table out"
        raise conflict("--block-table", f"--kv-cache {word}", "only a paged cache has a block table", help)


def cache_lengths(given: dict[str, Any], out: dict[str, Any], batch: int) -> tuple[int, ...]:
    """Keys of each sequence before the appended ones.

    Raises:
        ImpossibleProblem: P005, a negative one; P007, they contradict ``--batch`` or ``--seqlen-k``.
    """
    lengths: tuple[int, ...] | None = given.get("cache_seqlens")
    total: int | None = given.get("seqlen_k")
    if lengths is None:
        lengths = ((total if total is not None else out["seqlen_q"]) - out["append"],)
    lengths = _per_sequence("cache-seqlens", lengths, batch)
    if total is not None and max(lengths) + out["append"] != total:
        raise conflict("--cache-seqlens + --append", f"--seqlen-k {total}", "seqlen_k = cache + append")
    return lengths


def leftpads(given: dict[str, Any], batch: int) -> tuple[int, ...] | None:
    """Padding rows of each sequence; None if there are none."""
    padding = _per_sequence("cache-leftpad", given.get("cache_leftpad", (0,)), batch)
    return padding if any(padding) else None


def _per_sequence(flag: str, values: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """One number for each sequence; a single number applies to all."""
    if len(values) not in (1, batch):
        why, help = "one number, or one for each sequence", f"give --{flag} one number or {batch} of them"
        raise conflict(f"--{flag} of {len(values)}", f"--batch {batch}", why, help)
    at_least(0, {flag: min(values)})
    return values * batch if len(values) == 1 else values


def _rotary(text: str, hdim: int) -> Rotary:
    dim_text, _, style = text.partition(":")
    dim = parse_size(dim_text, "--rotary")
    if style and style not in RotaryStyle._value2member_map_:
        help = f"e.g. --rotary {dim}:half"
        raise impossible("P009", f"--rotary {text}", "--rotary", "DIM, DIM:half or DIM:interleaved", help)
    if dim < 0 or dim % 2 or dim > hdim:
        help = f"--rotary {max(0, min(dim, hdim)) // 2 * 2}"
        raise impossible("P009", f"--rotary {dim} with --hdim {hdim}", "--rotary", "DIM is even and at most hdim", help)
    return Rotary(dim, RotaryStyle(style or "half")) if dim else Rotary()
