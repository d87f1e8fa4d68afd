"""What the referees say of one problem's outputs, beside its verdict, and which known reports explain what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fmha_cli.backends.gpu.known_bad import KnownBad
from numerics.extreme_problem import Bools, Drawn, Family, Lane
from numerics.referees import DOUBLE, LARGEST, SUM, Answer, Values, apart, formula, precision_of, torch_values

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
        leaks: rows with NaN from a hidden key, as docs/numerics.md accepts it of kernels for GPUs.
        apart: rows in which the two referees differ by more than float64 explains.
        overflow: a gradient may be beyond its type by rounding alone, and is not finite.
        hazards: the emulated device reports what a report says that it reports.
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
    leaks: int = 0
    apart: int = 0
    overflow: bool = False
    hazards: bool = False

    @property
    def right(self) -> bool:
        return not self.wrong and not self.by_torch

    @property
    def outcome(self) -> str:
        """``right``, the reason why it need not be, or ``unexplained``."""
        if self.apart:
            return "referees differ"
        if self.verdict in ACCEPTED:
            # P from an LSE of fp32 (docs/numerics.md)
            rough = not self.unknown and {*self.wrong, *self.by_torch} <= {*GRADIENTS, SUM}
            return "right" if self.right else "gradients as rough as the LSE" if rough else "unexplained"
        if self.verdict == "UNSUPPORTED":
            return "not served"
        if self.right:
            explained = self.overflow if self.verdict == "WRONG" else self.hazards and self.verdict == "HAZARD"
            return ("fp16 gradient overflows" if self.overflow else "known hazard") if explained else "unexplained"
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
        on_gpu: NaN of a hidden key may leak as docs/numerics.md says.
        torch: whether PyTorch is asked too.
    """
    problem, most = out.drawn, LARGEST[out.drawn.dtype]
    precision = precision_of(problem.dtype, "bf16" if problem.family is Family.NARROW else None)
    bias_parts: list[tuple[Answer, Values]] = []
    some_known = False
    for b, lane in enumerate(problem.lanes):
        answer, exact = formula(lane, precision), formula(lane, DOUBLE)
        other = torch_values(lane) if torch else {}
        bias_parts.append((answer, other))
        known = _known(lane, answer, reports)
        some_known |= bool(known.any())
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
            _count(out, name, bad & ~leak, by_torch & ~leak, known if name in PER_ROW else known.any())
    if "dbias" in outputs:
        got = np.asarray(outputs["dbias"], np.float64)
        out.gradients += int(np.prod(got.shape[:-1]))
        want, slack = (_dbias(problem, [x["dbias"] for x in xs], got.shape) for xs in _columns(bias_parts))
        slack = slack + 2 * precision.out * np.abs(want) + precision.least
        leak = np.isnan(got) & (on_gpu and any(bool(lane.poisoned) for lane in problem.lanes))
        bad = apart(got, want, slack, most) & ~leak
        other_want = _dbias(problem, [x["dbias"] for _, x in bias_parts], got.shape) if torch else want
        _count(out, "dbias", bad, apart(got, other_want, slack, most) & ~leak, some_known)
    return out


def _columns(parts: Sequence[tuple[Answer, Values]]) -> tuple[list[Values], list[Values]]:
    return [answer.values for answer, _ in parts], [answer.slack for answer, _ in parts]


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


def _count(out: Judged, name: str, bad: Bools, by_torch: Bools, known: Any) -> None:
    for counts, wrong in ((out.wrong, bad), (out.by_torch, by_torch)):
        if wrong.any():
            counts[name] += _rows(name, wrong)
    both = bad | by_torch
    per_row = both if name == "lse" else both.any(axis=-1)
    if (per_row & ~np.asarray(known)).any():
        out.unknown[name] += int((per_row & ~np.asarray(known)).sum())


def _rows(name: str, wrong: Any) -> int:
    return int(wrong.sum() if name == "lse" else wrong.any(axis=-1).sum())


def _known(lane: Lane, answer: Answer, reports: Sequence[KnownBad]) -> Bools:
    """(heads, rows) that a report says may be lost."""
    out = np.zeros(answer.top.shape, np.bool_)
    for report in reports:
        for words, rows in _ROWS.items():
            if words in report.what:
                out |= rows(lane, answer, report)
    return out


def _hides_rows(lane: Lane, answer: Answer, report: KnownBad) -> Bools:
    none = np.zeros(answer.top.shape, np.bool_)
    return none if lane.bias is None else none | np.isneginf(np.where(lane.sees, lane.bias, -np.inf)).all(axis=-1)


_ROWS = {
    "rows whose largest score is": lambda lane, answer, report: np.abs(answer.top) >= report.scores,
    "from an LSE in fp32": lambda lane, answer, report: np.abs(answer.values["lse"]) >= report.scores,
    "scores are all below -2.36e38": lambda lane, answer, report: np.abs(answer.top) > 2.36e38,
    "whose bias is -inf throughout": _hides_rows,
    "does not hide a key": lambda lane, answer, report: np.full(
        answer.top.shape, bool(lane.poisoned) and lane.bias is not None
    ),
}
"""Words of a report -> the rows (heads, rows) of a sequence that it is about."""
