"""Imported entries: found by their content, not by the compiler that made them.

A build key names its compiler, so a build never gets a file that another compiler made. An import needs the opposite: its
entries shall serve a machine with another compiler, or with none. An import therefore notes every entry under a second
name, its *recipe*: the digest of those parts of its key that are known without a compiler and without third-party
sources. Entries that were built on this machine have no such name.

A recipe does not name the compiler, its flags, or the headers beyond the emitted text. The backend decides whether such a
file may be used. A backend whose files describe themselves, such as cubins, allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fmha_cli import __version__
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.entry import EntryMeta, read_meta
from fmha_cli.toolchain.cache.files import (
    UnsafeFileError,
    as_environment_problem,
    make_private_dir,
    read_own,
    write_atomic,
)
from fmha_cli.toolchain.cache.key import BuildSpec
from fmha_cli.toolchain.cache.layout import SCHEMA_VERSION, CacheLayout, children, is_digest
from fmha_cli.toolchain.cache.store import Cache

RECIPE = ("arch", "fmha_version", "identity", "kind", "name", "schema_version", "source_sha256")
"""The parts of a key (``BuildKey.parts``) that make a recipe."""


def recipe_of(parts: Mapping[str, object]) -> str:
    """The digest of a key's recipe, 64 hexadecimal digits."""
    return digest_of({name: parts[name] for name in RECIPE})


def recipe_for(spec: BuildSpec) -> str:
    """The digest of the recipe of a build, in this version of the package."""
    return recipe_of({**spec.parts, "fmha_version": __version__, "schema_version": SCHEMA_VERSION})


def note_imported(layout: CacheLayout, meta: EntryMeta) -> None:
    """Give an imported entry its second name. If two entries have one recipe, the later import gets it.

    Raises:
        OSError: the cache cannot be written.
    """
    make_private_dir(layout.prebuilt)
    write_atomic(layout.prebuilt / recipe_of(meta.parts), f"{meta.digest}\n".encode())


def find_prebuilt(cache: Cache, spec: BuildSpec) -> Artifact | None:
    """The verified artifact of a build that was imported; None if there is none.

    It starts no program. Without an artifact it costs two small reads.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    recipe = recipe_for(spec)
    with as_environment_problem("looking for an imported kernel"):
        digest = _read_note(cache.layout, recipe)
        meta = read_meta(cache.layout.entry(digest), digest) if digest else None
    if not isinstance(meta, EntryMeta) or recipe_of(meta.parts) != recipe:
        return None
    artifact = cache.lookup(meta.digest)
    return None if artifact is None else replace(artifact, prebuilt_by=str(meta.parts["toolchain_version"]))


def dangling(layout: CacheLayout) -> list[Path]:
    """Second names whose entry no longer exists; ``fmha cache prune`` removes them.

    Raises:
        OSError: the cache cannot be read.
    """
    names = children(layout.prebuilt)
    return [name for name in names if not ((digest := _read_note(layout, name.name)) and layout.entry(digest).exists())]


def _read_note(layout: CacheLayout, recipe: str) -> str | None:
    try:
        text = read_own(layout.prebuilt / recipe).decode("ascii", "replace").strip()
    except (FileNotFoundError, UnsafeFileError):
        return None
    return text if is_digest(text) else None
