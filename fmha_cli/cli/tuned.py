"""``fmha tune ls``, ``rm``, ``verify`` and ``export``: the remembered kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fmha_cli.bench.entry import RememberedChoice, Result
from fmha_cli.bench.roofline import CacheState
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.tune import OWN_FORMS
from fmha_cli.cli.output import Output
from fmha_cli.cli.request import found_by, own_options, request_of
from fmha_cli.cli.store import store_of
from fmha_cli.discovery.builtins import exporter_of
from fmha_cli.discovery.select import select
from fmha_cli.domain.errors import FmhaError, UsageError
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.tuning import Exporting, TunedKernel
from fmha_cli.report.documents.tuned import TunedEntry, tuned_document
from fmha_cli.report.form import Format
from fmha_cli.report.lines import counted
from fmha_cli.report.target import Target
from fmha_cli.results.store import Store, is_there
from fmha_cli.results.tuned import entries, remove_entries


def _all(call: CliCall) -> tuple[RememberedChoice, ...]:
    """Every entry of the store; none without a store."""
    path = store_of(call)
    if not is_there(path):
        return ()
    with Store.open(path, create=False, reads=True) as store:
        return entries(store)


def _named(call: CliCall) -> tuple[RememberedChoice, ...]:
    """The entries that the arguments name; all without arguments.

    Raises:
        UsageError: E067, none has an id that begins so.
    """
    every, names = _all(call), list(call.arguments.get("entries") or ())
    for name in names:
        if not any(entry.digest.startswith(name) for entry in every):
            help = "`fmha tune ls` shows the ids"
            raise UsageError(
                f"{name}: no tuned problem has an id that begins so", code="E067", where="entries", help=help
            )
    return tuple(entry for entry in every if not names or entry.digest.startswith(tuple(names)))


def _print(call: CliCall, action: str, rows: Sequence[TunedEntry], *, dry_run: bool = False) -> None:

    call.output.document(tuned_document(action, str(store_of(call)), rows, dry_run=dry_run))  # type: ignore[arg-type]


def ls(call: CliCall) -> None:
    """Every tuned problem."""
    _print(call, "ls", [TunedEntry.of(entry) for entry in _named(call)])


def rm(call: CliCall) -> None:
    """Forget tuned problems."""
    gone, dry = _named(call), call.settings.on("dry_run")
    if gone and not dry:
        with Store.open(store_of(call), create=False) as store:
            remove_entries(store, gone)
    elif gone:
        call.console.say("a dry run: nothing was removed")
    _print(call, "rm", [TunedEntry.of(entry) for entry in gone], dry_run=dry)


def verify(call: CliCall) -> None:
    """Whether each entry would be used here and now, and if not, why. An entry that would not be used is not a failure."""
    _print(call, "verify", [_verified(call, entry) for entry in _named(call)])


def _verified(call: CliCall, entry: RememberedChoice) -> TunedEntry:

    from fmha_cli.run.tuned_choice import GONE, chooser_of  # numpy: 100 ms

    backend = entry.default.partition(":")[0]
    try:
        request = replace(request_of(call), backend=backend)
        found = found_by(call, request.wanted)
        selection = select(entry.problem, call.registry, found, request.wanted)
        chooser = chooser_of(request, call.registry, found, lambda family: (entry,))
        cache = CacheState(entry.scope.cache)
        advice = None if chooser is None else chooser.advice(entry.problem, selection, cache)
    except FmhaError as fault:
        return TunedEntry.of(entry, counts=False, reasons=(Reason(GONE, fault.what),))
    if advice is None:
        return TunedEntry.of(entry, counts=False, reasons=(Reason(GONE, f"{backend} chooses no kernel here"),))
    return TunedEntry.of(entry, counts=advice.used, reasons=advice.reasons)


def export(call: CliCall) -> None:
    """Write tuned problems into a file, in this tool's forms or in those of an upstream project."""
    form = call.settings.text("format") or OWN_FORMS[0]
    chosen = _named(call)
    if form not in OWN_FORMS:
        _upstream(call, form, chosen)
        return
    rows = [TunedEntry.of(entry) for entry in chosen]
    if form == Format.JSON:
        Output(Format.JSON, call.output.path, color=False).document(tuned_document("export", str(store_of(call)), rows))
    else:
        _print(call, "export", rows)


def _upstream(call: CliCall, form: str, chosen: Sequence[RememberedChoice]) -> None:
    """A file in the form of an upstream project.

    Raises:
        UsageError: E066, nothing of that project was tuned, or these problems cannot share a file.
    """
    name = exporter_of(form)
    backend = call.registry.backend(name)
    assert isinstance(backend, Exporting)  # a test compares the table with the backends
    mine = [entry for entry in chosen if entry.kernel.partition(":")[0] == name and entry.result is Result.TUNED]
    if not mine:
        why = f"{counted(len(chosen), 'tuned problem')}, none with a kernel of {name} that is not the default"
        raise UsageError(
            f"--format {form}: nothing to export",
            code="E066",
            where="--format",
            why=why,
            help="`fmha tune ls` shows what was tuned",
        )
    kernels = [TunedKernel(problem=entry.problem, kernel=call.registry.parse_kernel(entry.kernel)) for entry in mine]
    made = backend.export_tuned(form, kernels, own_options(call))
    path = call.output.path
    if path is None:
        call.output.text(made.text.rstrip("\n"))
    else:
        target = Target(Path(path), "-o")
        with target.opened() as file:
            file.write(made.text.encode("utf-8"))
    proof = f"checked: {made.proof}" if made.proof is not None else f"NOT_RUN: {made.why}"
    call.console.say(f"{counted(len(mine), 'tuned problem')} exported; {proof}")
