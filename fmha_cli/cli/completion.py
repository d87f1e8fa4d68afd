"""What the shell offers for the values of options. Nothing here imports a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _archs() -> Iterable[str]:
    from fmha_cli.arch import arch_names

    return arch_names()


def _backends() -> Iterable[str]:
    from fmha_cli.entries import installed_entry_points
    from fmha_cli.registry import BUILTINS

    return ("auto", *BUILTINS, *(entry.name for entry in installed_entry_points()))


def _schemas() -> Iterable[str]:
    from fmha_cli.report.schemas import names

    return names()


def _dtypes() -> Iterable[str]:
    from fmha_cli.dtypes import DType

    return (d.value for d in DType)


def _features(kind: str) -> Callable[[], Iterable[str]]:
    def values() -> Iterable[str]:
        from fmha_cli import features

        return (member.value for member in getattr(features, kind))

    return values


def _masks() -> Iterable[str]:
    return ("none", "causal", "causal-tl", "window:", "window-tl:", "generic:")


def _fills() -> Iterable[str]:
    from fmha_cli.walk.request import FILLS

    return FILLS


_COMPLETIONS: dict[str, Callable[[], Iterable[str]]] = {
    "archs": _archs,
    "backends": _backends,
    "directions": _features("Direction"),
    "dtypes": _dtypes,
    "fills": _fills,
    "layouts": _features("Layout"),
    "masks": _masks,
    "qscales": _features("QScale"),
    "schemas": _schemas,
}


def completer(name: str | None, choices: Iterable[str], lists: bool) -> Callable[[str], list[str]] | None:
    """The completion of one option; in a comma list the last element is completed."""
    fixed = tuple(choices)
    values = _COMPLETIONS[name] if name else (lambda: fixed) if fixed else None
    if values is None:
        return None

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if lists else ("", "", incomplete)
        return [f"{before}{comma}{value}" for value in values() if value.startswith(last)]

    return complete
