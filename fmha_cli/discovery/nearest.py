"""The smallest changes of a refused problem's flags with which some kernel would serve it.

The changes to try come from the hints of the reasons, and from the options that a problem can do without. Whether it
works is never inferred: the backends are asked about every changed problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, islice, product

from fmha_cli.domain.decision import Trace
from fmha_cli.domain.distance import change_text, difference, distance, flags_by_key
from fmha_cli.domain.hints import Change, applied, changes_in
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

_DISPENSABLE = (
    "lse", "deterministic", "dbias", "splits", "sink", "sink_logits", "dropout", "softcap", "alibi", "alibi_slopes",
    "cache_leftpad", "cache_batch_idx", "bias", "bias_file", "rotary", "rotary_base", "append", "qscale", "fp8_encoding", "kv_dtype", "layout", "kv_cache",
    "mla_rope", "direction", "causal", "mask",
)  # fmt: skip
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
    yield from (((key, None),) for key in _DISPENSABLE if key in raw)
    yield from ((("dtype", dtype),) for dtype in _DTYPES if dtype != problem.dtype.value)
