"""The flags that a hint names, the problem that they lead to, and how far away that problem is.

A hint is the help of a refusal. Where a change of flags would help, it is written as flags::

    --rotary 32
    --dropout 0, or --softcap 0          either one
    --rotary 0 and --kv-cache linear     both
    drop --lse
    --seqlen 5 instead of --seqlens-q
    pad it: --hdim 80                    words before a colon are for people, and so are (words in brackets)

Anything else (``a smaller --batch``) is advice, from which no flags follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import log2
from typing import TYPE_CHECKING

from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.flag_text import flags_of, raw_from_text
from fmha_cli.domain.flags import BY_KEY, FlagKind
from fmha_cli.domain.mask import MaskKind

if TYPE_CHECKING:
    from fmha_cli.domain.problem import Problem

Change = tuple[tuple[str, str | None], ...]
"""Flag keys with their new values, ``on`` for a switch; None drops the flag."""
ON = "on"
"""The value of a switch in a change."""

_STEP = re.compile(
    r"(?:[a-z ]+: )?(?P<drop>drop )?--(?P<flag>[a-z][a-z-]*)(?: (?P<value>[^\s()]+))?(?: or (?:less|more))?"
    r"(?: instead of --(?P<less>[a-z][a-z-]*))?(?: \([^()]*\))?\Z"
)

_WITHOUT: Mapping[str, tuple[str, ...]] = {
    "kv_cache": ("cache_seqlens", "cache_leftpad", "block_table", "append", "rotary"),
    "append": ("rotary",),
    "bias": ("bias_file", "dbias", "alibi", "alibi_slopes"),
    "alibi": ("alibi_slopes",),
    "mask": ("causal",),
    "direction": ("dbias", "deterministic"),
    "dropout": ("seed", "offset"),
    "seqlens_q": ("seqlens_k",),
}
"""Flag -> flags that mean nothing once it is off."""
_WITH: Mapping[str, tuple[str, ...]] = {
    "mask": ("causal",),
    "causal": ("mask",),
    "bias": ("alibi", "alibi_slopes"),
    "alibi": ("bias", "bias_file", "dbias", "alibi_slopes"),
    "seqlens_q": ("batch", "seqlen", "seqlen_k"),
}
"""Flag -> flags that contradict it once it is on."""
_OFF = (None, "none", "0", "0.0", "fwd")

_COST: Mapping[str, float] = {
    **dict.fromkeys(("layout", "splits", "seed", "offset"), 1),
    **dict.fromkeys(("lse", "deterministic"), 2),
    **dict.fromkeys(("batch", "seqlen", "seqlen_k", "cache_seqlens", "cache_leftpad", "append", "rotary"), 3),
    **dict.fromkeys(("hdim", "hdim_v", "heads", "kv_heads", "dbias", "scale"), 4),
    **dict.fromkeys(("softcap", "dropout", "sink", "sink_logits", "seqlens_q", "seqlens_k"), 5),
    **dict.fromkeys(("bias", "alibi", "alibi_slopes", "mask", "causal", "qscale"), 6),
    **dict.fromkeys(("dtype", "kv_cache"), 7),
    "direction": 10,
}
"""How much a problem changes with a flag: storage 1, outputs 2, lengths 3, head dims 4, options 5, kinds 6 and more."""
_SAME_KIND: Mapping[str, float] = {"kv_cache": 1, "bias": 2, "rotary": 3, "mask": 4}
"""The cost where only the part after the colon changes, or only a size: ``paged:100`` to ``paged:128``."""
_SIZES = ("hdim",)
"""Sizes that a suggestion states even if they are the defaults."""
_TURNED_OFF: Mapping[str, float] = {"rotary": 5, "append": 6, "mask": 7}


def changes_in(hint: str | None) -> tuple[Change, ...]:
    """The alternatives that a hint names; empty for advice."""
    found = (_alternative(text) for text in re.split(r",? or (?=--|drop |pad it: )|, or |; ", hint or ""))
    return tuple(change for change in found if change)


def _alternative(text: str) -> Change:
    out: dict[str, str | None] = {}
    for step in text.strip().split(" and "):
        match = _STEP.match(step)
        flag = BY_KEY.get(match["flag"].replace("-", "_")) if match else None
        if match is None or flag is None:
            return ()
        if match["drop"]:
            out[flag.key] = None
        elif match["value"] is None and flag.kind is not FlagKind.SWITCH:
            return ()
        else:
            out[flag.key] = match["value"] or ON
        if match["less"]:
            out[match["less"].replace("-", "_")] = None
    return tuple(sorted(out.items()))


def flags_by_key(problem: Problem) -> dict[str, str | bool]:
    """The flags of a problem, by key: the shortest, but every size and type, and the mask under one key."""
    raw = raw_from_text(flags_of(problem))
    if raw.pop("causal", False):
        raw["mask"] = MaskKind.CAUSAL.value
    sizes = {key: str(getattr(problem, key)) for key in _SIZES}
    return {**sizes, "dtype": dtypes_text(problem.dtype, problem.dtype_out), **raw}


def applied(problem: Problem, change: Change) -> Problem | None:
    """The problem after a change; None if it is impossible or the same.

    Flags that mean nothing after the change, or contradict it, are dropped too. The number of keys stays when the cache
    or the packing goes.
    """
    raw = raw_from_text(flags_of(problem))
    for key, value in change:
        off = value in _OFF or (key == "bias" and value == "alibi")
        for other in _WITHOUT.get(key, ()) if off else _WITH.get(key, ()):
            raw.pop(other, None)
        raw.pop(key, None)
        if value is not None:
            raw[key] = True if value == ON else value
    _keep_lengths(problem, raw, {key for key, _ in change})
    try:
        other_problem = type(problem).of(**raw)
    except ImpossibleProblem:
        return None
    return None if other_problem == problem else other_problem


def _keep_lengths(problem: Problem, raw: dict[str, str | bool], changed: set[str]) -> None:
    """Give the lengths that the old flags stated in another way."""
    cached, group = raw.get("kv_cache", "none") != "none", "seqlens_q" in raw
    if problem.seqlens_q is not None and not group:
        raw.setdefault("batch", str(problem.batch))
        raw.setdefault("seqlen", str(max(problem.seqlen_q, 1)))
    if cached or not changed & {"kv_cache", "seqlens_q"}:
        return
    if not group:
        raw.setdefault("seqlen_k", str(problem.seqlen_k))
    elif problem.seqlen_k != problem.seqlen_q or "kv_cache" in changed:
        raw.setdefault("seqlens_k", ",".join(map(str, problem.key_lengths())))


def change_text(before: Problem, after: Problem) -> str:
    """``--kv-cache paged:128``, ``no --lse and --hdim 80``: the flags that differ between two problems."""
    causal = flags_by_key(before).get("mask") == MaskKind.CAUSAL.value
    parts = ["no --causal"] if causal and before.mask != after.mask else []
    for key, value in difference(before, after).items():
        flag = f"--{BY_KEY[key].name}"
        text = f"no {flag}" if value is None else flag if value is True else f"{flag} {value}"
        parts += [text] if text != "no --mask" or not causal else []
    return " and ".join(parts)


def difference(before: Problem, after: Problem) -> dict[str, str | bool | None]:
    """The flags that differ between two problems, with the values of the second, None where it lacks the flag."""
    old, new = flags_by_key(before), flags_by_key(after)
    return {key: new.get(key) for key in BY_KEY if old.get(key) != new.get(key)}


def distance(before: Problem, after: Problem) -> tuple[int, float]:
    """How much one problem differs from another: the number of flags, then what they cost."""
    old, new = flags_by_key(before), flags_by_key(after)
    keys = difference(before, after)
    return len(keys), sum(_cost(key, old.get(key), new.get(key)) for key in keys)


def _cost(key: str, old: str | bool | None, new: str | bool | None) -> float:
    if not isinstance(old, str) or not isinstance(new, str):
        return _TURNED_OFF.get(key, _COST.get(key, 6)) if new is None else _COST.get(key, 6)
    kinds = [re.split(r"[:\-]", text, maxsplit=1)[0] for text in (old, new)]
    same = kinds[0] == kinds[1] or key == "rotary" or (key == "mask" and ":" in old and ":" in new)
    return ((_SAME_KIND.get(key) if same else None) or _COST.get(key, 6)) + _ratio(old, new)


def _ratio(old: str, new: str) -> float:
    """How far apart two sizes are, below 1; the last number of each text counts."""
    sizes = [re.findall(r"\d+", text) for text in (old, new)]
    if not all(sizes):
        return 0.0
    a, b = (max(int(numbers[-1]), 1) for numbers in sizes)
    return min(abs(log2(a / b)) / 20, 0.9)
