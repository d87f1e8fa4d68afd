"""Resolves flags to the canonical fields of a ``Problem``; refuses impossible problems with the rule and the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from struct import pack, unpack
from typing import Any, TypeVar

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType, parse_dtypes
from fmha_cli.domain.features import (
    Alibi,
    Bias,
    CacheKind,
    Direction,
    Layout,
    QScale,
)
from fmha_cli.domain.flags import BY_KEY, FlagKind, asks_fill, parse_list, parse_number, parse_size
from fmha_cli.domain.impossible import at_least, at_most, conflict, impossible, lacks
from fmha_cli.domain.mask import Align, Mask, parse_mask
from fmha_cli.domain.resolve_cache import cache_items, cache_lengths, cache_storage, check_positions, leftpads
from fmha_cli.domain.suggest import NameKind, suggest

E = TypeVar("E", bound=StrEnum)
_BIAS_WORDS = "none, alibi, or elementwise[:RANK] with a RANK of 11ss 1hss bhss b1ss 111s b11s 1h1s bh1s"
_DIVISORS = 1024
"""Numbers of key/value heads up to this one are suggested."""

RawFlags = Mapping[str, str | bool | int | float]
"""Only the flags that were given: flag key -> text (or True for a switch)."""


def resolve_fields(raw: RawFlags) -> dict[str, Any]:
    """The keyword arguments of ``Problem`` for the given flags, with defaults applied and equal problems made equal.

    Raises:
        ImpossibleProblem: P001-P018, P020, P022, P023, naming the rule and the values.
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
    _refuse_files(given)
    return out


def _refuse_files(given: dict[str, Any]) -> None:
    """A problem has shapes and no tensors: a file that it named would never be read."""
    for key, value in given.items():
        if BY_KEY[key].kind is FlagKind.FILE and not asks_fill(key, value):
            flag = f"--{BY_KEY[key].name}"
            why = "a problem says which tensors there are, and holds none of them"
            help = f"{flag} filled; the tensor itself goes to the command, or to tensors= of fmha_cli.api.run"
            raise impossible("P023", f"{flag} {_short(value)} in a problem", flag, why, help)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."


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
            help = suggest(key, BY_KEY, NameKind.OPTION, otherwise="`fmha run --help` lists the problem flags")
            raise impossible(
                "P004", f"{key}: no such problem flag", f"--{key}", "a problem is given by its flags", help
            )
        if flag.kind is FlagKind.SWITCH:
            given.update({key: True} if value else {})
        else:
            text = repr(value) if isinstance(value, float) else str(value)
            read = readers.get(flag.kind)
            given[key] = read(text, f"--{flag.name}") if read else text
            at_most(flag.name, given[key] if flag.kind in (FlagKind.SIZE, FlagKind.LIST) else 0)
    return given


def _sizes(given: dict[str, Any], out: dict[str, Any]) -> None:
    heads = out["heads"] = given.get("heads", 8)
    kv_heads = out["kv_heads"] = given.get("kv_heads", heads)
    out["hdim"] = given.get("hdim", 128)
    out["mla_rope"] = given.get("mla_rope", 0)
    at_least(0, {"mla-rope": out["mla_rope"]})
    out["hdim_v"] = given.get("hdim_v", out["hdim"] - out["mla_rope"])
    if out["mla_rope"]:
        _values_in_keys(given, out)
    at_least(1, {"heads": heads, "kv-heads": kv_heads, "hdim": out["hdim"], "hdim-v": out["hdim_v"]})
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
        raise conflict(f"--mla-rope {rope}", f"--hdim-v {out['hdim_v']}", f"V = the first {hdim - rope} columns of K")
    if "v_descale" in given:
        raise conflict(f"--mla-rope {rope}", "--v-descale", "V is a part of K and has K's scales")


def _lengths(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Batch, lengths, group mode and the KV cache."""
    cache_storage(given, out)
    seqlens_q, seqlens_k = given.get("seqlens_q"), given.get("seqlens_k")
    if seqlens_k is not None and seqlens_q is None:
        raise lacks("--seqlens-k", "--seqlens-q", "packed keys need packed queries")
    if seqlens_q is not None:
        for flag in ("seqlen", "seqlen_k"):
            if flag in given:
                raise conflict(
                    "--seqlens-q", f"--{flag.replace('_', '-')}", "a list gives the length of every sequence"
                )
        if given.get("batch", len(seqlens_q)) != len(seqlens_q):
            raise conflict(
                f"--seqlens-q of {len(seqlens_q)}", f"--batch {given['batch']}", "batch = length of the list"
            )
    batch = out["batch"] = given.get("batch", 1 if seqlens_q is None else len(seqlens_q))
    at_least(1, {"batch": batch})
    cached = out["kv_cache"].kind is not CacheKind.NONE
    if cached and seqlens_k is not None:
        raise conflict("--kv-cache", "--seqlens-k", "with a cache, --cache-seqlens gives the key lengths")
    if seqlens_q is not None:
        at_least(0, {"seqlens-q": min(seqlens_q)})
    if seqlens_q is not None and not cached:
        seqlens_k = seqlens_q if seqlens_k is None else seqlens_k
        if len(seqlens_k) != len(seqlens_q):
            several = f"--seqlens-q of {len(seqlens_q)}", f"--seqlens-k of {len(seqlens_k)}"
            raise conflict(*several, "one length each", "give both lists the same number of lengths")
        at_least(0, {"seqlens-k": min(seqlens_k)})
    out["seqlens_q"], out["seqlens_k"] = seqlens_q, seqlens_k
    out["seqlen_q"] = given.get("seqlen", 1024) if seqlens_q is None else max(seqlens_q)
    if seqlens_q is None:
        at_least(1, {"seqlen": out["seqlen_q"]})
    out["cache_seqlens"] = cache_lengths(given, out, batch) if cached else None
    out["cache_leftpad"] = leftpads(given, batch)
    out["cache_batch_idx"] = cache_items(given, out)
    if cached:
        out["seqlen_k"] = max(out["cache_seqlens"]) + out["append"]
    elif seqlens_k is not None:
        out["seqlen_k"] = max(seqlens_k)
    else:
        out["seqlen_k"] = given.get("seqlen_k", out["seqlen_q"])
    at_least(0, {"seqlen-k": out["seqlen_k"]})
    check_positions(out)


def _mask(given: dict[str, Any], out: dict[str, Any]) -> None:
    mask, sink_in_mask = parse_mask(given["mask"]) if "mask" in given else (Mask(), None)
    if given.get("causal"):
        if "mask" in given and mask != Mask(right=0):
            raise conflict("--causal", f"--mask {given['mask']}", "--causal means --mask causal")
        mask = Mask(right=0)
    if "window" in given:
        mask = _window(given, mask)
    sink = given.get("sink")
    if sink is not None and sink_in_mask is not None and sink != sink_in_mask:
        raise conflict(f"--sink {sink}", f"--mask {given['mask']}", "the mask's third number is --sink")
    sink = sink if sink is not None else sink_in_mask or 0
    at_least(0, {"sink": sink})
    out["mask"] = mask
    out["sink"] = sink if mask.left is not None else 0  # without a left bound a sink changes nothing
    out["sink_logits"] = "sink_logits" in given


def _window(given: dict[str, Any], mask: Mask) -> Mask:
    """The mask of ``--window``, which no other mask may contradict."""
    size = given["window"]
    at_least(0, {"window": size})
    window = Mask.make(Align.BOTTOM_RIGHT, size, 0)
    other = "--causal" if given.get("causal") else f"--mask {given.get('mask')}"
    if mask != window and ("mask" in given or given.get("causal")):
        why = f"--window {size} means --mask {window.text()}, which hides the keys to the right too"
        raise conflict(other, f"--window {size}", why)
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
        raise impossible("P010", f"--bias {text}", "--bias", _BIAS_WORDS, help)
    out["bias"] = Bias(rank or "11ss") if word == "elementwise" else Bias.NONE
    if "bias_file" in given and out["bias"] is Bias.NONE:
        if word == "alibi" or "bias" in given:
            raise conflict("--bias-file", f"--bias {word}", "a bias file holds an elementwise bias")
        out["bias"] = Bias.R11SS
    slopes = given.get("alibi_slopes")
    if (alibi or slopes) and out["bias"] is not Bias.NONE:
        raise conflict("--alibi", "--bias elementwise", "a problem has one bias")
    if slopes is not None:
        out["alibi"] = Alibi.BATCH_HEADS if slopes.partition(":")[2] == "bh" else Alibi.HEADS
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
        spoken = NameKind(flag) if flag in NameKind._value2member_map_ else None
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
        at_most("splits", out["splits"])
        at_least(1, {"splits": out["splits"]})


def _quantised(given: dict[str, Any], out: dict[str, Any]) -> None:
    """Element type of the cache, encoding of fp8, scales."""
    dtype: DType = out["dtype"]
    text = given.get("kv_dtype", KvDType.SAME.value)
    kv = out["kv_dtype"] = KvDType.SAME if text == dtype.value else _choice(KvDType, text, "kv-dtype")
    if kv is not KvDType.SAME and out["kv_cache"].kind is CacheKind.NONE:
        raise lacks(f"--kv-dtype {text}", "--kv-cache", "it describes a KV cache")
    encoding = _choice(Fp8Encoding, given.get("fp8_encoding", "ocp"), "fp8-encoding")
    coded = dtype.is_fp8 or out["dtype_out"].is_fp8 or kv in (KvDType.FP8_E4M3, KvDType.FP8_E5M2)
    out["fp8_encoding"] = encoding if coded else Fp8Encoding.OCP  # without fp8 it changes nothing
    default = QScale.MX if dtype.is_mx else QScale.NONE
    scales = out["qscale"] = _choice(QScale, given.get("qscale", default.value), "qscale")
    if (scales is QScale.MX) is not dtype.is_mx:
        why = "MX types have one scale for every 32 elements, and no other type has"
        raise conflict(
            f"--dtype {dtype.value}", f"--qscale {scales.value}", why, "leave --qscale out, or choose another --dtype"
        )
    for flag in ("q_descale", "k_descale", "v_descale"):
        if flag in given and scales is QScale.NONE:
            raise conflict(
                f"--{flag.replace('_', '-')}",
                "--qscale none",
                "scales need a granularity",
                "--qscale tensor, block or head",
            )
        if flag in given and scales is QScale.MX:
            raise conflict(
                f"--{flag.replace('_', '-')}",
                "--qscale mx",
                "an MX file holds its scales: FILE:q_scale",
                f"leave --{flag.replace('_', '-')} out",
            )
    if "q_descale" in given and kv is not KvDType.SAME and not dtype.is_fp8:
        why = f"only the cache is quantised, Q is {dtype.value}"
        raise conflict("--q-descale", f"--kv-dtype {text}", why, "leave --q-descale out")


def _passes(given: dict[str, Any], out: dict[str, Any]) -> None:
    direction = out["direction"] = _choice(Direction, given.get("direction", "fwd"), "direction")
    out["deterministic"] = bool(given.get("deterministic"))
    out["dbias"] = bool(given.get("dbias"))
    if out["dbias"] and not direction.backward:
        raise conflict("--dbias", "--direction fwd", "a gradient needs the backward pass", "--direction bwd")
    if out["dbias"] and out["bias"] is Bias.NONE:
        raise lacks("--dbias", "--bias elementwise", "there is no other bias to differentiate")
    if direction.backward and out["kv_cache"].kind is not CacheKind.NONE:
        raise conflict(f"--direction {direction.value}", "--kv-cache", "a KV cache is used for inference only")
