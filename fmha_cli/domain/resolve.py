"""Resolves flags to the members of a ``Problem``, and refuses impossible problems with the rule and the values.

``domain.fields`` says what a flag means by itself; here is what flags mean together.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fmha_cli.domain.dtypes import Fp8Encoding, KvDType
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import Alibi, Bias, CacheKind, QScale
from fmha_cli.domain.fields import BY_KEY, BY_MEMBER, FIELDS, Field, asks_fill
from fmha_cli.domain.flags import FlagKind, parse_list, parse_number, parse_size
from fmha_cli.domain.impossible import at_least, conflict, impossible, lacks
from fmha_cli.domain.mask import Align, Mask
from fmha_cli.domain.suggest import NameKind, suggest

_DIVISORS = 1024
"""Numbers of key/value heads up to this one are suggested."""

RawFlags = Mapping[str, str | bool | int | float]
"""Only the flags that were given: flag key -> text (or True for a switch)."""


class Draft(SimpleNamespace):
    """A problem in the making. A member that no rule has set comes from its flag, or has its default, when it is first read.

    Attributes:
        given: flag key -> a number, a list of numbers, True for a switch, or the text.
    """

    given: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        vars(self).update(_resolve(BY_MEMBER[name], self))
        return vars(self)[name]


def _resolve(field: Field, p: Draft) -> dict[str, Any]:
    """The members of a field, from its flag or default."""
    given = field.key in p.given
    value = p.given[field.key] if given else field.default_in(p)
    value = field.parse(value) if isinstance(value, str) else value
    if given:
        field.check(value)
    return dict(zip(field.members, value if len(field.members) > 1 else (value,), strict=True))


_CONSTANT = {
    name: value
    for field in FIELDS
    if field.members and not callable(field.default)
    for name, value in _resolve(field, Draft(given={})).items()
}
"""The defaults that follow from nothing, by member."""


def resolve_fields(raw: RawFlags) -> dict[str, Any]:
    """The keyword arguments of ``Problem`` for the given flags, with defaults applied and equal problems made equal.

    Raises:
        ImpossibleProblem: P001-P018, P020, P022, P023, naming the rule and the values.
    """
    given = _read(raw)
    p = Draft(**{name: value for name, value in _CONSTANT.items() if BY_MEMBER[name].key not in given}, given=given)
    if p.given.get("kv_dtype") == p.dtype.value:
        p.kv_dtype = KvDType.SAME
    _check_sizes(p)
    _check_cache(p)
    _resolve_lengths(p)
    _resolve_mask(p)
    _resolve_bias(p)
    out = {name: getattr(p, name) for name in BY_MEMBER}
    if not p.dropout:
        out["seed"] = out["offset"] = 0
    out["fp8_encoding"] = _check_types(p)
    _check_passes(p)
    for key, value in p.given.items():  # a problem has shapes and no tensors: a file that it named would never be read
        if BY_KEY[key].kind is FlagKind.FILE and not asks_fill(key, value):
            flag, short = f"--{BY_KEY[key].name}", value if len(value) <= 60 else f"{value[:60]}..."
            why = "a problem says which tensors there are, and holds none of them"
            help = f"{flag} filled; the tensor itself goes to the command, or to tensors= of fmha_cli.api.run"
            raise impossible("P023", f"{flag} {short} in a problem", flag, why, help)
    return out


def _read(raw: RawFlags) -> dict[str, Any]:
    """The given values, each read by its flag's kind."""
    readers: dict[FlagKind, Callable[[str, str], Any]] = {FlagKind.NUMBER: parse_number, FlagKind.LIST: parse_list}
    given: dict[str, Any] = {}
    for key, value in raw.items():
        field = BY_KEY.get(key)
        if field is None:
            help = suggest(key, BY_KEY, NameKind.OPTION, otherwise="`fmha run --help` lists the problem flags")
            raise impossible(
                "P004", f"{key}: no such problem flag", f"--{key}", "a problem is given by its flags", help
            )
        if field.kind is FlagKind.SWITCH:
            given.update({key: True} if value else {})
            continue
        text, flag = repr(value) if isinstance(value, float) else str(value), f"--{field.name}"
        if field.kind is FlagKind.SIZE:
            given[key] = parse_size(text, flag, field.sweeps)
        else:
            given[key] = readers[field.kind](text, flag) if field.kind in readers else text
        field.check_most(given[key])
    return given


def raw_from_text(line: str | Sequence[str]) -> dict[str, str | bool]:
    """Parses a command line's problem flags into raw values (``--flag value``, ``--flag=value``, ``-b 2``, ``-b2``).

    Raises:
        UsageError: an unknown flag, a missing value, or a word that is not a flag.
    """
    words = list(shlex.split(line) if isinstance(line, str) else line)
    names = {f"--{f.name}": f for f in FIELDS} | {f"-{f.short}": f for f in FIELDS if f.short}
    raw: dict[str, str | bool] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            name, equals, value = word[:2], "=", word[2:]
        field = names.get(name)
        if field is None:
            raise UsageError(f"{word}: no such problem flag", code="E002", where=word)
        if field.kind is FlagKind.SWITCH:
            raw[field.key] = True
        elif not equals and not words:
            raise UsageError(f"{name} needs a value", code="E002", where=name)
        else:
            raw[field.key] = value if equals else words.pop(0)
    return raw


def _check_sizes(p: Draft) -> None:
    rope = p.mla_rope
    if rope and rope >= p.hdim:
        help = f"--mla-rope {p.hdim - 1} or less" if p.hdim > 1 else "--mla-rope 0, or a larger --hdim"
        why = f"V = the first {p.hdim} - {rope} columns of K"
        raise impossible("P018", f"--mla-rope {rope}", "--mla-rope", why, help)
    if rope and p.given.get("hdim_v", p.hdim - rope) != p.hdim - rope:
        why = f"V = the first {p.hdim - rope} columns of K"
        raise conflict(f"--mla-rope {rope}", f"--hdim-v {p.given['hdim_v']}", why)
    if rope and "v_descale" in p.given:
        raise conflict(f"--mla-rope {rope}", "--v-descale", "V is a part of K and has K's scales")
    heads, kv_heads, *_ = p.heads, p.kv_heads, p.hdim, p.hdim_v
    if heads % kv_heads:
        divisors = ", ".join(str(n) for n in range(1, min(heads, _DIVISORS) + 1) if heads % n == 0)
        why = "every key/value head serves the same number of query heads"
        help = f"--kv-heads one of {divisors}" + (", ..." if heads > _DIVISORS else "")
        raise impossible("P006", f"--heads {heads} is not a multiple of --kv-heads {kv_heads}", "--kv-heads", why, help)


def _resolve_lengths(p: Draft) -> None:
    """Batch, lengths, group mode and the lengths of a cache."""
    queries, keys = p.given.get("seqlens_q"), p.given.get("seqlens_k")
    if keys is not None and queries is None:
        raise lacks("--seqlens-k", "--seqlens-q", "packed keys need packed queries")
    if queries is not None:
        for flag in ("seqlen", "seqlen_k"):
            if flag in p.given:
                why = "a list gives the length of every sequence"
                raise conflict("--seqlens-q", f"--{flag.replace('_', '-')}", why)
        if p.given.get("batch", len(queries)) != len(queries):
            what = f"--seqlens-q of {len(queries)}"
            raise conflict(what, f"--batch {p.given['batch']}", "batch = length of the list")
    cached = p.kv_cache.kind is not CacheKind.NONE
    if cached and keys is not None:
        raise conflict("--kv-cache", "--seqlens-k", "with a cache, --cache-seqlens gives the key lengths")
    if queries is not None and not cached and len(p.seqlens_k) != len(p.seqlens_q):
        several = f"--seqlens-q of {len(queries)}", f"--seqlens-k of {len(p.seqlens_k)}"
        raise conflict(*several, "one length each", "give both lists the same number of lengths")
    p.cache_seqlens = _resolve_cache_lengths(p) if cached else None
    p.cache_leftpad = _resolve_leftpads(p)
    p.cache_batch_idx = _resolve_cache_items(p)
    _check_positions(p)


def _check_cache(p: Draft) -> None:
    """Refuse flags of a KV cache that contradict each other or lack one that they need."""
    given, kind, appended, rotary = p.given, p.kv_cache.kind, p.append, p.rotary
    cache = f"--kv-cache {given.get('kv_cache')}"
    if rotary.dim < 0 or rotary.dim % 2 or rotary.dim > p.hdim:
        what, near = f"--rotary {rotary.dim} with --hdim {p.hdim}", max(0, min(rotary.dim, p.hdim)) // 2 * 2
        raise impossible("P009", what, "--rotary", "DIM is even and at most hdim", f"--rotary {near}")
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


def _check_angles(p: Draft) -> None:
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


def _resolve_cache_lengths(p: Draft) -> tuple[int, ...]:
    """Keys of each sequence before the appended ones."""
    total: int | None = p.given.get("seqlen_k")
    default = ((p.seqlen_q if total is None else total) - p.append,)
    lengths = _per_sequence("cache-seqlens", p.given.get("cache_seqlens", default), p.batch)
    if total is not None and max(lengths) + p.append != total:
        raise conflict("--cache-seqlens + --append", f"--seqlen-k {total}", "seqlen_k = cache + append")
    return lengths


def _resolve_cache_items(p: Draft) -> tuple[int, ...] | None:
    """The row of the cache for each sequence; None if sequence b has row b."""
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


def _check_positions(p: Draft) -> None:
    """Refuse rotary tables where a query comes before position 0, of which they have no row."""
    if not p.rotary_cos:
        return
    rows = p.seqlens_q or (p.seqlen_q,) * p.batch
    pads = p.cache_leftpad or (0,) * p.batch
    for b, (count, held, pad) in enumerate(zip(rows, p.cache_seqlens, pads, strict=True)):
        if count > held + p.append + pad:
            what = f"the {count} queries of sequence {b} begin before position 0: it has {held + p.append} keys"
            why = "queries take the last positions, and row n of the tables is position n"
            raise impossible("P009", what, "--rotary-cos", why, "fewer queries, or --rotary-base")


def _resolve_leftpads(p: Draft) -> tuple[int, ...] | None:
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


def _resolve_mask(p: Draft) -> None:
    p.mask, sink_in_mask = p.mask if "mask" in p.given else (p.mask, None)
    given = f"--mask {p.given.get('mask')}"
    if p.given.get("causal"):
        if "mask" in p.given and p.mask != Mask(right=0):
            raise conflict("--causal", given, "--causal means --mask causal")
        p.mask = Mask(right=0)
    size = p.given.get("window")
    if size is not None:
        at_least(0, {"window": size})
        window, other = Mask.make(Align.BOTTOM_RIGHT, size, 0), "--causal" if p.given.get("causal") else given
        if p.mask != window and ("mask" in p.given or p.given.get("causal")):
            why = f"--window {size} means --mask {window.text()}, which hides the keys to the right too"
            raise conflict(other, f"--window {size}", why)
        p.mask = window
    if sink_in_mask is not None and p.given.get("sink", sink_in_mask) != sink_in_mask:
        raise conflict(f"--sink {p.given['sink']}", given, "the mask's third number is --sink")
    sink = p.sink or sink_in_mask or 0
    at_least(0, {"sink": sink})
    p.sink = sink if p.mask.left is not None else 0  # without a left bound a sink changes nothing


def _resolve_bias(p: Draft) -> None:
    word = p.given.get("bias", "none").partition(":")[0]
    alibi, slopes = p.given.get("alibi") or word == "alibi", p.given.get("alibi_slopes")
    if "bias_file" in p.given and p.bias is Bias.NONE:
        if word == "alibi" or "bias" in p.given:
            raise conflict("--bias-file", f"--bias {word}", "a bias file holds an elementwise bias")
        p.bias = Bias.R11SS
    if (alibi or slopes) and p.bias is not Bias.NONE:
        raise conflict("--alibi", "--bias elementwise", "a problem has one bias")
    p.alibi = Alibi.STANDARD if alibi else Alibi.NONE
    if slopes is not None:
        p.alibi = Alibi.BATCH_HEADS if slopes.partition(":")[2] == "bh" else Alibi.HEADS


def _check_types(p: Draft) -> Fp8Encoding:
    """Check the element types and scales, and return the encoding of fp8."""
    kv = p.kv_dtype
    if kv is not KvDType.SAME and p.kv_cache.kind is CacheKind.NONE:
        raise lacks(f"--kv-dtype {kv.value}", "--kv-cache", "it describes a KV cache")
    if (p.qscale is QScale.MX) is not p.dtype.is_mx:
        why = "MX types have one scale for every 32 elements, and no other type has"
        help = "leave --qscale out, or choose another --dtype"
        raise conflict(f"--dtype {p.dtype.value}", f"--qscale {p.qscale.value}", why, help)
    for flag in (f"--{name}-descale" for name in ("q", "k", "v") if f"{name}_descale" in p.given):
        if p.qscale is QScale.NONE:
            raise conflict(flag, "--qscale none", "scales need a granularity", "--qscale tensor, block or head")
        if p.qscale is QScale.MX:
            raise conflict(flag, "--qscale mx", "an MX file holds its scales: FILE:q_scale", f"leave {flag} out")
    if "q_descale" in p.given and kv is not KvDType.SAME and not p.dtype.is_fp8:
        why = f"only the cache is quantised, Q is {p.dtype.value}"
        raise conflict("--q-descale", f"--kv-dtype {kv.value}", why, "leave --q-descale out")
    coded = p.dtype.is_fp8 or p.dtype_out.is_fp8 or kv in (KvDType.FP8_E4M3, KvDType.FP8_E5M2)
    return p.fp8_encoding if coded else Fp8Encoding.OCP  # without fp8 it changes nothing


def _check_passes(p: Draft) -> None:
    if p.dbias and not p.direction.backward:
        raise conflict("--dbias", "--direction fwd", "a gradient needs the backward pass", "--direction bwd")
    if p.dbias and p.bias is Bias.NONE:
        raise lacks("--dbias", "--bias elementwise", "there is no other bias to differentiate")
    if p.direction.backward and p.kv_cache.kind is not CacheKind.NONE:
        raise conflict(f"--direction {p.direction.value}", "--kv-cache", "a KV cache is used for inference only")
