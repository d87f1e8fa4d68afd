"""Shell completion of the values of options. It imports no backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.entry_points import installed_entry_points
from fmha_cli.discovery.models import presets
from fmha_cli.domain.arch import arch_names
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.features import CLOSED_FILLS, FILLS
from fmha_cli.report.document import names

ALONE = ("auto", "all")
"""Values of ``--backend`` that cannot be an element of a list."""


def _backends() -> Iterable[str]:
    return (*ALONE, *BUILTINS, *(entry.name for entry in installed_entry_points()))


def _models() -> Iterable[str]:
    for name, model in presets().items():
        yield name
        yield from (f"{name}:{one.kind}" for one in model.layers if len(model.layers) > 1)


def _runs() -> Iterable[str]:
    """Labels, ``latest``, and the ids of the newest runs in the store."""
    from fmha_cli.results.loading import summaries  # sqlite3 and what rows are made of: 25 ms
    from fmha_cli.results.place import store_path
    from fmha_cli.results.store import Store

    try:
        path = store_path()
        with Store.open(path, create=False, reads=True, wait_s=1.0) as store:
            runs = summaries(store)
    except FmhaError:
        runs = ()
    labels = dict.fromkeys(run.about.label for run in runs if run.about.label)
    return (*labels, "latest", *(run.about.id[:8] for run in runs[:20]))


_COMPLETIONS: dict[str, Callable[[], Iterable[str]]] = {
    "archs": arch_names,
    "backends": _backends,
    "fills": lambda: (*FILLS, *CLOSED_FILLS),
    "models": _models,
    "runs": _runs,
    "schemas": names,
}


def completer(
    name: str | tuple[str, ...] | None, choices: Iterable[str], lists: bool
) -> Callable[[str], list[str]] | None:
    """The completion of one option, of whose values ``name`` is a set or the name; in a comma list the last element is completed."""
    fixed = name if isinstance(name, tuple) else tuple(choices)
    values = _COMPLETIONS[name] if isinstance(name, str) else (lambda: fixed) if fixed else None
    if values is None:
        return None

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if lists else ("", "", incomplete)
        taken = before.split(",") if before else []
        offered = [value for value in values() if not taken or value not in (*ALONE, *taken)]
        return [f"{before}{comma}{value}" for value in offered if value.startswith(last)]

    return complete
