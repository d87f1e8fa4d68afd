"""What the flags of a KV cache mean together: its lengths, padding and rotary embedding.

``p`` is the draft of a problem (``domain.resolve``): its members, and ``p.given`` with the flags that were given.
"""

from __future__ import annotations

from typing import Any

from fmha_cli.domain.features import CacheKind
from fmha_cli.domain.impossible import at_least, conflict, impossible, lacks


def check_cache(p: Any) -> None:
    """Refuse flags of a KV cache that contradict each other or lack one that they need.

    Raises:
        ImpossibleProblem: P005, P007, P008, P009.
    """
    given, kind, appended, rotary = p.given, p.kv_cache.kind, p.append, p.rotary
    cache = f"--kv-cache {given.get('kv_cache')}"
    if rotary.dim < 0 or rotary.dim % 2 or rotary.dim > p.hdim:
        help, what = (
            f"--rotary {max(0, min(rotary.dim, p.hdim)) // 2 * 2}",
            f"--rotary {rotary.dim} with --hdim {p.hdim}",
        )
        raise impossible("P009", what, "--rotary", "DIM is even and at most hdim", help)
    if kind is CacheKind.NONE:
        for flag in ("cache_seqlens", "append", "k_new", "v_new", "rotary", "cache_batch_idx"):
            if given.get(flag):
                raise lacks(f"--{flag.replace('_', '-')}", "--kv-cache", "it describes a KV cache")
    if any(given.get("cache_leftpad", ())) and kind is not CacheKind.LINEAR:
        why = "padding rows are in front of the keys of a linear cache"
        if kind is CacheKind.NONE:
            raise lacks("--cache-leftpad", "--kv-cache linear", why)
        raise conflict("--cache-leftpad", cache, why, "--kv-cache linear, or leave --cache-leftpad out")
    _check_angles(p)
    new = next((flag for flag in ("k_new", "v_new") if flag in given and not appended), None)
    if new is not None:
        raise lacks(f"--{new.replace('_', '-')}", "--append", "it has the keys that are appended")
    if rotary.dim and not appended:
        raise lacks("--rotary", "--append", "rotary embedding is applied only while keys are appended")
    if "cache_batch_idx" in given and kind is CacheKind.PAGED:
        why = "the block table says which pages a sequence has"
        raise conflict("--cache-batch-idx", cache, why, "--kv-cache linear, or a block table")
    if "block_table" in given and kind is not CacheKind.PAGED:
        help = "--kv-cache paged:PAGE, or leave --block-table out"
        raise conflict("--block-table", f"--kv-cache {kind.value}", "only a paged cache has a block table", help)


def _check_angles(p: Any) -> None:
    tables = [name for name in ("cos", "sin") if f"rotary_{name}" in p.given]
    based = "rotary_base" in p.given
    for flag in (*(["base"] if based else []), *tables):
        if not p.rotary.dim:
            raise lacks(f"--rotary-{flag}", "--rotary DIM", "it belongs to a rotary embedding")
    if tables and based:
        raise conflict("--rotary-base", "--rotary-cos", "the tables hold the angles of any base")
    if len(tables) == 1:
        other = "sin" if tables == ["cos"] else "cos"
        raise lacks(f"--rotary-{tables[0]}", f"--rotary-{other} FILE", "the tables come in pairs")
    if not p.rotary_base > 0:
        what = f"--rotary-base {p.rotary_base:g}"
        raise impossible("P009", what, "--rotary-base", "a number above 0", "e.g. 500000")


def cache_lengths(p: Any) -> tuple[int, ...]:
    """Keys of each sequence before the appended ones.

    Raises:
        ImpossibleProblem: P005, a negative one; P007, they contradict ``--batch`` or ``--seqlen-k``.
    """
    total: int | None = p.given.get("seqlen_k")
    default = ((p.seqlen_q if total is None else total) - p.append,)
    lengths = _per_sequence("cache-seqlens", p.given.get("cache_seqlens", default), p.batch)
    if total is not None and max(lengths) + p.append != total:
        raise conflict("--cache-seqlens + --append", f"--seqlen-k {total}", "seqlen_k = cache + append")
    return lengths


def cache_items(p: Any) -> tuple[int, ...] | None:
    """The row of the cache for each sequence; None if sequence b has row b.

    Raises:
        ImpossibleProblem: P005, a negative one; P007, not one for each sequence; P022, several sequences append to one.
    """
    items: tuple[int, ...] = p.given.get("cache_batch_idx", ())
    if not items:
        return None
    at_least(0, {"cache-batch-idx": min(items)})
    if len(items) != p.batch:
        why, help = "one row for each sequence", f"give --cache-batch-idx {p.batch} rows"
        raise conflict(f"--cache-batch-idx of {len(items)}", f"--batch {p.batch}", why, help)
    twice = next((item for n, item in enumerate(items) if item in items[:n]), None)
    if p.append and twice is not None:
        first, second = [b for b, item in enumerate(items) if item == twice][:2]
        what = f"sequences {first} and {second} append to row {twice} of the cache"
        why = "what the row holds would depend on which sequence comes first"
        help = "--append 0 to read it, or a row for each sequence"
        raise impossible("P022", what, "--cache-batch-idx", why, help)
    return None if items == tuple(range(p.batch)) else items


def check_positions(p: Any) -> None:
    """Refuse rotary tables where a query comes before position 0, of which they have no row. Raises ImpossibleProblem: P009."""
    if not p.rotary_cos:
        return
    rows = p.seqlens_q or (p.seqlen_q,) * p.batch
    pads = p.cache_leftpad or (0,) * p.batch
    for b, (count, held, pad) in enumerate(zip(rows, p.cache_seqlens, pads, strict=True)):
        if count > held + p.append + pad:
            what = f"the {count} queries of sequence {b} begin before position 0: it has {held + p.append} keys"
            why = "queries take the last positions, and row n of the tables is position n"
            raise impossible("P009", what, "--rotary-cos", why, "fewer queries, or --rotary-base")


def leftpads(p: Any) -> tuple[int, ...] | None:
    """Padding rows of each sequence; None if there are none."""
    padding = _per_sequence("cache-leftpad", p.given.get("cache_leftpad", (0,)), p.batch)
    return padding if any(padding) else None


def _per_sequence(flag: str, values: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """One number for each sequence; a single number applies to all."""
    if len(values) not in (1, batch):
        why, help = "one number, or one for each sequence", f"give --{flag} one number or {batch} of them"
        raise conflict(f"--{flag} of {len(values)}", f"--batch {batch}", why, help)
    at_least(0, {flag: min(values)})
    return values * batch if len(values) == 1 else values
