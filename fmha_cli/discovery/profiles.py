"""Profiles: named sets of kernels, kept as data in ``arch_specs/_profiles.json``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest

SCHEMA = "fmha.profile-facts/1"
ANY = "any"
"""The backend of a profile that applies to all backends."""


@dataclass(frozen=True)
class Profile:
    """A named set of kernels.

    Attributes:
        aliases: other names (``receipt:2``).
        backend: whose kernels it holds, or ``any``.
        filter: the set, as ``--filter`` terms; empty if the backend itself knows the set (``Catalogued``).
        source: where the set is defined.
    """

    name: str
    title: str
    filter: str
    backend: str
    source: str
    aliases: tuple[str, ...] = ()

    def terms(self) -> tuple[str, ...]:
        """The set as ``--filter`` terms."""
        backend = () if self.backend == ANY else (f"backend:{self.backend}",)
        return (*((self.filter,) if self.filter else ()), *backend)


def profiles() -> tuple[Profile, ...]:
    """Every profile, in the order of the file."""
    rows = arch_document("_profiles.json", SCHEMA)["profiles"]
    return tuple(Profile(**{**row, "aliases": tuple(row["aliases"])}) for row in rows)


def profiles_of(name: str, backends: Collection[str] = ()) -> tuple[Profile, ...]:
    """The profiles of a name or alias. Several backends may have one of the same name; none of those has a filter.

    Args:
        backends: the backends whose profiles are wanted, if any of them has one of that name.

    Raises:
        UsageError: F003, no such profile, with near names.
    """
    named = {alias: p for p in profiles() for alias in (p.name, *p.aliases)}
    if name not in named:
        what = f"--profile {name}: no such profile"
        raise UsageError(what, code="F003", where="--profile", help=suggest(name, named))
    found = tuple(p for p in profiles() if name in (p.name, *p.aliases))
    return tuple(p for p in found if p.backend in backends) or found
