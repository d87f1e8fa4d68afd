"""The names of lines in a plot: the backend, and further differences from the rows of the other lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fmha_cli.domain.quantities import flop_rate
from fmha_cli.pages.rows import TimedRow, varying
from fmha_cli.report.lines import problem_text

AXES: Mapping[str, tuple[str, ...]] = {
    "seqlen": ("seqlen_q", "seqlen_k"),
    "batch": ("batch",),
    "heads": ("heads", "kv_heads"),
    "hdim": ("hdim", "hdim_v"),
}
"""The possible horizontal axes of a plot -> the members of a problem that belong to it."""

_MORE = {"seqlen": ("seqlens_q", "seqlens_k", "cache_seqlens", "scale"), "hdim": ("scale",)}
"""Members that follow from the axis and need no separate line."""
_PREFIXES = {"T": 1e12, "G": 1e9, "M": 1e6}


def series_of(rows: Sequence[TimedRow], axes: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """The name of each row's line.

    Args:
        axes: names in ``AXES`` that the axis or the panel shows.
        without: further members of the problem that the panel shows: ``dtype``, ``mask``.
    """
    kernels = _several_kernels(rows)
    rests, _ = varying([_rest(row, axes, without) for row in rows]) if rows else ([], "")
    parts = [
        (
            row.kernel if kernels else "",
            f"{row.measured.cache.value} cache",
            f"{row.measured.threads} threads",
            row.record.device or "",
            rest,
            row.run,
        )
        for row, rest in zip(rows, rests, strict=True)
    ]
    told = [len(set(values)) > 1 for values in zip(*parts, strict=True)]
    return [
        ", ".join(filter(None, (row.backend, *(part for part, varies in zip(own, told, strict=True) if varies))))
        for row, own in zip(rows, parts, strict=True)
    ]


def rate_unit(rows: Sequence[TimedRow]) -> tuple[str, float]:
    """The unit in which the largest throughput is at least 0.1, and its FLOP/s."""
    unit = flop_rate(max(row.rate for row in rows)).unit
    return unit, _PREFIXES[unit[0]]


def _rest(row: TimedRow, axes: Sequence[str], without: Sequence[str]) -> str:
    """The problem without the members of axis and panel; a single query before more keys is a decode."""
    problem = dict(row.record.problem)
    gone = {name for axis in axes for name in _MORE.get(axis, ())}
    plain = {"dtype": "", "mask": "none"}
    shown = {
        **{name: value for name, value in problem.items() if name not in gone},
        **{name: 0 for axis in axes for name in AXES[axis]},
        **{name: plain[name] for name in without},
    }
    decode = "seqlen" in axes and problem["seqlen_q"] == 1 < int(problem["seqlen_k"])
    words = [word for word in problem_text(shown).split() if word not in ("s0", "d0", "b0", "h0")]
    return " ".join([*words, *(["decode"] if decode else [])])


def _several_kernels(rows: Sequence[TimedRow]) -> bool:
    """Whether one problem has several kernels of a backend; else a kernel is known by its backend."""
    found: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        place = (repr(sorted(row.record.problem.items(), key=str)), row.backend, row.measured.cache.value, row.run)
        found.setdefault(place, set()).add(row.kernel)
    return any(len(kernels) > 1 for kernels in found.values())
