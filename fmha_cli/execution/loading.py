"""Load a backend or an emulator from an entry point's text, in the worker."""

from __future__ import annotations

import importlib
from typing import Any

from fmha_cli.domain.emulation import Emulator
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.protocols import Backend


def load_backend(entry: str, name: str) -> Backend:
    """The backend ``name`` behind an entry point.

    Args:
        entry: ``module`` or ``module:attribute``; a module or object that implements the hook
            ``fmha_register_backends``, or the backend itself.

    Raises:
        EnvironmentProblem: the entry point cannot be imported, or holds no such backend.
    """
    backend: Backend = _load(entry, name, "backend", "fmha_register_backends", Backend)
    return backend


def load_emulator(entry: str, name: str) -> Emulator:
    """The emulator ``name`` behind an entry point, found like a backend, by the hook ``fmha_register_emulators``.

    Raises:
        EnvironmentProblem: the entry point cannot be imported, or holds no such emulator.
    """
    emulator: Emulator = _load(entry, name, "emulator", "fmha_register_emulators", Emulator)
    return emulator


def _load(entry: str, name: str, kind: str, hook: str, protocol: type) -> Any:
    module, _, path = entry.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in filter(None, path.split(".")):
            found = getattr(found, part)
    except (ImportError, AttributeError) as fault:
        raise _absent(entry, name, kind, f"{type(fault).__name__}: {fault}") from fault
    register = getattr(found, hook, None)
    candidates = list(register()) if callable(register) else [found]
    for candidate in candidates:
        if isinstance(candidate, protocol) and getattr(candidate, "name", None) == name:
            return candidate
    held = ", ".join(str(getattr(c, "name", c)) for c in candidates) or "none"
    raise _absent(entry, name, kind, f"it holds {held}")


def _absent(entry: str, name: str, kind: str, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{kind} {name} cannot be loaded from {entry!r}",
        code="X010",
        where=entry,
        why=why,
        help="`fmha doctor` names broken plugins",
    )
