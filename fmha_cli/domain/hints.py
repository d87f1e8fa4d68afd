"""The flags that a hint names, and the problem to which they lead.

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
from typing import TYPE_CHECKING

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.flag_text import flags_of, raw_from_text
from fmha_cli.domain.flags import BY_KEY, FlagKind

if TYPE_CHECKING:
    from fmha_cli.domain.problem import Problem

Change = tuple[tuple[str, str | None], ...]
"""Flag keys with their new values, ``on`` for a switch; None drops the flag."""
ON = "on"
"""The value of a switch in a change."""

_STEP = re.compile(
    r"(?:[a-z ]+: )?(?P<drop>drop )?--(?P<flag>[a-z][a-z0-9-]*)(?: (?P<value>[^\s()]+))?(?: or (?:less|more))?"
    r"(?: instead of --(?P<less>[a-z][a-z-]*))?(?: \([^()]*\))?\Z"
)

_ROTARY = ("rotary", "rotary_base", "rotary_cos", "rotary_sin")
_WITHOUT: Mapping[str, tuple[str, ...]] = {
    "kv_cache": ("cache_seqlens", "cache_leftpad", "cache_batch_idx", "block_table", "append", *_ROTARY, "kv_dtype"),
    "append": _ROTARY,
    "rotary": _ROTARY[1:],
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
    "hdim_v": ("mla_rope",),
}
"""Flag -> flags that contradict it once it is on."""
_OFF = (None, "none", "0", "0.0", "fwd")


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
