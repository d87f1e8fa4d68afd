"""Resolves the flags of a KV cache: its storage, lengths, padding and rotary embedding."""

from __future__ import annotations

from typing import Any

from fmha_cli.domain.features import ROTARY_BASE, CacheKind, KvCache, Rotary, RotaryStyle
from fmha_cli.domain.flags import parse_size
from fmha_cli.domain.impossible import at_least, conflict, impossible, lacks


def cache_storage(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Put ``kv_cache``, ``append`` and the members of ``rotary`` into ``out``, which has the head dim already.

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
        for flag in ("cache_seqlens", "append", "k_new", "v_new", "rotary", "cache_batch_idx"):
            if given.get(flag):
                raise lacks(f"--{flag.replace('_', '-')}", "--kv-cache", "it describes a KV cache")
    if any(given.get("cache_leftpad", ())) and word != "linear":
        why = "padding rows are in front of the keys of a linear cache"
        if word == "none":
            raise lacks("--cache-leftpad", "--kv-cache linear", why)
        raise conflict("--cache-leftpad", f"--kv-cache {text}", why, "--kv-cache linear, or leave --cache-leftpad out")
    out |= _angles(given, out["rotary"])
    new = next((flag for flag in ("k_new", "v_new") if flag in given and not out["append"]), None)
    if new is not None:
        raise lacks(f"--{new.replace('_', '-')}", "--append", "it has the keys that are appended")
    if out["rotary"].dim and not out["append"]:
        raise lacks("--rotary", "--append", "rotary embedding is applied only while keys are appended")
    if "cache_batch_idx" in given and word == "paged":
        why = "the block table says which pages a sequence has"
        raise conflict("--cache-batch-idx", f"--kv-cache {text}", why, "--kv-cache linear, or a block table")
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


def cache_items(given: dict[str, Any], out: dict[str, Any]) -> tuple[int, ...] | None:
    """The row of the cache for each sequence; None if sequence b has row b.

    Raises:
        ImpossibleProblem: P005, a negative one; P007, not one for each sequence; P022, several sequences append to one.
    """
    items: tuple[int, ...] = given.get("cache_batch_idx", ())
    batch = out["batch"]
    if not items:
        return None
    at_least(0, {"cache-batch-idx": min(items)})
    if len(items) != batch:
        why, help = "one row for each sequence", f"give --cache-batch-idx {batch} rows"
        raise conflict(f"--cache-batch-idx of {len(items)}", f"--batch {batch}", why, help)
    twice = next((item for n, item in enumerate(items) if item in items[:n]), None)
    if out["append"] and twice is not None:
        first, second = [b for b, item in enumerate(items) if item == twice][:2]
        what = f"sequences {first} and {second} append to row {twice} of the cache"
        why = "what the row holds would depend on which sequence comes first"
        help = "--append 0 to read it, or a row for each sequence"
        raise impossible("P022", what, "--cache-batch-idx", why, help)
    return None if items == tuple(range(batch)) else items


def check_positions(out: dict[str, Any]) -> None:
    """Refuse rotary tables where a query comes before position 0, of which they have no row. Raises ImpossibleProblem: P009."""
    if not out["rotary_cos"]:
        return
    rows = out["seqlens_q"] or (out["seqlen_q"],) * out["batch"]
    pads = out["cache_leftpad"] or (0,) * out["batch"]
    for b, (count, held, pad) in enumerate(zip(rows, out["cache_seqlens"], pads, strict=True)):
        if count > held + out["append"] + pad:
            what = f"the {count} queries of sequence {b} begin before position 0: it has {held + out['append']} keys"
            why = "queries take the last positions, and row n of the tables is position n"
            raise impossible("P009", what, "--rotary-cos", why, "fewer queries, or --rotary-base")


def _angles(given: dict[str, Any], rotary: Rotary) -> dict[str, Any]:
    """``rotary_base``, ``rotary_cos`` and ``rotary_sin``."""
    tables = {f"rotary_{name}": f"rotary_{name}" in given for name in ("cos", "sin")}
    base = float(given.get("rotary_base", ROTARY_BASE))
    for flag in ("rotary_base", *tables):
        if flag in given and not rotary.dim:
            raise lacks(f"--{flag.replace('_', '-')}", "--rotary DIM", "it belongs to a rotary embedding")
    if any(tables.values()) and "rotary_base" in given:
        raise conflict("--rotary-base", "--rotary-cos", "the tables hold the angles of any base")
    if any(tables.values()) and not all(tables.values()):
        have, other = ("cos", "sin") if tables["rotary_cos"] else ("sin", "cos")
        raise lacks(f"--rotary-{have}", f"--rotary-{other} FILE", "the tables come in pairs")
    if not base > 0:
        raise impossible("P009", f"--rotary-base {base:g}", "--rotary-base", "a number above 0", "e.g. 500000")
    return {"rotary_base": base, **tables}


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
