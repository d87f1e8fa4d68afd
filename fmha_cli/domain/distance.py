"""How far one problem is from another: the flags in which they differ, as text and as a distance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import log2
from typing import TYPE_CHECKING

from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.flag_text import flags_of, raw_from_text
from fmha_cli.domain.flags import BY_KEY
from fmha_cli.domain.mask import MaskKind

if TYPE_CHECKING:
    from fmha_cli.domain.problem import Problem

_SIZES = ("hdim",)
"""Sizes that a suggestion states even if they are the defaults."""
_COST: Mapping[str, float] = {
    **dict.fromkeys(("layout", "splits", "seed", "offset"), 1),
    **dict.fromkeys(("lse", "deterministic"), 2),
    **dict.fromkeys(("cache_batch_idx", "rotary_base", "rotary_cos", "rotary_sin"), 2),
    **dict.fromkeys(("batch", "seqlen", "seqlen_k", "cache_seqlens", "cache_leftpad", "append", "rotary"), 3),
    **dict.fromkeys(("hdim", "hdim_v", "heads", "kv_heads", "dbias", "scale"), 4),
    **dict.fromkeys(("softcap", "dropout", "sink", "sink_logits", "seqlens_q", "seqlens_k"), 5),
    **dict.fromkeys(("bias", "alibi", "alibi_slopes", "mask", "causal", "qscale", "fp8_encoding", "mla_rope"), 6),
    **dict.fromkeys(("dtype", "kv_dtype", "kv_cache"), 7),
    "direction": 10,
}
"""How much a problem changes with a flag: storage 1, outputs 2, lengths 3, head dims 4, options 5, kinds 6 and more."""
_SAME_KIND: Mapping[str, float] = {"kv_cache": 1, "bias": 2, "rotary": 3, "mask": 4}
"""The cost where only the part after the colon changes, or only a size: ``paged:100`` to ``paged:128``."""
_TURNED_OFF: Mapping[str, float] = {"rotary": 5, "append": 6, "mask": 7}


def flags_by_key(problem: Problem) -> dict[str, str | bool]:
    """The flags of a problem, by key: the shortest, but every size and type, and the mask under one key."""
    raw = raw_from_text(flags_of(problem))
    if raw.pop("causal", False):
        raw["mask"] = MaskKind.CAUSAL.value
    sizes = {key: str(getattr(problem, key)) for key in _SIZES}
    return {**sizes, "dtype": dtypes_text(problem.dtype, problem.dtype_out), **raw}


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
    """How much one problem differs from another: the number of flags, then their cost."""
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
