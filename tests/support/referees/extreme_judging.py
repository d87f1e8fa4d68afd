"""What the referees say of one problem's outputs, next to its verdict, and which known reports explain the errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fmha_cli.backends.gpu.known_bad import KnownBad
from tests.support.generators.extreme_problem import Bools, Doubles, Drawn, Family, Lane
from tests.support.referees.attention import (
    DOUBLE,
    LARGEST,
    SUM,
    Answer,
    Values,
    apart,
    beyond,
    formula,
    precision_of,
    torch_values,
)

ACCEPTED = ("PASSED", "MISTRUSTED")
GRADIENTS = ("dq", "dk", "dv", "dbias")
PER_ROW = ("o", "lse", "dq")


@dataclass
class Judged:
    """One problem.

    Attributes:
        rows, gradients: rows of O and of gradients that were looked at.
        open: rows of O in which rounding decides which keys count.
        wrong, by_torch: tensor -> rows that the formula calls wrong, and those that PyTorch's values call wrong.
        unknown: tensor -> wrong rows that no report of ``arch_specs/_known_bad.json`` about the kernels explains.
        known: words of a report -> wrong rows of O and of gradients that it explains, or another report before it.
        leaks: rows with NaN from a hidden key, as docs/explanation/numerics.md accepts it of kernels for GPUs.
        apart: rows in which the two referees differ by more than float64 explains.
        overflow: a gradient may be beyond its type by rounding alone, and is not finite.
        hazards: the emulated device reports what a report says that it reports.
        failed: outputs that the verdict rejects.
        small: a report says that scaled dS loses digits, and most of it is as small.
    """

    drawn: Drawn
    arch: str
    verdict: str
    note: str = ""
    rows: int = 0
    gradients: int = 0
    open: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    by_torch: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    leaks: int = 0
    apart: int = 0
    overflow: bool = False
    hazards: bool = False
    failed: frozenset[str] = frozenset()
    small: bool = False

    @property
    def right(self) -> bool:
        return not self.wrong and not self.by_torch

    @property
    def outcome(self) -> str:
        """``right``, the reason why it need not be, or ``unexplained``."""
        if self.apart:
            return "referees differ"
        if self.verdict in ACCEPTED:
            # P from an LSE of fp32 (docs/explanation/numerics.md)
            rough = not self.unknown and {*self.wrong, *self.by_torch} <= {*GRADIENTS, SUM}
            return "right" if self.right else "gradients as rough as the LSE" if rough else "unexplained"
        if self.verdict == "UNSUPPORTED":
            return "not served"
        if self.right and self.verdict == "WRONG":
            small = self.small and self.failed <= {"dq", "dk"}
            return "fp16 gradient overflows" if self.overflow else "scaled dS in fp16" if small else "unexplained"
        if self.right:
            return "known hazard" if self.hazards and self.verdict == "HAZARD" else "unexplained"
        known = self.verdict in ("WRONG", "HAZARD") and not self.unknown
        return "known hazard" if known else "unexplained"

    @property
    def text(self) -> str:
        p = self.drawn
        said = f"formula {dict(self.wrong)}, PyTorch {dict(self.by_torch)}, not known {dict(self.unknown)}, apart {self.apart}"
        return f"{self.outcome}: {p.number} {self.arch} {p.family} {p.dtype} ({', '.join(p.extremes)}) {self.verdict}: {said}; {p.flags} {self.note}"


def judge(out: Judged, outputs: Mapping[str, Any], *, reports: Sequence[KnownBad], on_gpu: bool, torch: bool) -> Judged:
    """Complete what the referees say about the outputs.

    Args:
        reports: about the kernels that ran.
        on_gpu: NaN of a hidden key may leak as docs/explanation/numerics.md says.
        torch: whether PyTorch is asked too.
    """
    problem, most = out.drawn, LARGEST[out.drawn.dtype]
    precision = precision_of(problem.dtype, "bf16" if problem.family is Family.NARROW else None)
    parts: list[tuple[Answer, Values]] = []
    lost_by: list[dict[str, Bools]] = []
    for b, lane in enumerate(problem.lanes):
        answer, exact = formula(lane, precision), formula(lane, DOUBLE)
        other = torch_values(lane) if torch else {}
        parts.append((answer, other))
        lost_by.append(_lost_by(lane, answer, reports))
        out.small |= _has_small_gradients(lane, answer, reports)
        out.rows += answer.open.size
        out.open += int(answer.open.sum())
        for name in other.keys() & exact.values.keys():
            out.apart += _rows(name, apart(other[name], exact.values[name], exact.slack[name]))
        for name, got in _outputs(problem, outputs, b).items():
            want, slack = answer.values[name], answer.slack[name]
            bad = apart(got, want, slack, most)
            if name == "o":
                bad |= (~got.any(axis=-1) & ~answer.zero)[..., None]
            by_torch = apart(got, other[name], slack, most) if name in other else np.zeros_like(bad)
            may_leak = lane.poisoned - ({"k"} if name == "o" else set())  # 0 * NaN in V, and in K for gradients
            leak = np.isnan(got) & (on_gpu and name != "lse" and bool(may_leak))
            out.leaks += _rows(name, bad & leak)
            out.gradients += int(np.prod(got.shape[:-1])) if name in GRADIENTS else 0
            out.overflow |= name in GRADIENTS and bool((~np.isfinite(got) & np.isfinite(want) & ~bad).any())
            rough = beyond(got, want, answer.rough[name], most) if name in answer.rough else None
            largest_v = float(np.abs(lane.v).max(initial=0))
            _count(out, name, got, bad & ~leak, by_torch & ~leak, lost_by[b], rough, largest_v)
    if "dbias" in outputs:
        got = np.asarray(outputs["dbias"], np.float64)
        out.gradients += int(np.prod(got.shape[:-1]))
        want, slack, loose = (
            _dbias(problem, [getattr(answer, kind)["dbias"] for answer, _ in parts], got.shape)
            for kind in ("values", "slack", "rough")
        )
        rounding = 2 * precision.out * np.abs(want) + precision.least
        leak = np.isnan(got) & (on_gpu and any(bool(lane.poisoned) for lane in problem.lanes))
        bad = apart(got, want, slack + rounding, most) & ~leak
        other_want = _dbias(problem, [x["dbias"] for _, x in parts], got.shape) if torch else want
        by_torch = apart(got, other_want, slack + rounding, most) & ~leak
        lost = {words: np.bool_(any(rows[words].any() for rows in lost_by)) for words in lost_by[0]}
        _count(out, "dbias", got, bad, by_torch, lost, beyond(got, want, loose + rounding, most))
    return out


def _outputs(problem: Drawn, outputs: Mapping[str, Any], b: int) -> Values:
    """The outputs of one sequence that are not dBias."""
    found = {"o": problem.rows(outputs["o"], b), "lse": problem.lse(outputs["lse"], b)} if "o" in outputs else {}
    lane = problem.lanes[b]
    if lane.do is not None:
        found["dq"] = problem.rows(outputs["dq"], b)
        found |= {name: problem.rows(outputs[name], b, keys=True) for name in ("dk", "dv")}
        if lane.kept is None and lane.sinks is None:
            found[SUM] = found["dv"].sum(axis=1, keepdims=True)
    return found


def _dbias(problem: Drawn, parts: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """dBias of all sequences, summed over the axes along which the bias is broadcast."""
    rows, keys = (max(getattr(lane, x).shape[1] for lane in problem.lanes) for x in "qk")
    full = np.zeros((len(parts), problem.lanes[0].q.shape[0], rows, keys))
    for b, x in enumerate(parts):
        full[b, :, : x.shape[1], : x.shape[2]] = x
    axes = tuple(n for n, size in enumerate(shape) if size == 1 and full.shape[n] > 1)
    return full.sum(axis=axes, keepdims=True)


def _count(
    out: Judged,
    name: str,
    got: Doubles,
    bad: Bools,
    by_torch: Bools,
    lost_by: Mapping[str, Any],
    rough: Bools | None,
    largest_v: float = np.inf,
) -> None:
    """Count the rows of a tensor that a referee calls wrong, by the report that explains each.

    Args:
        lost_by: words of a report -> rows (heads, rows) of O that it is about.
        rough: elements of O or of a gradient that no rounding of the LSE explains.
        largest_v: the size of the largest element of V.
    """
    for counts, wrong in ((out.wrong, bad), (out.by_torch, by_torch)):
        if wrong.any():
            counts[name] += _rows(name, wrong)
    both = bad | by_torch

    def by_row(wrong: Bools) -> Bools:
        return wrong if name == "lse" else wrong.any(axis=-1)

    left = by_row(both)
    forward = name in PER_ROW[:2] or bool({"o", "lse"} & out.wrong.keys())
    for words, lost in sorted(lost_by.items(), key=lambda item: item[0] != ROUGH):
        if words == LARGE and not forward:  # a backward kernel alone takes its LSE from the reference
            continue
        if words == ROUGH:
            explained = (
                lost.any() & ~by_row(both & rough) if name not in PER_ROW[:2] and rough is not None else np.False_
            )
        elif words == JOINED:
            explained = lost & ~by_row(both & rough) if name == "o" and rough is not None else np.False_
        elif name in PER_ROW:
            as_said = LOOKS[words](got, largest_v) if name == "o" else np.ones_like(both)
            explained = lost & ~by_row(both & ~as_said)
        else:
            explained = lost.any()
        if (left & explained).any():
            out.known[words] += int((left & explained).sum())
        left = left & ~explained
    if left.any():
        out.unknown[name] += int(left.sum())


def _rows(name: str, wrong: Any) -> int:
    return int(wrong.sum() if name == "lse" else wrong.any(axis=-1).sum())


def _lost_by(lane: Lane, answer: Answer, reports: Sequence[KnownBad]) -> dict[str, Bools]:
    """Words of a report about the kernels -> (heads, rows) that it is about."""
    out: dict[str, Bools] = {}
    for report in reports:
        for words, rows in _ROWS.items():
            if words in report.what:
                out[words] = out.get(words, np.False_) | rows(lane, answer, report)
    return out


def _hides_rows(lane: Lane, answer: Answer, report: KnownBad) -> Bools:
    none = np.zeros(answer.top.shape, np.bool_)
    return none if lane.bias is None else none | np.isneginf(np.where(lane.sees, lane.bias, -np.inf)).all(axis=-1)


LARGE, ROUGH, JOINED, OVERFLOWS, EMPTY, HIDDEN, SINK = (
    "rows whose largest score is",
    "from an LSE in fp32",
    "joined by weights exp(LSE",
    "scores are all below -2.36e38",
    "whose bias is -inf throughout",
    "does not hide a key",
    "learned sink above 2.36e38",
)
_ROWS = {
    LARGE: lambda lane, answer, report: np.abs(answer.top) >= report.scores,
    OVERFLOWS: lambda lane, answer, report: np.abs(answer.top) > 2.36e38,
    EMPTY: _hides_rows,
    HIDDEN: lambda lane, answer, report: np.full(answer.top.shape, bool(lane.poisoned) and lane.bias is not None),
    SINK: lambda lane, answer, report: np.broadcast_to(
        (lane.sinks if lane.sinks is not None else np.zeros(len(answer.top)))[:, None] > 2.36e38, answer.top.shape
    ),
    ROUGH: lambda lane, answer, report: np.abs(answer.values["lse"]) >= report.scores,
    JOINED: lambda lane, answer, report: np.abs(answer.values["lse"]) >= report.scores,
}
"""Words of a report -> the rows (heads, rows) of a sequence that it is about."""

LOOKS = {
    LARGE: lambda o, largest_v: ~np.isfinite(o) | (np.abs(o) <= largest_v),
    OVERFLOWS: lambda o, largest_v: np.isnan(o) | (o == 0),
    EMPTY: lambda o, largest_v: np.isnan(o),
    HIDDEN: lambda o, largest_v: np.isnan(o),
    SINK: lambda o, largest_v: np.isnan(o),
}
"""Words of a report -> which elements of O are lost as it says."""

SMALL = "multiplied by the scale before it is rounded"


def _has_small_gradients(lane: Lane, answer: Answer, reports: Sequence[KnownBad]) -> bool:
    """Whether a report says that scaled dS loses digits, and most of it is a subnormal number of fp16."""
    if lane.do is None or not any(SMALL in report.what for report in reports):
        return False
    ds = np.abs(lane.scale * answer.values["dbias"])
    return bool(np.median(ds[np.broadcast_to(lane.sees, ds.shape)]) < 2.0**-14)
