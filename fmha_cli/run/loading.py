"""Load a backend or an emulator from an entry point's text, in the worker."""

from __future__ import annotations

import pkgutil
from typing import Any

from fmha_cli.domain.emulation import Emulator
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import Backend

_HOOKS: dict[type, str] = {Backend: "fmha_register_backends", Emulator: "fmha_register_emulators"}


def load(entry: str, name: str, kind: type) -> Any:
    """The backend or emulator ``name`` behind an entry point.

    Args:
        entry: ``module`` or ``module:attribute``; a module or object with the hook that registers backends or emulators, or
            the backend or emulator itself.
        kind: ``Backend`` or ``Emulator``; the result is one.

    Raises:
        EnvironmentProblem: the entry point cannot be imported, or holds no such object.
    """
    try:
        found: object = pkgutil.resolve_name(entry if ":" in entry else f"{entry}:")
    except (ImportError, AttributeError, ValueError) as fault:
        raise _absent(entry, name, kind, f"{type(fault).__name__}: {fault}") from fault
    register = getattr(found, _HOOKS[kind], None)
    candidates = list(register()) if callable(register) else [found]
    for candidate in candidates:
        if isinstance(candidate, kind) and getattr(candidate, "name", None) == name:
            return candidate
    held = ", ".join(str(getattr(c, "name", c)) for c in candidates) or "none"
    raise _absent(entry, name, kind, f"it holds {held}")


def _absent(entry: str, name: str, kind: type, why: str) -> EnvironmentProblem:
    what = f"{kind.__name__.lower()} {name} cannot be loaded from {entry!r}"
    return EnvironmentProblem(what, code="X010", where=entry, why=why, help="`fmha doctor` names broken plugins")
