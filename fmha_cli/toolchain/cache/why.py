"""``fmha cache why``: explain why a key is a hit or a miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fmha_cli.domain.members import Sha256
from fmha_cli.toolchain.cache.entry import Damage, EntryMeta, read_meta, verify_entry
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cache.layout import CacheLayout, children


class KeyStanding(StrEnum):
    """The state of a key in the cache."""

    HIT = "hit"
    DAMAGED = "damaged"
    """It exists, but will be quarantined and rebuilt at its next use."""
    QUARANTINED = "quarantined"
    """It was found damaged, and has not been rebuilt since."""
    FAILED = "failed"
    """Its last build failed."""
    DIFFERS = "differs"
    """An entry of the same kind and name exists, with other key parts."""
    UNKNOWN = "unknown"
    """No entry of this kind and name was ever built in this cache."""


@dataclass(frozen=True)
class KeyDifference:
    """One part in which two keys differ, by its dotted name, with both values (None: the part is absent)."""

    part: str
    cached: Any
    wanted: Any


@dataclass(frozen=True)
class KeyExplanation:
    """The explanation.

    Attributes:
        digest: of the key.
        standing: the verdict.
        nearest: digest of the cached entry of the same kind and name with the fewest differences; None without one.
        differences: the parts in which that entry and the key differ.
        details: the faults of a damaged entry, or the path of a quarantined entry or of a failure's log.
    """

    digest: Sha256
    standing: KeyStanding
    nearest: Sha256 | None
    differences: tuple[KeyDifference, ...]
    details: tuple[str, ...]


def explain_key(layout: CacheLayout, key: BuildKey) -> KeyExplanation:
    """Why a key is, or is not, in the cache. Changes nothing.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    with as_environment_problem("explaining a cache key"):
        standing, details = _own_standing(layout, key.digest)
        nearest, differences = (None, ()) if standing is KeyStanding.HIT else _nearest(layout, key.digest, key.parts)
    if standing is KeyStanding.UNKNOWN and nearest is not None:
        standing = KeyStanding.DIFFERS
    return KeyExplanation(key.digest, standing, nearest, differences, details)


def explain_entry(layout: CacheLayout, digest: str) -> KeyExplanation:
    """The state of an entry, and its differences from the nearest other entry of the same kind and name.

    It serves builds for which no backend names a key: a host library, peak loops, an emulator. Changes nothing.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    with as_environment_problem("explaining a cache entry"):
        standing, details = _own_standing(layout, digest)
        meta = read_meta(layout.entry(digest), digest)
        nearest, differences = _nearest(layout, digest, meta.parts) if isinstance(meta, EntryMeta) else (None, ())
    return KeyExplanation(digest, standing, nearest, differences, details)


def _differences(cached: Mapping[str, object], wanted: Mapping[str, object], prefix: str = "") -> list[KeyDifference]:
    """The parts in which two keys differ, sorted by name; nested mappings are compared field by field."""
    found = []
    for name in sorted({*cached, *wanted}):
        old, new = cached.get(name), wanted.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(KeyDifference(prefix + name, old, new))
    return found


def _own_standing(layout: CacheLayout, digest: str) -> tuple[KeyStanding, tuple[str, ...]]:
    """The standing of the key itself, other entries aside."""
    found = verify_entry(layout.entry(digest), digest)
    if isinstance(found, EntryMeta):
        return KeyStanding.HIT, ()
    if isinstance(found, Damage):
        return KeyStanding.DAMAGED, found.reasons
    away = [str(path) for path in children(layout.quarantine) if path.name.startswith(digest)]
    if away:
        return KeyStanding.QUARANTINED, tuple(away)
    failure = layout.failure(digest)
    return (KeyStanding.FAILED, (str(failure),)) if failure.is_dir() else (KeyStanding.UNKNOWN, ())


def _nearest(
    layout: CacheLayout, own: str, parts: Mapping[str, object]
) -> tuple[str | None, tuple[KeyDifference, ...]]:
    """The other entry of the same kind and name with the fewest differences, the newest of several."""
    best: tuple[int, int, str] | None = None
    differences: list[KeyDifference] = []
    for digest in layout.digests():
        meta = read_meta(layout.entry(digest), digest)
        if digest == own or not isinstance(meta, EntryMeta):
            continue
        if (meta.parts["kind"], meta.parts["name"]) != (parts["kind"], parts["name"]):
            continue
        found = _differences(meta.parts, parts)
        rank = (len(found), -meta.created_ns, digest)
        if best is None or rank < best:
            best, differences = rank, found
    return (best[2] if best else None), tuple(differences)
