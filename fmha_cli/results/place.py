"""Where the store of results is: in the user's data folder, unless the user names another place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fmha_cli.domain.errors import no_home
from fmha_cli.system.files import named_path

FILE = "results.sqlite"


def store_path(explicit: str | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The path of the store: the argument, else ``FMHA_STORE``, else ``$XDG_DATA_HOME/fmha/results.sqlite``, else the same in
    the platform's data folder.

    The path is absolute and may not exist yet. A relative ``XDG_DATA_HOME`` counts as unset, as its specification demands.

    Raises:
        EnvironmentProblem: X042, none is named, and the user has no home.
    """
    env = os.environ if environ is None else environ
    if named := explicit or env.get("FMHA_STORE"):
        return named_path(named)
    xdg = env.get("XDG_DATA_HOME", "")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "fmha" / FILE
    from platformdirs import user_data_path

    try:
        return user_data_path("fmha", appauthor=False).absolute() / FILE
    except RuntimeError as fault:
        raise no_home("set HOME, or name the store: --store FILE; --no-store goes without") from fault
