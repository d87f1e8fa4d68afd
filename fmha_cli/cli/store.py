"""The store of results that a command line names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands import MAY_STAND_ALONE
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.results.place import store_path

if TYPE_CHECKING:
    from fmha_cli.run.tuned_choice import EntriesOf

READ_WAIT_S = 5.0
"""How long a command waits for another process's transaction before it goes on without the tuned kernels."""


def store_of(call: CliCall) -> Path:
    """The path of the store. ``--store`` without a file means that in the user's data folder, also where a variable or a file
    says no."""
    text = call.settings.text("store")
    environ = {name: value for name, value in call.environ.items() if name != "FMHA_STORE"}  # the settings have it
    return store_path(None if text == MAY_STAND_ALONE["--store"] else text, environ)


def tuned_of(call: CliCall) -> EntriesOf | None:
    """The source of tuned entries for a family of problems; None without a store. Whatever is wrong with it costs one
    line.
    """
    if call.settings.on("no_store"):
        return None
    try:
        path = store_of(call)
    except EnvironmentProblem:  # a user without a home; kept_in says so
        return None
    if not os.path.exists(path):
        return None
    broken = False

    def entries_of(family: str) -> Sequence[RememberedChoice]:
        nonlocal broken

        if broken:
            return ()
        from fmha_cli.results.store import Store  # sqlite3: 13 ms
        from fmha_cli.results.tuned import entries

        try:
            with Store.open(path, create=False, reads=True, wait_s=READ_WAIT_S) as store:
                return entries(store, family)
        except EnvironmentProblem as fault:
            broken = True
            call.console.warn(f"no tuned kernel is used: {fault.what} ({fault.where}: {fault.why}); {fault.help}")
            return ()

    return entries_of


def kept_in(call: CliCall) -> Path | None:
    """The store that takes the rows of a run; None with ``--no-store``.

    Raises:
        UsageError: E002, ``--store`` and ``--no-store`` from one source.
    """
    if call.settings.on("no_store"):
        if call.settings.text("store") is not None:
            raise UsageError("--store and --no-store contradict each other", code="E002", where="--no-store")
        return None
    try:
        return store_of(call)
    except EnvironmentProblem as fault:
        call.console.warn(f"results are not kept: {fault.what}; {fault.help}")
        return None
