"""``fmha.report/1``: what ``run``, ``validate`` and ``bench`` print; below the table, why rows are not good."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fmha_cli.bench.compare import TOLERANCE, Speed, in_words, inverse
from fmha_cli.bench.measurement import NOISY, Measurement
from fmha_cli.bench.ranks import FEWEST_PROCESSES
from fmha_cli.bench.sampling import StopReason
from fmha_cli.bench.stats import FEWEST
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import ExitCode, FmhaError
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.quantities import Quantity, byte_rate, digits, flop_rate, size, time_of
from fmha_cli.domain.verdict import Check, Verdict
from fmha_cli.domain.wording import edited_text, listed
from fmha_cli.report.column import Color, Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.documents.pages import EnvironmentLine, FailurePage
from fmha_cli.report.documents.workloads import WorkloadRow, refused_lines
from fmha_cli.report.finite import is_note
from fmha_cli.report.layers import LAYER_COLUMNS, ModelSum, layer_of, model_sums, sum_lines
from fmha_cli.report.lines import (
    counted,
    folded,
    launch_lines,
    percent,
    problem_text,
    ranges,
    reason_text,
    spelled,
)
from fmha_cli.report.parts import OUTPUTS, Checks, Environment, ErrorRow, SelectedBy, environment
from fmha_cli.report.places import PlaceEffect, place_lines
from fmha_cli.report.record import Record
from fmha_cli.report.table import Table, table_by


@dataclass(frozen=True, kw_only=True)
class Report:
    """What run, validate and bench print with --json."""

    schema: Literal["fmha.report/1"] = "fmha.report/1"
    error: ErrorRow | None
    environment: Environment
    records: tuple[Record, ...]
    sums: Annotated[tuple[ModelSum, ...], "of --model and --workload: what all layers or calls cost"] = ()
    refused: Annotated[tuple[WorkloadRow, ...], "of --workload: the calls that no problem describes"] = ()
    places: Annotated[tuple[PlaceEffect, ...], "of sweep --overlap: how devices and hosts compare"] = ()

    json_later: ClassVar[tuple[str, ...]] = ("places", "refused")


def report_document(
    records: Iterable[Record],
    environment: Environment,
    error: FmhaError | None = None,
    places: Sequence[PlaceEffect] = (),
    refused: Sequence[WorkloadRow] = (),
) -> Report:
    """The document of some records. The commands print it at every exit code except 70 and 130."""
    rows = tuple(records)
    failure = None if error is None else ErrorRow.of(error)
    return Report(
        error=failure,
        environment=environment,
        records=rows,
        sums=tuple(model_sums(rows)),
        refused=tuple(refused),
        places=tuple(places),
    )


def error_document(error: FmhaError, *, as_report: bool) -> Report | FailurePage:
    """The document of a command that ended before it had one; ``as_report``: the command prints reports."""
    return report_document([], environment({}), error) if as_report else FailurePage(error=ErrorRow.of(error))


@dataclass(frozen=True)
class _RecordLine:
    """A record in the table.

    Attributes:
        number: from 1.
        measured: None if there is only the time of one launch, which says little.
        compared: whether backends are compared.
    """

    number: int
    record: Record
    measured: Measurement | None
    compared: bool

    @property
    def layer(self) -> Layer | None:
        return layer_of(self.record)


def records_view(document: Report) -> Table:
    """One line for each record; empty columns are left out."""
    records = document.records
    compared = any(record.ab and record.selected_by is SelectedBy.BACKEND for record in records)
    lines = [_RecordLine(n, record, _sampled(record), compared) for n, record in enumerate(records, 1)]
    details = _notes(records)
    details += _edits(records)
    details += judged_lines(records)
    details += sum_lines(document.sums) + refused_lines(document.refused)
    details += place_lines(document.places)
    details += _unsure_of_baseline(records)
    legends = {**_COMPARED, **_LEGENDS} if compared else _LEGENDS
    return table_by(_COLUMNS, lines, summary(records), details, legends)


_LEGENDS = {
    "winner": "the fastest good row of a problem and cache mode, and how much longer the next one takes",
    "*": "what auto chooses",
    "NOISY": f"fewer than {FEWEST} samples, or an interval wider than {NOISY:.0%} of the median",
    "UNSURE": "the noise of the two times is as large as their difference",
    "SAME": f"the two times differ by less than {TOLERANCE:.0%}",
}
_COMPARED = {"against": "the first backend of the same problem and cache mode that was timed"}


def _edits(records: Sequence[Record]) -> list[str]:
    """One line for each edited tree of sources, with the numbers of its rows unless all come from it."""
    found: dict[str, list[int]] = {}
    for index, record in enumerate(records, 1):
        for edited in (stage.edited for stage in record.stages if stage.edited):
            text = f"source: {edited_text(edited)}, tree {edited.tree[:12]}"
            found.setdefault(text, []).append(index)
    rows = {text: tuple(map(str, dict.fromkeys(numbers))) for text, numbers in found.items()}
    return [f"  {text}" if len(of) == len(records) else f"  {listed(of)}: {text}" for text, of in rows.items()]


def summary(records: Sequence[Record]) -> str:
    """``12 rows: 10 PASSED, 2 WRONG``, in the order of the verdicts' definition."""
    counts = Counter(record.verdict for record in records)
    parts = [f"{counts[v]} {v}" for v in Verdict if counts[v]]
    return counted(len(records), "row") + (f": {', '.join(parts)}" if parts else "")


def _kernel(line: _RecordLine) -> str:
    """Architecture (or the emulated device) and the digest's first 8 digits, which ``--kernel`` accepts."""
    record = line.record
    mark = "*" if record.default_choice else ""
    where = record.device if is_emulated(record.device) else record.arch
    parts = [where, record.kernel.digest[:8] + mark if record.kernel else None]
    return " ".join(part for part in parts if part)


def _sampled(record: Record) -> Measurement | None:
    """The measurement of a row that was timed; None if there is only the time of one launch, which says little."""
    measured = record.measurement
    return None if measured is None or measured.stop is StopReason.SINGLE else measured


def _cache(line: _RecordLine) -> str:
    return line.measured.cache if line.measured else ""


def _time(line: _RecordLine) -> Quantity | None:
    measured = line.measured
    if measured is None:
        return None
    time = time_of(measured.median_ns, 4)
    return Quantity(f"NOISY {time.number}", time.unit) if measured.noise else time


def _flop_rate(line: _RecordLine) -> Quantity | None:
    return flop_rate(line.measured.tflops * 1e12) if line.measured else None


def _byte_rate(line: _RecordLine) -> Quantity | None:
    return byte_rate(line.measured.gbps * 1e9) if line.measured else None


def _peak_share(line: _RecordLine) -> str:
    return percent(line.measured.peak_fraction if line.measured else None)


def _memory(line: _RecordLine) -> str:
    return size(line.record.peak_bytes) if line.compared else ""


def _half_width(line: _RecordLine) -> str:
    """Half the interval's width as a share of the median."""
    measured = line.measured
    ends = measured.ci95_ns if measured else None
    return percent((ends[1] - ends[0]) / 2 / max(1, measured.median_ns)) if measured and ends else ""


def _regret(line: _RecordLine) -> str:
    """The regret, marked where its own noise covers 0."""
    record = line.record
    if record.regret is None:
        return ""
    ends = record.regret_ci95
    sure = ends is not None and (ends[0] > 0 or ends == (0, 0))
    return percent(record.regret) + ("" if sure else " UNSURE")


def _worst_check(checks: Checks | None) -> tuple[str, Check] | None:
    """The output that used most of its budget."""
    found = [(name, check) for name in OUTPUTS if checks and (check := checks[name])]
    return max(found, key=lambda item: item[1].badness, default=None)


def _error(line: _RecordLine) -> str:
    """The output that used most of its budget, and the share of the rows that was compared unless it was every row."""
    record = line.record
    found = _worst_check(record.checks)
    if found is None:
        return ""
    name, check = found
    bad = check.badness
    share = "not finite" if bad == float("inf") else f"{bad:.0%}" if bad <= 1000 else ">1000x"
    compared = min(_shares(record).values())
    return f"{name} {digits(check.row_l2, 2)} ({share})" + ("" if compared == 1 else f", {_of_rows(compared)}")


def _validated(record: Record) -> bool:
    return record.run is not None and record.run.command == "validate"


def _where(line: _RecordLine) -> str:
    """The fill, row and column of a validated row's largest error, and the limit that it comes nearest to."""
    record = line.record
    found = _worst_check(record.checks) if _validated(record) else None
    if found is None:
        return ""
    check = found[1]
    column = "" if check.column is None else f" d={check.column}"
    return f"{check.fill} {check.worst or ''}{column}, {check.limit} limit"


def judged_lines(records: Sequence[Record]) -> list[str]:
    """What ``validate`` did with its rows: one line for all rows with the same fills and repeats."""
    groups: dict[str, list[int]] = {}
    for number, record in enumerate(records, 1):
        if _validated(record) and record.judging is not None:
            fills = list(_shares(record))
            how = f"{counted(len(fills), 'fill')} ({', '.join(fills)}) x {counted(record.judging.repeats, 'launch')}"
            groups.setdefault(how, []).append(number)
    return [
        f"  judged{f' {ranges(those)}' if len(groups) > 1 else ''}: {how}; {_amount([records[n - 1] for n in those])}"
        for how, those in groups.items()
    ]


def _amount(records: Sequence[Record]) -> str:
    """How many rows of which outputs were compared, and what was watched."""
    checks = [named for record in records for fill in record.comparisons for named in fill.checks]
    outputs = ", ".join(name for name in OUTPUTS if any(name == other for other, _ in checks))
    guards = size(sum(record.judging.guard_bytes for record in records if record.judging))
    compared = (
        f"{sum(check.rows for _, check in checks):,} rows of {outputs} compared" if checks else "nothing compared"
    )
    return f"{compared}; inputs and {guards} of guard zones watched"


def _shares(record: Record) -> dict[str, float]:
    """The share of O's rows that was compared, by fill; rows of ``fmha.record/1`` do not tell, and count as all."""
    shares: dict[str, float] = {}
    for check in (check for fill in record.comparisons for _, check in fill.checks):
        share = check.rows / check.rows_total if check.rows_total else 1.0
        shares[check.fill] = min(share, shares.get(check.fill, 1.0))
    return shares


def _of_rows(share: float) -> str:
    """``16 % of rows``; a part is never called 100 % or 0 %."""
    number = share * 100
    text = f"{int(number * 10) / 10:.1f} %" if number >= 99.5 else f"{number:.0f} %" if number >= 1 else "<1 %"
    return f"{text} of rows"


def _sampling(record: Record) -> list[str]:
    """One line that says which fills compared which share of the rows, if they differ."""
    shares = _shares(record)
    parts, least = [fill for fill in shares if shares[fill] < 1], min(shares.values(), default=1.0)
    whole = [fill for fill in shares if fill not in parts]
    if not parts or not whole:
        return []
    return [f"compared: {', '.join(parts)}: {_of_rows(least)}; {', '.join(whole)}: all rows"]


def _against(record: Record) -> str:
    ratio = record.ab or record.baseline
    return "" if ratio is None else in_words(ratio.speed, ratio.ratio)


def _unsure_of_baseline(records: Sequence[Record]) -> list[str]:
    """One line for rows that could not be sure, because they or the baseline have too few processes."""
    found = [(record.baseline.processes, record.baseline.other_processes) for record in records if record.baseline]
    few = sum(min(mine, other) < FEWEST_PROCESSES for mine, other in found if mine is not None and other is not None)
    if not few:
        return []
    needed = f"a difference can be sure only with {FEWEST_PROCESSES} processes or more on either side"
    return [f"  {counted(few, 'row')} cannot be judged: {needed} (--processes 8, for the baseline too)"]


def _lead(record: Record) -> str:
    """By how much the fastest of several backends leads, marked where its lead is not sure or counts as none."""
    if record.lead is None:
        return ""
    mark = {Speed.UNSURE: " UNSURE", Speed.SAME: " SAME"}.get(record.lead.speed, "")
    return f"{inverse(record.lead.ratio):.2f}x{mark}"


_SYMBOL = re.compile(r"\b(_Z\w{60})\w{20,}")
"""A mangled name, which may have a thousand characters; JSON has all of them."""


def _shortened(note: str) -> str:
    return _SYMBOL.sub(r"\1...", note)


def _notes(records: Sequence[Record]) -> list[str]:
    """The lines of all rows, each with the numbers of its rows: a line that several rows share is printed once."""
    found: dict[str, list[int]] = {}
    for number, record in enumerate(records, 1):
        for line in dict.fromkeys(_details(record)):
            found.setdefault(line, []).append(number)
    return [f"  {ranges(numbers)}: " + line.replace("\n", "\n     ") for line, numbers in found.items()]


def _details(record: Record) -> list[str]:
    """For a row that is not good, the reason and the command that reproduces it; for other rows, their notes."""
    good = record.verdict.exit_code is ExitCode.OK
    lines = [reason_text(reason) for reason in folded(record.reasons)]
    worst = _worst_check(record.checks)
    if not good and worst is not None and not worst[1].passed:
        name, check = worst
        lines.append(
            f"{name} under fill {check.fill}: row error {check.row_l2:.3g} of {check.row_l2_budget:.3g} allowed, "
            f"max {check.max_abs:.3g} of {check.max_abs_budget:.3g}, {check.nonfinite} not finite"
            + (f", rms {check.rms:.3g} of {check.rms_budget:.3g}" if check.rms and check.rms_budget else "")
            + (f"; {check.worst}" if check.worst else "")
        )
    lines += [f"fill {n.fill}: {text}" for n in record.fill_notes for text in (n.distrust, *n.notes) if text]
    lines += _sampling(record)
    lines += [line for launch in record.launches for line in launch_lines(launch)]
    brought = {stage.imported_from: None for stage in record.stages if stage.imported_from}
    lines += [f"not built here: imported from {archive}" for archive in brought]
    if record.ab is not None and not record.ab.paired:
        lines.append("timed by itself, not alternating with the row it is compared with")
    lines += [_shortened(note) for note in record.notes if not is_note(note)]
    lines += record.measurement.notes if record.measurement else ()
    if not good:
        last = next(reversed((record.log or "").strip().splitlines()), None)
        told = re.sub(r"^fmha_cli\.\S+: ", "", last or "")  # the class of this tool's own error tells the user nothing
        lines += [f"log ends: {last}"] if last and not any(told in line for line in lines) else []
        lines += [f"saved: {record.saved}"] if record.saved else []
        lines += [f"again: {record.repro}"] if record.verdict is not Verdict.UNSUPPORTED else []
    return lines


def _opening(document: Report) -> EnvironmentLine:
    return EnvironmentLine(environment=document.environment)


def _said_of_kernel(word: str) -> str:
    """A word of the cell ``kernel`` in the line of what all rows share."""
    return f"kernel {word}" if _DIGEST.fullmatch(word) else word


_COLORS: Mapping[str, Color] = {
    one: Color.YELLOW if one.proves_nothing else Color.GREEN if one.good else Color.RED for one in Verdict
}
_DIGEST = re.compile(r"[0-9a-f]{8}\*?")
_COLUMNS = (
    Column("#", lambda line: str(line.number), number=True, called="row"),
    *LAYER_COLUMNS,
    Column(
        "problem", lambda line: problem_text(line.record.problem), common=spelled, words=True, fit=Fit.FOLD, least=20
    ),
    Column("backend", lambda line: line.record.backend or "", path="backend", common="{}".format, rank=1),
    Column("kernel", _kernel, path="kernel.digest", common=_said_of_kernel, words=True, rank=2),
    Column("cache", _cache, path="measurement.cache", common="{} cache".format, rank=1),
    Column("verdict", lambda line: line.record.verdict, path="verdict", paint=_COLORS),
    Column("time", _time, path="measurement.median_ns", number=True),
    Column("±95 % [%]", _half_width, number=True, called="ci95", rank=4),
    Column("FLOP/s", _flop_rate, path="measurement.tflops", called="tflops", number=True, rank=5),
    Column("B/s", _byte_rate, path="measurement.gbps", called="gbps", number=True, rank=7),
    Column("peak [%]", _peak_share, path="measurement.peak_fraction", number=True, rank=6),
    Column("regret [%]", _regret, path="regret", number=True, rank=1),
    Column("error (of budget)", _error, fit=Fit.FOLD, rank=3),
    Column("memory", _memory, path="peak_bytes", number=True, rank=8),
    Column("worst", _where, fit=Fit.FOLD, rank=3),
    Column("against", lambda line: _against(line.record), fit=Fit.FOLD, rank=2),
    Column("winner", lambda line: _lead(line.record), path="lead.ratio"),
)


DOCUMENTS = (Document(Report, records_view, rows="records", columns=_COLUMNS, opening=_opening),)
