"""The smallest change of the flags with which some kernel serves the problem: tried, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice
from typing import Any

from fmha_cli.decision import Trace
from fmha_cli.errors import ImpossibleProblem
from fmha_cli.flag_text import flags_of, raw_from_text
from fmha_cli.problem import Problem

Raw = Mapping[str, Any]

_DROPPED = (
    "lse",
    "deterministic",
    "dbias",
    "splits",
    "sink",
    "sink_logits",
    "dropout",
    "softcap",
    "alibi",
    "alibi_slopes",
)
_DROPPED_KINDS = (
    "bias",
    "bias_file",
    "rotary",
    "append",
    "qscale",
    "layout",
    "kv_cache",
    "direction",
    "causal",
    "mask",
)
_DTYPES = ("fp16", "bf16", "fp32")
_MOST_PAIRS = 200


def smallest_change(problem: Problem, trace: Trace, serves: Callable[[Problem], bool]) -> str | None:
    """``--hdim 80``, ``no --lse``; None when neither one change nor two would do.

    Args:
        trace: the refusals, whose kernels tell which head dims exist.
        serves: whether some kernel serves a problem.
    """
    raw = raw_from_text(flags_of(problem))
    singles = list(_changes(problem, raw, trace))
    pairs = islice(combinations(singles, 2), _MOST_PAIRS)
    for changes in (*((single,) for single in singles), *pairs):
        changed = dict(raw)
        for key, value in changes:
            changed.pop(key, None) if value is None else changed.update({key: value})
        try:
            other = Problem.of(**changed)
        except ImpossibleProblem:
            continue
        if serves(other):
            return " and ".join(_text(key, value) for key, value in changes)
    return None


def _changes(problem: Problem, raw: Raw, trace: Trace) -> Iterator[tuple[str, str | None]]:
    """Single changes, the least intrusive first: (flag, its new value or None to drop it)."""
    yield from ((key, None) for key in _DROPPED if key in raw)
    kernels = [miss.kernel for miss in trace.unsupported if miss.kernel is not None]
    for key in ("hdim", "hdim_v"):
        held = sorted({getattr(kernel.signature, key) for kernel in kernels})
        wanted = getattr(problem, key)
        near = sorted(held, key=lambda size: (abs(size - wanted), size))[:3]
        yield from ((key, str(size)) for size in near if size != wanted)
    yield from ((key, None) for key in _DROPPED_KINDS if key in raw)
    yield from (("dtype", dtype) for dtype in _DTYPES if dtype != problem.dtype.value)


def _text(key: str, value: str | None) -> str:
    flag = f"--{key.replace('_', '-')}"
    return f"no {flag}" if value is None else f"{flag} {value}"
