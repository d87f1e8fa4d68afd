"""``fmha.results/1``: one document for every action of ``fmha results`` that is about runs as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fmha_cli.domain.members import Count
from fmha_cli.domain.quantities import size
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import counted, short
from fmha_cli.report.table import Table, table_of

Action = Literal["ls", "import", "label", "rm"]


def _moment(text: str | None) -> str:
    return (text or "").replace("T", " ").removesuffix("Z")[:16]


def _verdicts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[verdict.value]} {verdict.value}" for verdict in Verdict if counts.get(verdict.value))


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """A run in the store; ``started`` and ``ended`` are ISO 8601 in UTC."""

    id: Annotated[str, Column("run", short)]
    started: Annotated[str | None, Column("started (UTC)", _moment)]
    ended: Annotated[str | None, "null: it was killed, is still going, or was imported"]
    command: Annotated[str | None, Column("command", common="{}".format, rank=2)]
    label: Annotated[str | None, Column("label", fit=Fit.MIDDLE, least=10)]
    revision: Annotated[str | None, "of the user's repository", Column("rev", short, rank=3)]
    dirty: Annotated[bool | None, "a tracked file differed from the revision", Column("dirty", rank=5)]
    argv: Annotated[tuple[str, ...], "words of the command line after fmha"]
    fmha: Annotated[str | None, "version that wrote it"]
    records: Annotated[Count, Column("rows", number=True)]
    verdicts: Annotated[
        Mapping[str, Count], "verdict -> number of records", Column("verdicts", _verdicts, fit=Fit.FOLD)
    ]
    devices: Annotated[tuple[str, ...], "on which rows ran", Column("devices", fit=Fit.FOLD, rank=4)]


@dataclass(frozen=True, kw_only=True)
class ResultsPage:
    """What results ls, import, label and rm print with --json; members that an action does not use are null."""

    schema: Literal["fmha.results/1"] = "fmha.results/1"
    action: Action
    store: Annotated[str, "path"]
    bytes: Annotated[Count | None, "size of the store; null: there is none"]
    count: Annotated[Count, "of runs"]
    runs: Annotated[tuple[RunEntry, ...], "ls: all, newest first; others: those that the action was about"]
    added: Annotated[Count | None, "import: records that the store did not have"] = None
    present: Annotated[Count | None, "import: records that the store had already"] = None
    removed: Annotated[Count | None, "rm: records that were, or would be, removed"] = None
    dry_run: Annotated[bool, "rm: nothing was removed"] = False

    json_later: ClassVar[tuple[str, ...]] = ("dry_run",)


def results_document(
    action: Action, store: str, bytes: int | None, runs: Iterable[RunEntry], **more: Any
) -> ResultsPage:
    """The document of an action; ``more`` are the members that it uses."""
    rows = tuple(runs)
    return ResultsPage(action=action, store=store, bytes=bytes, count=len(rows), runs=rows, **more)


def results_view(document: ResultsPage) -> Table:
    """One line for each run."""
    done = {
        "ls": "",
        "import": f": {counted(document.added or 0, 'row')} added, {document.present} there already",
        "label": " labelled",
        "rm": f": {counted(document.removed or 0, 'row')} {'would be ' if document.dry_run else ''}removed",
    }[document.action]
    summary = f"{counted(document.count, 'run')}{done}; {document.store}, {size(document.bytes or 0)}"
    return table_of(RunEntry, document.runs, summary)


DOCUMENTS = (Document(ResultsPage, results_view, rows="runs"),)
