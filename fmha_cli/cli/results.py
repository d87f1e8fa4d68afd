"""``fmha results``: ls, show, import, export, label, rm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.options import DRY_RUN, FILTER, ROWS, STORE
from fmha_cli.cli.storing import store_of
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.flags import FlagKind

if TYPE_CHECKING:
    from fmha_cli.report.documents.results import Action, RunEntry
    from fmha_cli.results.loading import Summary
    from fmha_cli.results.store import Store

_WHAT = "id, label, rev:COMMIT, latest, latest~1 (the one before), or a file of --json, --jsonl or a journal"
RUN = Argument("run", _WHAT, required=True, complete="runs")
RUNS = Argument("runs", "ids, labels, rev:COMMIT, latest, latest~1", required=True, many=True, complete="runs")
FILES = Argument("files", "Files of --json or --jsonl, or journals", required=True, many=True)
TEXT = Argument("text", "The label; none takes it away", blank=True)

_to = partial(Opt, kind=FlagKind.FILE, panel="Output", flag_only=True)
TARGETS = (
    _to("parquet", help="Write a Parquet file (pip install fmha[parquet])"),
    _to("jsonl", help="Write one JSON record per line"),
    _to("csv", help="Write comma-separated values"),
)


def _entry(run: Summary) -> RunEntry:
    from fmha_cli.report.documents.results import RunEntry

    return RunEntry(
        id=run.about.id,
        started=run.about.started or None,
        ended=run.ended,
        command=run.about.command,
        label=run.about.label,
        revision=run.about.revision,
        dirty=run.about.dirty,
        argv=run.argv,
        fmha=run.fmha,
        records=run.records,
        verdicts=run.verdicts,
        devices=run.devices,
    )


def _print(call: CliCall, action: Action, runs: list[Summary], path: Path, **more: int) -> int:
    from fmha_cli.report.documents.results import results_document
    from fmha_cli.results.store import is_there

    held = path.stat().st_size if is_there(path) else None
    call.output.document(results_document(action, str(path), held, map(_entry, runs), **more))
    return int(ExitCode.OK)


def ls(call: CliCall) -> int:
    """The runs, the newest first. Without a store there are none."""
    from fmha_cli.results.loading import summaries
    from fmha_cli.results.store import Store, is_there

    path = store_of(call)
    if not is_there(path):
        return _print(call, "ls", [], path)
    with Store.open(path, create=False, reads=True) as store:
        return _print(call, "ls", list(summaries(store)), path)


def show(call: CliCall) -> int:
    """The rows of a run, as the command that made them printed them. The exit code does not depend on the verdicts."""
    from fmha_cli.report.documents.report import report_document
    from fmha_cli.report.parts import NO_ENVIRONMENT
    from fmha_cli.results.filtering import filtered
    from fmha_cli.results.run import load_run

    run = load_run(str(call.argument("run")), store_of(call))
    records = filtered(run.records, call.settings.many("filter"))
    call.output.document(report_document(records, run.environment or NO_ENVIRONMENT))
    return int(ExitCode.OK)


def import_(call: CliCall) -> int:
    """Bring the rows of files into the store; rows that it has already are counted and ignored."""
    from fmha_cli.results.importing import bring
    from fmha_cli.results.loading import summaries
    from fmha_cli.results.store import Store

    paths = [Path(text) for text in call.arguments["files"]]
    with Store.open(store_of(call)) as store:
        found = [bring(store, path) for path in paths]
        ids = {id for one in found for id in one.runs}
        runs = [run for run in summaries(store) if run.about.id in ids]
        added, present = (sum(getattr(one, name) for one in found) for name in ("added", "present"))
        return _print(call, "import", runs, store.path, added=added, present=present)


def export(call: CliCall) -> int:
    """Write the rows of a run into a file.

    Raises:
        UsageError: E002, no target, or several.
    """
    from fmha_cli.report.lines import counted
    from fmha_cli.report.target import Target
    from fmha_cli.results.exporting import EXPORTS
    from fmha_cli.results.filtering import filtered
    from fmha_cli.results.run import load_run

    given = {name: text for name in EXPORTS if (text := call.settings.text(name))}
    if len(given) != 1:
        help = "one of --parquet FILE, --jsonl FILE, --csv FILE"
        what = "results export writes one file"
        raise UsageError(what, code="E002", where=f"--{next(iter(given), 'parquet')}", help=help)
    ((form, text),) = given.items()
    target = Target(Path(text), f"--{form}")
    target.check()
    run = load_run(str(call.argument("run")), store_of(call))
    run = replace(run, records=filtered(run.records, call.settings.many("filter")))
    data = EXPORTS[form](run)
    with target.opened() as file:
        file.write(data)
    call.console.say(f"{counted(len(run.records), 'row')} of {run.name} written to {text}")
    return int(ExitCode.OK)


def _named(store: Store, names: list[str]) -> list[Summary]:
    """The runs of some names, each once. Raises UsageError: E051, the run does not exist."""
    from fmha_cli.results.loading import summaries
    from fmha_cli.results.naming import named

    runs = summaries(store)
    return list({run.number: run for run in (named(runs, name) for name in names)}.values())


def label(call: CliCall) -> int:
    """Give a run a label, or take it away."""
    from fmha_cli.results.editing import set_label
    from fmha_cli.results.loading import summaries
    from fmha_cli.results.run import opened_for

    name = str(call.argument("run"))
    with opened_for(name, store_of(call)) as store:
        (run,) = _named(store, [name])
        set_label(store, run, call.argument("text") or None)
        changed = [other for other in summaries(store) if other.number == run.number]
        return _print(call, "label", changed, store.path)


def rm(call: CliCall) -> int:
    """Remove runs with their rows."""
    from fmha_cli.results.editing import remove
    from fmha_cli.results.run import opened_for

    names = list(call.arguments["runs"])
    with opened_for(names[0], store_of(call)) as store:
        runs = _named(store, names)
        dry = call.settings.on("dry_run")
        removed = sum(run.records for run in runs) if dry else remove(store, runs)
        if dry:
            call.console.say("a dry run: nothing was removed")
        return _print(call, "rm", runs, store.path, removed=removed, dry_run=dry)


def _part(
    run: Callable[[CliCall], int], summary: str, *arguments: Argument, options: tuple[Opt, ...] = (), detail: str = ""
) -> tuple[str, CommandSpec]:
    shown = options if options[:3] == TARGETS else (*options, *ROWS)
    return summary, CommandSpec(run, (*shown, STORE), arguments, detail=detail)


_KEYS = (
    "Keys of --filter: the members of the problem (dtype, mask, seqlen_q, ...), backend, device, arch, kernel, digest, family, "
    "cache, verdict, selected_by, model, layer_kind."
)

COMMANDS = {
    "results": CommandSet(
        {
            "ls": _part(ls, "List the runs, the newest first"),
            "show": _part(show, "Print the rows of a run again", RUN, options=(FILTER,), detail=_KEYS),
            "import": _part(import_, "Bring the rows of files and journals into the store", FILES),
            "export": _part(
                export, "Write the rows of a run into a file", RUN, options=(*TARGETS, FILTER), detail=_KEYS
            ),
            "label": _part(label, "Give a run a label, or take it away", RUN, TEXT),
            "rm": _part(rm, "Remove runs with their rows", RUNS, options=(DRY_RUN,)),
        }
    )
}
