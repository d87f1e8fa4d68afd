"""``fmha.parity/1``: upstream's example programs against this tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from fmha_cli.bench.compare import Ratio
from fmha_cli.domain.counterpart import Program, Said
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.members import Count, Least, ShownAs, Then
from fmha_cli.domain.quantities import Quantity, time_of
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted, ranges
from fmha_cli.report.parts import Environment
from fmha_cli.report.record import Record
from fmha_cli.report.table import Table, table_by


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
    ours: Record | None = None
    times: ParityTimes | None = None


@dataclass(frozen=True, kw_only=True)
class ParityPage:
    """parity --json: upstream's example programs against this tool, case by case."""

    schema: Literal["fmha.parity/1"] = "fmha.parity/1"
    environment: Environment
    suite: SuiteRow
    upstream: Annotated[Mapping[Program, str | None], "paths of the programs; null: missing, or not needed"]
    counts: Mapping[ParityOutcome, Count]
    cases: tuple[ParityCase, ...]


_Numbered = tuple[int, ParityCase]
_QUIET = ("v", "kname", "warmup", "repeat")
"""Settings that every case of a suite shares and that describe no problem."""


def parity_view(document: ParityPage) -> Table:
    """One line for each case; below, why cases do not agree."""
    cases = document.cases
    listed = all(case.outcome in (None, ParityOutcome.NOT_COMPARABLE) and not case.upstream for case in cases)
    details: dict[str, list[int]] = {}
    for number, case in enumerate(cases, 1):
        for line in (*case.why, *(() if listed else case.notes), *_again(case)):
            details.setdefault(line, []).append(number)
    said = [f"  {ranges(those)}: {line}" for line, those in details.items()]
    return table_by(_COLUMNS, list(enumerate(cases, 1)), _summary(document), said)


_WRONG = ("we-fail", "they-fail", "agree-fail", "crashed", "timed-out")


def _again(case: ParityCase) -> Iterator[str]:
    """The commands that repeat a case on either side, if something is wrong with it."""
    if case.outcome in _WRONG and case.ours:
        yield f"again: {case.ours.repro}"
    if case.outcome in _WRONG and case.upstream:
        variables = [f"{name}={value}" for name, value in case.upstream.variables.items()]
        yield f"again, upstream: {' '.join([*variables, *case.upstream.argv])}"


def _settings(row: _Numbered) -> str:
    return " ".join(f"{key}={value}" for key, value in row[1].settings.items() if key not in _QUIET)


def _theirs(row: _Numbered) -> Quantity | None:
    times = row[1].times
    return time_of(times.ratio.median_ns) if times else None


def _ours(row: _Numbered) -> Quantity | None:
    times = row[1].times
    return time_of(times.ratio.ratio * times.ratio.median_ns) if times else None


def _ratio(row: _Numbered) -> str:
    times = row[1].times
    if times is None:
        return ""
    ends = times.ratio.ratio_ci95
    return f"{times.ratio.ratio:.3f}" + ("" if ends is None else f" ({ends[0]:.3f}-{ends[1]:.3f})")


def _summary(document: ParityPage) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in document.counts.items() if count)
    sources = "; ".join(f"{source.file} ({source.revision})" for source in document.suite.sources)
    total = counted(len(document.cases), "case")
    return f"{document.suite.name}: {total}{': ' if counts else ''}{counts}\nfrom {sources or 'the suite file'}"


_COLUMNS = (
    Column("#", lambda row: str(row[0]), number=True, called="row"),
    Column("case", lambda row: row[1].name, path="name", fit=Fit.MIDDLE, least=20, rank=1),
    Column("program", lambda row: row[1].program, path="program", common="program {}".format, rank=3),
    Column("settings", _settings, fit=Fit.FOLD, least=24, common="{}".format, words=True, rank=4),
    Column("outcome", lambda row: row[1].outcome or "", path="outcome"),
    Column("upstream", _theirs, path="times.ratio.median_ns", number=True, rank=2),
    Column("ours", _ours, number=True, rank=2),
    Column("ours / upstream", _ratio, path="times.ratio.ratio", called="ratio"),
)

DOCUMENTS = (
    Document(
        ParityPage,
        parity_view,
        rows="cases",
        columns=_COLUMNS,
        definitions={"upstream": UpstreamRun, "times": ParityTimes},
    ),
)
