"""``fmha results show``, ``import``, ``export``, ``label`` and ``rm``."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.results import loaded, print_runs
from fmha_cli.cli.store import store_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.lines import counted
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.report.target import Target
from fmha_cli.results.editing import remove, set_label
from fmha_cli.results.exporting import EXPORTS
from fmha_cli.results.importing import bring
from fmha_cli.results.loading import Summary, summaries
from fmha_cli.results.naming import named
from fmha_cli.results.run import opened_for
from fmha_cli.results.store import Store


def show(call: CliCall) -> None:
    """The rows of a run, as the command that made them printed them. The exit code does not depend on the verdicts."""
    run = loaded(call, str(call.argument("run")))
    call.output.document(report_document(run.records, run.environment or NO_ENVIRONMENT))


def import_(call: CliCall) -> None:
    """Bring the rows of files into the store; rows that it has already are counted and ignored."""
    paths = [Path(text) for text in call.arguments["files"]]
    with Store.open(store_of(call)) as store:
        ids, added, present = zip(*(bring(store, path) for path in paths), strict=True)
        every = set().union(*ids)
        runs = [run for run in summaries(store) if run.about.id in every]
        print_runs(call, "import", runs, store.path, added=sum(added), present=sum(present))


def export(call: CliCall) -> None:
    """Write the rows of a run into a file.

    Raises:
        UsageError: E002, no target, or several.
    """
    given = {name: text for name in EXPORTS if (text := call.settings.text(name))}
    if len(given) != 1:
        help = f"one of {', '.join(f'--{name} FILE' for name in EXPORTS)}"
        what = "results export writes one file"
        raise UsageError(what, code="E002", where=f"--{next(iter(given), 'parquet')}", help=help)
    ((form, text),) = given.items()
    target = Target(Path(text), f"--{form}")
    target.check()
    run = loaded(call, str(call.argument("run")))
    data = EXPORTS[form](run)
    with target.opened() as file:
        file.write(data)
    call.console.say(f"{counted(len(run.records), 'row')} of {run.name} written to {text}")


def _named(store: Store, names: list[str]) -> list[Summary]:
    """The runs of some names, each once. Raises UsageError: E051, the run does not exist."""
    runs = summaries(store)
    return list({run.number: run for run in (named(runs, name) for name in names)}.values())


def label(call: CliCall) -> None:
    """Give a run a label, or take it away."""
    name = str(call.argument("run"))

    with opened_for(name, store_of(call)) as store:
        (run,) = _named(store, [name])
        set_label(store, run, call.argument("text") or None)
        changed = [other for other in summaries(store) if other.number == run.number]
        print_runs(call, "label", changed, store.path)


def rm(call: CliCall) -> None:
    """Remove runs with their rows."""
    names = list(call.arguments["runs"])

    with opened_for(names[0], store_of(call)) as store:
        runs = _named(store, names)
        dry = call.settings.on("dry_run")
        removed = sum(run.records for run in runs) if dry else remove(store, runs)
        if dry:
            call.console.say("a dry run: nothing was removed")
        print_runs(call, "rm", runs, store.path, removed=removed, dry_run=dry)
