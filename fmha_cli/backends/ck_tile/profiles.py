"""Upstream's named sets (receipts) as data: which kernels of each family each set admits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fmha_cli.backends.ck_tile.enumeration import Emitted
from fmha_cli.backends.ck_tile.revisions import dtype_names, in_revision
from fmha_cli.backends.ck_tile.tables import ALGORITHM_FIELDS, SIGNATURE_FIELDS, parse_value
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.discovery.profiles import profiles_of
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.suggest import suggest

REST = "*"
"""The row that a profile uses for a family without its own row."""
Admits = Callable[[Emitted], bool]


Needs = Mapping[str, frozenset[Any]]
"""Fields with the values that each may have. A kernel must meet all of them."""


def _value(kernel: KernelSpec, field: str) -> Any:
    signature, algorithm = kernel.signature, algorithm_of(kernel)
    if field == "dtype":
        return dtype_names()[signature.dtype, signature.dtype_out]
    if field == "equal_pads":
        return algorithm.pad_d == algorithm.pad_dv
    return getattr(signature if field in SIGNATURE_FIELDS else algorithm, field)


def _data() -> Mapping[str, Any]:
    return arch_document("_ck_tile_profiles.json", "fmha.ck-profiles/1")


def profile_names(revision: str) -> tuple[str, ...]:
    """The profiles that a revision has."""
    return tuple(row["name"] for row in _data()["profiles"] if in_revision(row, revision))


def canonical_profile(name: str, revision: str) -> str:
    """The profile of a name or alias (``receipt:2``).

    Raises:
        UsageError: F003, no such profile, or CK-Tile has none by that name in this revision.
    """
    found, known = profiles_of(name, ("ck_tile",))[0].name, profile_names(revision)
    if found not in known:
        raise UsageError(
            f"--profile {name}: CK-Tile of revision {revision} has no such profile",
            code="F003",
            where="--profile",
            help=suggest(name, known),
        )
    return found


def admits(profile: str, family: Family, revision: str) -> Admits:
    """A predicate: whether a profile holds a kernel of a family, as upstream's generator decides for its receipt."""
    alternatives = _alternatives(profile, family, revision)

    def check(emitted: Emitted) -> bool:
        if emitted.profiles and profile not in emitted.profiles:
            return False
        return alternatives is None or any(_met(emitted.kernel, needs) for needs in alternatives)

    return check


def _met(kernel: KernelSpec, needs: Needs) -> bool:
    return all(_value(kernel, field) in values for field, values in needs.items())


@cache
def _alternatives(profile: str, family: Family, revision: str) -> tuple[Needs, ...] | None:
    rows = [r for r in _data()["predicates"] if family.value in r["families"] and in_revision(r, revision)]
    for wanted in (profile, REST):
        for row in rows:
            if wanted in row["profiles"]:
                return tuple(_alternative(needs) for needs in row["any"])
    return None


def _alternative(needs: Mapping[str, Any]) -> Needs:
    def values(field: str, texts: list[Any]) -> frozenset[Any]:
        plain = field == "dtype" or field not in SIGNATURE_FIELDS | ALGORITHM_FIELDS or field == "hdim"
        return frozenset(texts if plain else (parse_value(field, text) for text in texts))

    return {field: values(field, texts) for field, texts in needs.items()}
