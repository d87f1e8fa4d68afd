"""The smallest changes of a refused problem's flags with which some kernel would serve it.

The changes to try come from the hints of the reasons, and from the options that a problem can do without. Whether it
works is never inferred: the backends are asked about every changed problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, islice, product
from math import log2

from fmha_cli.domain.decision import Trace
from fmha_cli.domain.dtypes import dtypes_text
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.fields import BY_KEY, FIELDS, flags_in
from fmha_cli.domain.flags import FlagKind
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason

ASKS = 80
"""The most problems that are put to the backends again. One answer takes about 30 ms for 6,000 candidates."""
MORE = 8
"""The most problems that are tried after the first that works."""
SHOWN = 3
"""The most changes that are reported."""
_MOST_REASONS = 4
"""A kernel with more reasons against it is not brought within reach by two flags."""
_MOST_PAIRS = 400

_SPARED = sorted((field for field in FIELDS if field.spare), key=lambda field: field.spare)
_DTYPES = ("fp16", "bf16", "fp32")


def nearest_changes(
    problem: Problem, trace: Trace, serves: Callable[[Problem], bool], *, asks: int = ASKS
) -> tuple[str, ...]:
    """Changes of the flags with which some kernel serves the problem, the smallest first; empty if none was found.

    Changes of one flag come before changes of two. If a change of one flag works, changes of two are not reported.

    Args:
        trace: the refusals of the problem.
        serves: whether some kernel serves a problem.
        asks: the most calls of ``serves``.
    """
    found: dict[frozenset[str], Problem] = {}
    left = asks
    for other in _ordered(problem, trace):
        flags = frozenset(difference(problem, other))
        if not left or len(found) == SHOWN or (found and len(flags) > len(next(iter(found)))):
            break
        if flags in found:  # a nearer value of the same flags works
            continue
        left -= 1
        if serves(other):
            left = left if found else min(left, MORE)
            found[flags] = other
    return tuple(change_text(problem, other) for other in found.values())


def _ordered(problem: Problem, trace: Trace) -> Iterator[Problem]:
    """Changed problems, the nearest first."""
    wholes = _reason_sets(trace)
    singles = _distinct(problem, (*_single_hints(wholes), *_sizes(problem, trace), *_options(problem)))
    yield from _by_distance(problem, singles)
    together = (change for reasons in wholes for change in _for_all(reasons))
    pairs = (tuple(sorted(dict(a + b).items())) for a, b in combinations(singles.values(), 2))
    both = _distinct(problem, (*islice(together, _MOST_PAIRS), *islice(pairs, _MOST_PAIRS)))
    yield from _by_distance(problem, {other: change for other, change in both.items() if other not in singles})


def _by_distance(problem: Problem, others: Iterable[Problem]) -> list[Problem]:
    return sorted(others, key=lambda other: distance(problem, other))


def _distinct(problem: Problem, changes: Iterable[Change]) -> dict[Problem, Change]:
    """The problems to which changes lead, each with the first change that leads there."""
    out: dict[Problem, Change] = {}
    for change in dict.fromkeys(changes):
        other = applied(problem, change)
        if other is not None:
            out.setdefault(other, change)
    return out


def _reason_sets(trace: Trace) -> list[tuple[Reason, ...]]:
    """The distinct sets of reasons against single kernels, the nearest kernels first."""
    sets = dict.fromkeys(miss.reasons for miss in trace.unsupported if miss.kernel is not None)
    return [reasons for reasons in sets if len(reasons) <= _MOST_REASONS]


def _single_hints(wholes: Iterable[tuple[Reason, ...]]) -> Iterator[Change]:
    hints = dict.fromkeys(reason.hint for reasons in wholes for reason in reasons)
    return (change for hint in hints for change in changes_in(hint))


def _for_all(reasons: tuple[Reason, ...]) -> Iterator[Change]:
    """Changes that answer every reason against a kernel at once; none if a reason has no change for an answer."""
    answers = [changes_in(reason.hint) for reason in reasons]
    for chosen in product(*answers) if len(reasons) > 1 else ():
        yield tuple(sorted(dict(step for change in chosen for step in change).items()))


def _sizes(problem: Problem, trace: Trace) -> Iterator[Change]:
    """The nearest head dims for which a refused kernel exists."""
    kernels = [miss.kernel for miss in trace.unsupported if miss.kernel is not None]
    for key in ("hdim", "hdim_v"):
        held, wanted = {getattr(kernel.signature, key) for kernel in kernels}, getattr(problem, key)
        near = sorted(held - {wanted}, key=lambda size: (abs(size - wanted), size))[:3]
        yield from (((key, str(size)),) for size in near)


def _options(problem: Problem) -> Iterator[Change]:
    """The options that a problem can do without, and the common element types."""
    raw = flags_by_key(problem)
    yield from (((field.key, None),) for field in _SPARED if field.key in raw)
    yield from ((("dtype", dtype),) for dtype in _DTYPES if dtype != problem.dtype.value)


def flags_by_key(problem: Problem) -> dict[str, str | bool]:
    """The flags of a problem, by key: the shortest, but head dim and type even if they are the defaults, and the mask under one key."""
    raw = flags_in(problem)
    if raw.pop("causal", False):
        raw["mask"] = MaskKind.CAUSAL.value
    return {"hdim": str(problem.hdim), "dtype": dtypes_text(problem.dtype, problem.dtype_out), **raw}


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
    field = BY_KEY[key]
    if not isinstance(old, str) or not isinstance(new, str):
        return (field.off if new is None else 0) or field.cost
    kinds = [re.split(r"[:\-]", text, maxsplit=1)[0] for text in (old, new)]
    same = kinds[0] == kinds[1] or key == "rotary" or (key == "mask" and ":" in old and ":" in new)
    return ((field.near if same else 0) or field.cost) + _ratio(old, new)


def _ratio(old: str, new: str) -> float:
    """How far apart two sizes are, below 1; the last number of each text counts."""
    sizes = [re.findall(r"\d+", text) for text in (old, new)]
    if not all(sizes):
        return 0.0
    a, b = (max(int(numbers[-1]), 1) for numbers in sizes)
    return min(abs(log2(a / b)) / 20, 0.9)


Change = tuple[tuple[str, str | None], ...]
"""Flag keys with their new values, ``on`` for a switch; None drops the flag."""
ON = "on"
"""The value of a switch in a change."""

_STEP = re.compile(
    r"(?:[a-z ]+: )?(?P<drop>drop )?--(?P<flag>[a-z][a-z0-9-]*)(?: (?P<value>[^\s()]+))?(?: or (?:less|more))?"
    r"(?: instead of --(?P<less>[a-z][a-z-]*))?(?: \([^()]*\))?\Z"
)

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
    raw = flags_in(problem)
    for key, value in change:
        off = value in _OFF or (key == "bias" and value == "alibi")
        for other in (key,) if off else BY_KEY[key].excludes:
            _drop(raw, other)
        raw.pop(key, None)
        if value is not None:
            raw[key] = True if value == ON else value
    _keep_lengths(problem, raw, {key for key, _ in change})
    try:
        other_problem = type(problem).of(**raw)
    except ImpossibleProblem:
        return None
    return None if other_problem == problem else other_problem


def _drop(raw: dict[str, str | bool], key: str) -> None:
    """Take out a flag, and those that mean nothing without it."""
    raw.pop(key, None)
    for field in FIELDS:
        if key in field.needs:
            _drop(raw, field.key)


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
