"""``fmha report``: runs as one HTML page with plots and tables, and as SVG files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Argument, CommandSpec, Opt
from fmha_cli.cli.options import FILTER, OUTPUT_FILE, STORE
from fmha_cli.cli.paging import Paper, content_of
from fmha_cli.cli.storing import store_of
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.flags import FlagKind

if TYPE_CHECKING:
    from fmha_cli.report.documents.compare import Compare
    from fmha_cli.results.run import KeptRun

COMPARE = Opt(
    "compare", FlagKind.TEXT, "Compare two runs, as fmha compare does", metavar="BEFORE AFTER", repeats=True, pair=True
)
TITLE = Opt("title", FlagKind.TEXT, "Title of the page [default: the names of the runs]", flag_only=True)
SVG = Opt(
    "svg", FlagKind.FILE, "Write each plot as an SVG file into a folder", panel="Output", metavar="DIR", flag_only=True
)


def report(call: CliCall) -> int:
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
        runs = {name: _loaded(call, name) for name in names}
        comparison = _compared(runs[sides[0]], runs[sides[1]]) if sides else None
        title = call.settings.text("title") or f"fmha: {', '.join(names)}"
        content = content_of(call, title, list(runs.values()), comparison)
        paper.write(call, content)
    return int(ExitCode.OK)


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


def _loaded(call: CliCall, name: str) -> KeptRun:
    from fmha_cli.results.filtering import filtered
    from fmha_cli.results.run import load_run

    run = load_run(name, store_of(call))
    return replace(run, records=filtered(run.records, call.settings.many("filter")))


def _compared(before: KeptRun, after: KeptRun) -> Compare:
    from fmha_cli.bench.difference import SureRule
    from fmha_cli.results.comparison import compared
    from fmha_cli.results.conditions import USUAL
    from fmha_cli.results.documents import SideSource, compare_document

    found = compared(before.records, after.records, SureRule(interleaved=False), where="--compare")
    sources = SideSource(before.name, before.records), SideSource(after.name, after.records)
    return compare_document(found, *sources, USUAL)


COMMANDS = {
    "report": CommandSpec(
        report,
        options=(COMPARE, FILTER, TITLE, OUTPUT_FILE.says("The HTML file, written atomically"), SVG, STORE),
        arguments=(
            Argument(
                "runs",
                "Runs: ids, labels, rev:COMMIT, latest~1 in the store, or files of --json, --jsonl or journals",
                many=True,
                complete="runs",
            ),
        ),
        detail="The page is complete in itself: it fetches nothing, and has light and dark colours. Plots: throughput against the "
        "sequence length, roofline, regret, history over the runs of the store, comparison, samples by process, verdicts by reason. "
        "Below them: the rows, each with the line that gives it again; rows without a time and why; the environment. "
        "It needs the extra report: pip install 'fmha[report]'. The exit code does not depend on the verdicts.",
    ),
}
