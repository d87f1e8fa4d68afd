"""``fmha report``: runs as one HTML page with plots and tables, and as SVG files."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.bench.difference import SureRule
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.html_output import Paper
from fmha_cli.cli.results import loaded
from fmha_cli.domain.errors import UsageError
from fmha_cli.report.documents.compare import Compare
from fmha_cli.results.comparison import compared
from fmha_cli.results.conditions import USUAL
from fmha_cli.results.documents import compare_document
from fmha_cli.results.run import KeptRun


def report(call: CliCall) -> None:
    """Write the page.

    Raises:
        UsageError: E002, no run, or nothing to write; E050, E051, no such run.
        EmptySelection: F002, the filter leaves nothing; E057, nothing corresponds.
        EnvironmentProblem: X040, it cannot be written; X052, a library is missing.
    """
    paper = _paper(call)
    sides = _sides(call)
    names = list(dict.fromkeys((*(call.arguments.get("runs") or ()), *sides)))
    if not names:
        help = "fmha report RUN... -o report.html; fmha results ls lists the runs"
        raise UsageError("a report is about runs", code="E002", where="fmha report", help=help)
    paper.check()
    with call.console.progress("report"):
        runs = {name: loaded(call, name) for name in names}
        comparison = _compared(runs[sides[0]], runs[sides[1]]) if sides else None
        title = call.settings.text("title") or f"fmha: {', '.join(names)}"
        paper.write(call, title, list(runs.values()), comparison)


def _paper(call: CliCall) -> Paper:
    """What is to be written. Raises UsageError: E002, nothing."""
    path, folder = call.settings.text("output"), call.settings.text("svg")
    if path is None and folder is None:
        help = "-o report.html, or --svg DIR for the plots alone"
        raise UsageError("a report is written into a file", code="E002", where="--output", help=help)
    page = None if path is None else (Path("/dev/stdout" if path == "-" else path), "-o")
    return Paper(page, None if folder is None else Path(folder))


def _sides(call: CliCall) -> tuple[str, ...]:
    """The names of the two runs of ``--compare``; none without it. Raises UsageError: E002, given twice."""
    names = call.settings.many("compare")
    if len(names) not in (0, 2):
        where = call.settings.where("compare")
        raise UsageError(f"{where} takes two runs", code="E002", where=where, help="--compare BEFORE AFTER")
    return names


def _compared(before: KeptRun, after: KeptRun) -> Compare:

    found = compared(before.records, after.records, SureRule(interleaved=False), where="--compare")
    return compare_document(found, before, after, USUAL)
