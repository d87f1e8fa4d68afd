"""``fmha results``: ls, label and rm."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.store import store_of
from fmha_cli.domain.errors import ExitCode
from fmha_cli.report.documents.results import Action, RunEntry, results_document
from fmha_cli.results.editing import remove, set_label
from fmha_cli.results.loading import Summary, summaries
from fmha_cli.results.naming import named
from fmha_cli.results.store import Store, is_there


def _entry(run: Summary) -> RunEntry:

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


def print_runs(call: CliCall, action: Action, runs: list[Summary], path: Path, **more: int) -> int:
    """Print ``fmha.results/1`` about some runs of the store at a path."""
    held = path.stat().st_size if is_there(path) else None
    call.output.document(results_document(action, str(path), held, map(_entry, runs), **more))
    return int(ExitCode.OK)


def ls(call: CliCall) -> int:
    """The runs, the newest first. Without a store there are none."""
    path = store_of(call)
    if not is_there(path):
        return print_runs(call, "ls", [], path)
    with Store.open(path, create=False, reads=True) as store:
        return print_runs(call, "ls", list(summaries(store)), path)


def _named(store: Store, names: list[str]) -> list[Summary]:
    """The runs of some names, each once. Raises UsageError: E051, the run does not exist."""
    runs = summaries(store)
    return list({run.number: run for run in (named(runs, name) for name in names)}.values())


def label(call: CliCall) -> int:
    """Give a run a label, or take it away."""
    name = str(call.argument("run"))
    from fmha_cli.results.run import opened_for  # 15 ms, which ls does without

    with opened_for(name, store_of(call)) as store:
        (run,) = _named(store, [name])
        set_label(store, run, call.argument("text") or None)
        changed = [other for other in summaries(store) if other.number == run.number]
        return print_runs(call, "label", changed, store.path)


def rm(call: CliCall) -> int:
    """Remove runs with their rows."""
    names = list(call.arguments["runs"])
    from fmha_cli.results.run import opened_for

    with opened_for(names[0], store_of(call)) as store:
        runs = _named(store, names)
        dry = call.settings.on("dry_run")
        removed = sum(run.records for run in runs) if dry else remove(store, runs)
        if dry:
            call.console.say("a dry run: nothing was removed")
        return print_runs(call, "rm", runs, store.path, removed=removed, dry_run=dry)
