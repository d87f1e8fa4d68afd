"""Resolves flags to the canonical fields of a ``Problem``; refuses impossible problems with the rule and the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from struct import pack, unpack
from typing import Any, TypeVar

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType, parse_dtypes
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import (
    Alibi,
    Bias,
    CacheKind,
    Direction,
    KvCache,
    Layout,
    QScale,
    Rotary,
    RotaryStyle,
)
from fmha_cli.domain.flags import BY_KEY, FILLED, FlagKind, parse_list, parse_number, parse_size
from fmha_cli.domain.mask import Align, Mask, parse_mask
from fmha_cli.domain.suggest import Kind, suggest

E = TypeVar("E", bound=StrEnum)
LARGEST = 2**31 - 1
"""The largest size: kernels take sizes as 32-bit integers."""

LARGEST_BATCH = 2**20
"""The most sequences; their lengths are listed one by one."""

_DIVISORS = 1024
"""Numbers of key/value heads up to this one are suggested."""

RawFlags = Mapping[str, str | bool | int | float]
"""Only the flags that were given: flag key -> text (or True for a switch)."""


def impossible(code: str, what: str, where: str, why: str, help: str | None = None) -> ImpossibleProblem:
    """The error for a problem that is undefined or contradicts itself."""
    return ImpossibleProblem(what, code=code, where=where, why=why, help=help)


def resolve_fields(raw: RawFlags) -> dict[str, Any]:
    """The keyword arguments of ``Problem`` for the given flags, with defaults applied and equal problems made equal.

    Raises:
        ImpossibleProblem: P001-P018, P020, naming the rule and the values.
    """
    given = _read(raw)
    out: dict[str, Any] = {}
    out["dtype"], out["dtype_out"] = parse_dtypes(given.get("dtype", "fp16"))
    _sizes(given, out)
    _lengths(given, out)
    _mask(given, out)
    _bias(given, out)
    _numbers(given, out)
    _rest(given, out)
    _quantised(given, out)
    _passes(given, out)
    return out


def _read(raw: RawFlags) -> dict[str, Any]:
    """The given values, each read by its flag's kind."""
    readers: dict[FlagKind, Callable[[str, str], Any]] = {
        FlagKind.SIZE: parse_size,
        FlagKind.NUMBER: parse_number,
        FlagKind.LIST: parse_list,
    }
    given: dict[str, Any] = {}
    for key, value in raw.items():
        flag = BY_KEY.get(key)
        if flag is None:
            help = suggest(key, BY_KEY, otherwise="`fmha run --help` lists the problem flags")
            raise impossible(
                "P004", f"{key}: no such problem flag", f"--{key}", "a problem is given by its flags", help
            )
        if flag.kind is FlagKind.SWITCH:
            given.update({key: True} if value else {})
        else:
            text = repr(value) if isinstance(value, float) else str(value)
            read = readers.get(flag.kind)
            given[key] = read(text, f"--{flag.name}") if read else text
            _at_most(flag.name, given[key] if flag.kind in (FlagKind.SIZE, FlagKind.LIST) else 0)
    return given


def _at_most(name: str, value: Any) -> None:
    """Refuse sizes beyond the limits, before anything of that length is made. Seeds and offsets have 64 bits."""
    high = LARGEST_BATCH if name == "batch" else LARGEST
    numbers = value if isinstance(value, tuple) else (value,)
    if name not in ("seed", "offset") and any(isinstance(n, int) and n > high for n in numbers):
        shown = next(n for n in numbers if n > high)
        raise impossible(
            "P017", f"--{name} {shown}", f"--{name}", f"{name} can be at most {high}", f"--{name} {high} or less"
        )


def _at_least(low: int, values: Mapping[str, int]) -> None:
    for name, value in values.items():
        if value < low:
            why, one = f"{name} must be at least {low}", f"--{name}{':' if name == 'kv-cache paged' else ' '}{low}"
            raise impossible("P005", f"--{name} {value}", f"--{name}", why, f"{one} or more")


def _sizes(given: dict[str, Any], out: dict[str, Any]) -> None:
    heads = out["heads"] = given.get("heads", 8)
    kv_heads = out["kv_heads"] = given.get("kv_heads", heads)
    out["hdim"] = given.get("hdim", 128)
    out["mla_rope"] = given.get("mla_rope", 0)
    _at_least(0, {"mla-rope": out["mla_rope"]})
    out["hdim_v"] = given.get("hdim_v", out["hdim"] - out["mla_rope"])
    if out["mla_rope"]:
        _values_in_keys(given, out)
    _at_least(1, {"heads": heads, "kv-heads": kv_heads, "hdim": out["hdim"], "hdim-v": out["hdim_v"]})
    if heads % kv_heads:
        divisors = ", ".join(str(n) for n in range(1, min(heads, _DIVISORS) + 1) if heads % n == 0)
        raise impossible(
            "P006",
            f"--heads {heads} is not a multiple of --kv-heads {kv_heads}",
            "--kv-heads",
            "every key/value head serves the same number of query heads",
            f"--kv-heads one of {divisors}" + (", ..." if heads > _DIVISORS else ""),
        )


def _values_in_keys(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Refuse what contradicts a V that is the first columns of K."""
    rope, hdim = out["mla_rope"], out["hdim"]
    if rope >= hdim:
        help = f"--mla-rope {hdim - 1} or less" if hdim > 1 else "--mla-rope 0, or a larger --hdim"
        raise impossible(
            "P018", f"--mla-rope {rope}", "--mla-rope", f"V = the first {hdim} - {rope} columns of K", help
        )
    if out["hdim_v"] != hdim - rope:
        raise _conflict(f"--mla-rope {rope}", f"--hdim-v {out['hdim_v']}", f"V = the first {hdim - rope} columns of K")
    if "v_descale" in given:
        raise _conflict(f"--mla-rope {rope}", "--v-descale", "V is a part of K and has K's scales")


def _conflict(first: str, second: str, why: str, help: str = "leave one of them out") -> ImpossibleProblem:
    return impossible("P007", f"{first} and {second} contradict each other", second, why, help)


def _lacks(flag: str, other: str, why: str) -> ImpossibleProblem:
    ways = {
        "--kv-cache": "--kv-cache linear or paged:128",
        "--append": "--append N",
        "--seqlens-q": "--seqlens-q N,N...",
    }
    return impossible("P007", f"{flag} needs {other}", flag, why, f"add {ways.get(other, other)}, or leave {flag} out")


def _lengths(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Batch, lengths, group mode and the KV cache."""
    _cache_storage(given, out)
    seqlens_q, seqlens_k = given.get("seqlens_q"), given.get("seqlens_k")
    if seqlens_k is not None and seqlens_q is None:
        raise _lacks("--seqlens-k", "--seqlens-q", "packed keys need packed queries")
    if seqlens_q is not None:
        for flag in ("seqlen", "seqlen_k"):
            if flag in given:
                raise _conflict(
                    "--seqlens-q", f"--{flag.replace('_', '-')}", "a list gives the length of every sequence"
                )
        if given.get("batch", len(seqlens_q)) != len(seqlens_q):
            raise _conflict(
                f"--seqlens-q of {len(seqlens_q)}", f"--batch {given['batch']}", "batch = length of the list"
            )
    batch = out["batch"] = given.get("batch", 1 if seqlens_q is None else len(seqlens_q))
    _at_least(1, {"batch": batch})
    cached = out["kv_cache"].kind is not CacheKind.NONE
    if cached and seqlens_k is not None:
        raise _conflict("--kv-cache", "--seqlens-k", "with a cache, --cache-seqlens gives the key lengths")
    if seqlens_q is not None:
        _at_least(0, {"seqlens-q": min(seqlens_q)})
    if seqlens_q is not None and not cached:
        seqlens_k = seqlens_q if seqlens_k is None else seqlens_k
        if len(seqlens_k) != len(seqlens_q):
            several = f"--seqlens-q of {len(seqlens_q)}", f"--seqlens-k of {len(seqlens_k)}"
            raise _conflict(*several, "one length each", "give both lists the same number of lengths")
        _at_least(0, {"seqlens-k": min(seqlens_k)})
    out["seqlens_q"], out["seqlens_k"] = seqlens_q, seqlens_k
    out["seqlen_q"] = given.get("seqlen", 1024) if seqlens_q is None else max(seqlens_q)
    if seqlens_q is None:
        _at_least(1, {"seqlen": out["seqlen_q"]})
    out["cache_seqlens"] = _cache_lengths(given, out, batch) if cached else None
    out["cache_leftpad"] = _leftpads(given, batch)
    if cached:
        out["seqlen_k"] = max(out["cache_seqlens"]) + out["append"]
    elif seqlens_k is not None:
        out["seqlen_k"] = max(seqlens_k)
    else:
        out["seqlen_k"] = given.get("seqlen_k", out["seqlen_q"])
    _at_least(0, {"seqlen-k": out["seqlen_k"]})


def _cache_storage(given: dict[str, Any], out: dict[str, Any]) -> None:
    text = given.get("kv_cache", "none")
    word, _, page = text.partition(":")
    known = word in CacheKind._value2member_map_
    if not known or (word == "paged") != bool(page):
        example = f"--kv-cache paged:{page or 128}" if word.startswith("pag") else "e.g. --kv-cache linear or paged:128"
        raise impossible("P008", f"--kv-cache {text}", "--kv-cache", "none, linear or paged:PAGE", example)
    size = parse_size(page, "--kv-cache paged") if page else 0
    if page:
        _at_least(1, {"kv-cache paged": size})
    out["kv_cache"] = KvCache(CacheKind(word), size)
    out["append"] = given.get("append", 0)
    _at_least(0, {"append": out["append"]})
    out["rotary"] = _rotary(given.get("rotary", "0"), out["hdim"])
    if word == "none":
        for flag in ("cache_seqlens", "append", "rotary"):
            if given.get(flag):
                raise _lacks(f"--{flag.replace('_', '-')}", "--kv-cache", "it describes a KV cache")
    if any(given.get("cache_leftpad", ())) and word != "linear":
        why = "padding rows are in front of the keys of a linear cache"
        if word == "none":
            raise _lacks("--cache-leftpad", "--kv-cache linear", why)
        raise _conflict("--cache-leftpad", f"--kv-cache {text}", why, "--kv-cache linear, or leave --cache-leftpad out")
    if out["rotary"].dim and not out["append"]:
        raise _lacks("--rotary", "--append", "rotary embedding is applied only while keys are appended")
    if "block_table" in given and word != "paged":
        help = "--kv-cache paged:PAGE, or leave --block-table out"
        raise _conflict("--block-table", f"--kv-cache {word}", "only a paged cache has a block table", help)


def _cache_lengths(given: dict[str, Any], out: dict[str, Any], batch: int) -> tuple[int, ...]:
    lengths: tuple[int, ...] | None = given.get("cache_seqlens")
    total: int | None = given.get("seqlen_k")
    if lengths is None:
        lengths = ((total if total is not None else out["seqlen_q"]) - out["append"],)
    lengths = _per_sequence("cache-seqlens", lengths, batch)
    if total is not None and max(lengths) + out["append"] != total:
        raise _conflict("--cache-seqlens + --append", f"--seqlen-k {total}", "seqlen_k = cache + append")
    return lengths


def _leftpads(given: dict[str, Any], batch: int) -> tuple[int, ...] | None:
    """Padding rows of each sequence; None if there are none."""
    padding = _per_sequence("cache-leftpad", given.get("cache_leftpad", (0,)), batch)
    return padding if any(padding) else None


def _per_sequence(flag: str, values: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """One number for each sequence; a single number applies to all."""
    if len(values) not in (1, batch):
        why, help = "one number, or one for each sequence", f"give --{flag} one number or {batch} of them"
        raise _conflict(f"--{flag} of {len(values)}", f"--batch {batch}", why, help)
    _at_least(0, {flag: min(values)})
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


def _mask(given: dict[str, Any], out: dict[str, Any]) -> None:
    mask, sink_in_mask = parse_mask(given["mask"]) if "mask" in given else (Mask(), None)
    if given.get("causal"):
        if "mask" in given and mask != Mask(right=0):
            raise _conflict("--causal", f"--mask {given['mask']}", "--causal means --mask causal")
        mask = Mask(right=0)
    if "window" in given:
        mask = _window(given, mask)
    sink = given.get("sink")
    if sink is not None and sink_in_mask is not None and sink != sink_in_mask:
        raise _conflict(f"--sink {sink}", f"--mask {given['mask']}", "the mask's third number is --sink")
    sink = sink if sink is not None else sink_in_mask or 0
    _at_least(0, {"sink": sink})
    out["mask"] = mask
    out["sink"] = sink if mask.left is not None else 0  # without a left bound a sink changes nothing
    out["sink_logits"] = "sink_logits" in given


def _window(given: dict[str, Any], mask: Mask) -> Mask:
    """The mask of ``--window``, which no other mask may contradict."""
    size = given["window"]
    _at_least(0, {"window": size})
    window = Mask.make(Align.BOTTOM_RIGHT, size, 0)
    other = "--causal" if given.get("causal") else f"--mask {given.get('mask')}"
    if mask != window and ("mask" in given or given.get("causal")):
        why = f"--window {size} means --mask {window.text()}, which hides the keys to the right too"
        raise _conflict(other, f"--window {size}", why)
    return window


def _bias(given: dict[str, Any], out: dict[str, Any]) -> None:
    word, _, rank = given.get("bias", "none").partition(":")
    alibi = bool(given.get("alibi")) or word == "alibi"
    if word not in ("none", "alibi", "elementwise") or (
        rank and (word != "elementwise" or rank not in Bias._value2member_map_)
    ):
        text = given["bias"]
        known = (
            "none",
            "alibi",
            "elementwise",
            *(f"elementwise:{rank.value}" for rank in Bias if rank is not Bias.NONE),
        )
        help = suggest(text, known, otherwise="e.g. --bias elementwise")
        raise impossible("P010", f"--bias {text}", "--bias", "none, alibi, or elementwise[:11ss|1hss|bhss]", help)
    out["bias"] = Bias(rank or "11ss") if word == "elementwise" else Bias.NONE
    if "bias_file" in given and out["bias"] is Bias.NONE:
        if word == "alibi" or "bias" in given:
            raise _conflict("--bias-file", f"--bias {word}", "a bias file holds an elementwise bias")
        out["bias"] = Bias.R11SS
    slopes = given.get("alibi_slopes")
    if (alibi or slopes) and out["bias"] is not Bias.NONE:
        raise _conflict("--alibi", "--bias elementwise", "a problem has one bias")
    if slopes is not None:
        rank = slopes.partition(":")[2] if slopes.startswith(FILLED) else ""
        out["alibi"] = Alibi.BATCH_HEADS if rank == "bh" else Alibi.HEADS
    else:
        out["alibi"] = Alibi.STANDARD if alibi else Alibi.NONE


def _numbers(given: dict[str, Any], out: dict[str, Any]) -> None:
    softcap, dropout = given.get("softcap", 0.0), given.get("dropout", 0.0)
    if softcap < 0:
        raise impossible(
            "P011", f"--softcap {softcap}", "--softcap", "the cap is 0 (off) or positive", "e.g. --softcap 30"
        )
    if not 0 <= dropout < 1:
        raise impossible(
            "P012", f"--dropout {dropout}", "--dropout", "a probability p with 0 <= p < 1", "e.g. --dropout 0.1"
        )
    out["softcap"], out["dropout"] = softcap, dropout
    for name in ("seed", "offset"):
        value = given.get(name, 0)
        if not 0 <= value < 2**64:
            raise impossible(
                "P013", f"--{name} {value}", f"--{name}", "an unsigned 64-bit integer", f"--{name} 0 to {2**64 - 1}"
            )
        out[name] = value if dropout else 0
    out["scale"] = given.get("scale", out["hdim"] ** -0.5)
    _single_precision("scale", out["scale"])
    _single_precision("softcap", softcap)
    if softcap and not _float32(softcap):
        raise impossible(
            "P020",
            f"--softcap {softcap}",
            "--softcap",
            "a cap that is 0 as a 32-bit float caps nothing",
            "--softcap 0 is none",
        )


def _float32(value: float) -> float:
    return float(unpack("<f", pack("<f", value))[0])


def _single_precision(name: str, value: float) -> None:
    """Refuse a scalar that no kernel can be given: all of them take 32-bit floats."""
    try:
        _float32(value)
    except OverflowError as fault:
        raise impossible(
            "P020", f"--{name} {value}", f"--{name}", "kernels take it as a 32-bit float", "at most 3.4e38"
        ) from fault


def _choice(kind: type[E], text: str, flag: str) -> E:
    if text not in kind._value2member_map_:
        known = ", ".join(m.value for m in kind)
        spoken = Kind(flag) if flag in Kind._value2member_map_ else None
        near = suggest(text, kind, spoken, otherwise=f"--{flag} {next(iter(kind)).value}")
        raise impossible("P014", f"--{flag} {text}", f"--{flag}", f"one of {known}", near)
    return kind(text)


def _rest(given: dict[str, Any], out: dict[str, Any]) -> None:
    out["lse"] = bool(given.get("lse"))
    text = given.get("layout", "bhsd")
    first, _, second = text.partition(":")
    out["layout"] = _choice(Layout, first, "layout")
    out["layout_out"] = _choice(Layout, second or first, "layout")
    splits = given.get("splits", "auto")
    out["splits"] = 0 if splits == "auto" else parse_size(splits, "--splits")
    if splits != "auto":
        _at_most("splits", out["splits"])
        _at_least(1, {"splits": out["splits"]})


def _quantised(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Element type of the cache, encoding of fp8, scales."""
    dtype: DType = out["dtype"]
    text = given.get("kv_dtype", KvDType.SAME.value)
    kv = out["kv_dtype"] = KvDType.SAME if text == dtype.value else _choice(KvDType, text, "kv-dtype")
    if kv is not KvDType.SAME and out["kv_cache"].kind is CacheKind.NONE:
        raise _lacks(f"--kv-dtype {text}", "--kv-cache", "it describes a KV cache")
    encoding = _choice(Fp8Encoding, given.get("fp8_encoding", "ocp"), "fp8-encoding")
    coded = dtype.is_fp8 or out["dtype_out"].is_fp8 or kv in (KvDType.FP8_E4M3, KvDType.FP8_E5M2)
    out["fp8_encoding"] = encoding if coded else Fp8Encoding.OCP  # without fp8 it changes nothing
    default = QScale.MX if dtype.is_mx else QScale.NONE
    scales = out["qscale"] = _choice(QScale, given.get("qscale", default.value), "qscale")
    if (scales is QScale.MX) is not dtype.is_mx:
        why = "MX types have one scale for every 32 elements, and no other type has"
        raise _conflict(
            f"--dtype {dtype.value}", f"--qscale {scales.value}", why, "leave --qscale out, or choose another --dtype"
        )
    for flag in ("q_descale", "k_descale", "v_descale"):
        if flag in given and scales is QScale.NONE:
            raise _conflict(
                f"--{flag.replace('_', '-')}",
                "--qscale none",
                "scales need a granularity",
                "--qscale tensor, block or head",
            )
        if flag in given and scales is QScale.MX:
            raise _conflict(
                f"--{flag.replace('_', '-')}",
                "--qscale mx",
                "an MX file holds its scales: FILE:q_scale",
                f"leave --{flag.replace('_', '-')} out",
            )
    if "q_descale" in given and kv is not KvDType.SAME and not dtype.is_fp8:
        why = f"only the cache is quantised, Q is {dtype.value}"
        raise _conflict("--q-descale", f"--kv-dtype {text}", why, "leave --q-descale out")


def _passes(given: dict[str, Any], out: dict[str, Any]) -> None:
    direction = out["direction"] = _choice(Direction, given.get("direction", "fwd"), "direction")
    out["deterministic"] = bool(given.get("deterministic"))
    out["dbias"] = bool(given.get("dbias"))
    if out["dbias"] and not direction.backward:
        raise _conflict("--dbias", "--direction fwd", "a gradient needs the backward pass", "--direction bwd")
    if out["dbias"] and out["bias"] is Bias.NONE:
        raise _lacks("--dbias", "--bias elementwise", "there is no other bias to differentiate")
    if direction.backward and out["kv_cache"].kind is not CacheKind.NONE:
        raise _conflict(f"--direction {direction.value}", "--kv-cache", "a KV cache is used for inference only")
