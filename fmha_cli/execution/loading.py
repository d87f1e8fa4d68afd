"""From an entry point's text to a backend, in the worker."""

from __future__ import annotations

import importlib

from fmha_cli.errors import EnvironmentProblem
from fmha_cli.protocols import Backend

_HOOK = "fmha_register_backends"


def load_backend(entry: str, name: str) -> Backend:
    """The backend ``name`` behind an entry point.

    Args:
        entry: ``module`` or ``module:attribute``; a module or object that implements the hook
            ``fmha_register_backends``, or the backend itself.

    Raises:
        EnvironmentProblem: nothing importable there, or no such backend behind it.
    """
    module, _, path = entry.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in filter(None, path.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as fault:
        raise _absent(entry, name, f"{type(fault).__name__}: {fault}") from fault
    hook = getattr(found, _HOOK, None)
    candidates = list(hook()) if callable(hook) else [found]
    for candidate in candidates:
        if isinstance(candidate, Backend) and candidate.name == name:
            return candidate
    raise _absent(entry, name, f"it holds {', '.join(str(getattr(c, 'name', c)) for c in candidates) or 'none'}")


def _absent(entry: str, name: str, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"backend {name} cannot be loaded from {entry!r}",
        code="X010",
        where=entry,
        why=why,
        help="`fmha doctor` names broken plugins",
    )
