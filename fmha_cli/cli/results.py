"""``fmha results ls``, and how all of ``fmha results`` print runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.store import store_of
from fmha_cli.domain.codec import taken_from
from fmha_cli.report.documents.results import Action, RunEntry, results_document
from fmha_cli.results.filtering import filtered
from fmha_cli.results.loading import Summary, summaries
from fmha_cli.results.run import KeptRun, load_run
from fmha_cli.results.store import Store, is_there


def loaded(call: CliCall, name: str) -> KeptRun:
    """A run, with the records that ``--filter`` lets through."""
    run = load_run(name, store_of(call))
    return replace(run, records=filtered(run.records, call.settings.many("filter")))


def _entry(run: Summary) -> RunEntry:

    return taken_from(run, RunEntry, **{**vars(run.about), "started": run.about.started or None})


def print_runs(call: CliCall, action: Action, runs: list[Summary], path: Path, **more: int) -> None:
    """Print ``fmha.results/1`` about some runs of the store at a path."""
    held = path.stat().st_size if is_there(path) else None
    call.output.document(results_document(action, str(path), held, map(_entry, runs), **more))


def ls(call: CliCall) -> None:
    """The runs, the newest first. Without a store there are none."""
    path = store_of(call)
    if not is_there(path):
        print_runs(call, "ls", [], path)
        return
    with Store.open(path, create=False, reads=True) as store:
        print_runs(call, "ls", list(summaries(store)), path)
