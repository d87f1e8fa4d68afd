"""``fmha.parity/1``: upstream's example programs against this tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from fmha_cli.bench.compare import Ratio
from fmha_cli.domain.counterpart import Program, Said
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.members import Count, Least, ShownAs, Then
from fmha_cli.domain.quantities import Quantity, time_of
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted, ranges, united
from fmha_cli.report.parts import Environment
from fmha_cli.report.record import Record
from fmha_cli.report.table import Table, headed


class ParityOutcome(StrEnum):
    """The results of comparing both sides of a case; ``we`` is this tool, ``they`` the upstream program."""

    AGREE_PASS = "agree-pass"
    """Both sides compute the case, and both pass."""
    AGREE_UNSUPPORTED = "agree-unsupported"
    """Neither side supports the case."""
    AGREE_FAIL = "agree-fail"
    """Both sides compute the case, and both are wrong."""
    WE_FAIL = "we-fail"
    """Upstream passes or supports the case, and this tool does not."""
    THEY_FAIL = "they-fail"
    """This tool passes or refuses the case, and upstream does not do the same."""
    NOT_COMPARABLE = "not-comparable"
    """Upstream's program did not check its result."""
    CRASHED = "crashed"
    """One of the two sides crashed."""
    TIMED_OUT = "timed-out"
    """One of the two sides took too long."""
    NOT_RUN = "not-run"
    """There is no device for the case."""
    MISSING_BINARY = "missing-binary"
    """Upstream's program is not here."""


Words = tuple[str, ...]
Texts = Mapping[str, str]


@dataclass(frozen=True)
class SuiteFile:
    """One file from upstream."""

    file: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class SuiteRow:
    """The suite that was run."""

    name: str
    title: str
    sources: Annotated[tuple[SuiteFile, ...], "files of upstream that the cases come from"]


@dataclass(frozen=True, kw_only=True)
class UpstreamRun:
    """One run of the upstream program."""

    argv: Words
    device: Annotated[str | None, "this tool's, where the program was made to run"]
    exit_code: Annotated[int, "negative: the number of the signal that killed it"]
    said: Said
    findings: Annotated[
        tuple[Finding, ...] | None,
        "of an emulated device; null on others, and where the program left no report",
    ]
    executed: tuple[Executed, ...] | None
    why: str | None
    line: Annotated[str | None, "its line of results; on an emulated device without times"]
    kernels: Words
    ms: Annotated[float | None, Least(0)]
    seconds: Annotated[float, Least(0), "of the whole program"]
    stderr: Annotated[str, "its end"]
    variables: Annotated[Texts, "of its environment, with which it ran on an emulated device"]


@dataclass(frozen=True, kw_only=True)
class UpstreamRatio(Ratio):
    """This tool's times compared with those of the upstream program."""

    median_ns: Annotated[int, Least(0), "of the upstream program"]
    ratio: Annotated[float, "this tool's median / the upstream program's"]
    paired: Annotated[bool, Then("speed")]


@dataclass(frozen=True, kw_only=True)
class ParityTimes:
    """The times of both sides in the same rounds."""

    ours_ns: Annotated[tuple[Count, ...], "means, one a round"]
    upstream_ns: Annotated[tuple[Count, ...], "means, one a round"]
    ratio: Annotated[Ratio, ShownAs(UpstreamRatio)]


@dataclass(frozen=True, kw_only=True)
class ParityCase:
    """One case, run or only listed."""

    name: str
    group: str
    program: Program
    settings: Annotated[Texts, "as the suite has them"]
    argv: Annotated[Words, "for the upstream program"]
    problem: Annotated[str | None, "problem flags for this tool; null: it has no such problem"]
    outcome: Annotated[ParityOutcome | None, "null: the case was only listed"]
    why: Words
    notes: Words
    upstream: UpstreamRun | None = None
    ours: Annotated[Mapping[str, Any] | None, ShownAs(Record | None)] = None
    times: ParityTimes | None = None


@dataclass(frozen=True, kw_only=True)
class ParityPage:
    """parity --json: upstream's example programs against this tool, case by case."""

    schema: Literal["fmha.parity/1"] = "fmha.parity/1"
    environment: Annotated[Mapping[str, Any], ShownAs(Environment)]
    suite: SuiteRow
    upstream: Annotated[Mapping[Program, str | None], "paths of the programs; null: missing, or not needed"]
    counts: Mapping[ParityOutcome, Count]
    cases: Annotated[tuple[Mapping[str, Any], ...], ShownAs(tuple[ParityCase, ...])]


_QUIET = ("v", "kname", "warmup", "repeat")
"""Settings that every case of a suite shares and that describe no problem."""


def parity_view(document: Mapping[str, Any]) -> Table:
    """One line for each case; below, why cases do not agree."""
    rows: list[list[str]] = []
    theirs_ns: list[Quantity | None] = []
    ours_ns: list[Quantity | None] = []
    details: dict[str, list[int]] = {}
    listed = all(case["outcome"] in (None, "not-comparable") and not case["upstream"] for case in document["cases"])
    for number, case in enumerate(document["cases"], 1):
        settings = " ".join(f"{k}={v}" for k, v in case["settings"].items() if k not in _QUIET)
        ratio = case["times"]["ratio"] if case["times"] else None
        theirs_ns.append(None if ratio is None else time_of(ratio["median_ns"]))
        ours_ns.append(None if ratio is None else time_of(ratio["ratio"] * ratio["median_ns"]))
        rows.append(
            [
                str(number),
                case["name"],
                case["program"],
                settings,
                case["outcome"] or "",
                _ratio(ratio),
            ]
        )
        for line in (*case["why"], *(() if listed else case["notes"]), *_again(case)):
            details.setdefault(line, []).append(number)
    theirs, upstream = united("upstream", theirs_ns)
    ours, own = united("ours", ours_ns)
    rows = [[*row[:5], a, b, row[5]] for row, a, b in zip(rows, upstream, own, strict=True)]
    said = [f"  {ranges(those)}: {line}" for line, those in details.items()]
    return Table(headed(_COLUMNS, upstream=theirs, ours=ours), rows, _summary(document), said)


_COLUMNS = (
    Column("#", number=True, called="row"),
    Column("case", path="name", fit=Fit.MIDDLE, least=20, rank=1),
    Column("program", path="program", common="program {}".format, rank=3),
    Column("settings", fit=Fit.FOLD, least=24, common="{}".format, words=True, rank=4),
    Column("outcome", path="outcome"),
    Column("upstream", path="times.ratio.median_ns", number=True, rank=2),
    Column("ours", number=True, rank=2),
    Column("ours / upstream", path="times.ratio.ratio", called="ratio"),
)


def _again(case: Mapping[str, Any]) -> list[str]:
    """The commands that repeat a case on either side, if something is wrong with it."""
    if case["outcome"] not in ("we-fail", "they-fail", "agree-fail", "crashed", "timed-out"):
        return []
    ours = [f"again: {case['ours']['repro']}"] if case["ours"] else []
    theirs = case["upstream"]
    if not theirs:
        return ours
    variables = [f"{name}={value}" for name, value in theirs["variables"].items()]
    return [*ours, f"again, upstream: {' '.join([*variables, *theirs['argv']])}"]


def _ratio(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return ""
    ends = ratio["ratio_ci95"]
    return f"{ratio['ratio']:.3f}" + ("" if ends is None else f" ({ends[0]:.3f}-{ends[1]:.3f})")


def _summary(document: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in document["counts"].items() if count)
    cases = document["cases"]
    sources = "; ".join(f"{s['file']} ({s['revision']})" for s in document["suite"]["sources"])
    total = counted(len(cases), "case")
    return f"{document['suite']['name']}: {total}{': ' if counts else ''}{counts}\nfrom {sources or 'the suite file'}"


DOCUMENTS = (
    Document(
        ParityPage,
        parity_view,
        rows="cases",
        columns=_COLUMNS,
        definitions={"upstream": UpstreamRun, "times": ParityTimes},
    ),
)
