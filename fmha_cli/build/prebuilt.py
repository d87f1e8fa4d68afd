"""Kernels that came in an archive: found by what they are, not by the compiler that made them.

A build key names its compiler, so that no compiler is ever handed another one's file. Whoever imports an archive wants
the opposite: its kernels on a machine with another compiler, or with none. So an import notes every entry under a
second name, the digest of those parts of its key that can be told without a compiler and without third-party sources
(the *recipe*). Entries that were built here have no such name.

What a recipe does not name is the compiler, its flags, and the headers beyond the emitted text. Whether such a file may
be used is for the backend to say: one whose files carry their own description, such as a cubin, may.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fmha_cli import __version__
from fmha_cli.build.cache import Cache
from fmha_cli.build.entry import Damage, EntryMeta, read_meta
from fmha_cli.build.files import UnsafeFileError, as_environment_problem, make_private_dir, read_own, write_atomic
from fmha_cli.build.key import SCHEMA_VERSION
from fmha_cli.build.layout import CacheLayout, is_digest
from fmha_cli.build.listing import children
from fmha_cli.encode import digest_of
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact

RECIPE = ("arch", "fmha_version", "kernel", "kernel_name", "schema_version", "source_sha256")
"""The parts of a key (``BuildKey.parts``) that make a recipe."""


def recipe_of(parts: Mapping[str, object]) -> str:
    """64 hexadecimal digits: the digest of a key's recipe."""
    return digest_of({name: parts[name] for name in RECIPE})


def recipe_for(kernel: KernelSpec, source: str) -> str:
    """The recipe's digest of a kernel and its emitted text, in this version of the package."""
    return recipe_of(
        {
            "arch": kernel.arch,
            "fmha_version": __version__,
            "kernel": kernel.to_dict(),
            "kernel_name": kernel.name,
            "schema_version": SCHEMA_VERSION,
            "source_sha256": hashlib.sha256(source.encode("utf-8")).hexdigest(),
        }
    )


def note_imported(layout: CacheLayout, meta: EntryMeta) -> None:
    """Give an imported entry its second name; of two entries with one recipe the later import has it.

    Raises:
        OSError: the cache cannot be written.
    """
    make_private_dir(layout.prebuilt)
    write_atomic(layout.prebuilt / recipe_of(meta.parts), f"{meta.digest}\n".encode())


def find_prebuilt(cache: Cache, kernel: KernelSpec, source: str) -> Artifact | None:
    """The verified artifact that an import brought for a kernel with this text; None when there is none.

    Costs two small reads when there is none, and starts no program.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    recipe = recipe_for(kernel, source)
    with as_environment_problem("looking for an imported kernel"):
        digest = _noted(cache.layout, recipe)
        meta = _meta(cache.layout, digest) if digest else None
    if meta is None or recipe_of(meta.parts) != recipe:
        return None
    artifact = cache.lookup(meta.digest)
    return None if artifact is None else replace(artifact, prebuilt_by=str(meta.parts["toolchain_version"]))


def dangling(layout: CacheLayout) -> list[Path]:
    """Second names whose entry is gone; ``fmha cache prune`` removes them.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    names = children(layout.prebuilt)
    return [name for name in names if not ((digest := _noted(layout, name.name)) and layout.entry(digest).exists())]


def _noted(layout: CacheLayout, recipe: str) -> str | None:
    try:
        text = read_own(layout.prebuilt / recipe).decode("ascii", "replace").strip()
    except (FileNotFoundError, UnsafeFileError):
        return None
    return text if is_digest(text) else None


def _meta(layout: CacheLayout, digest: str) -> EntryMeta | None:
    try:
        found = read_meta(layout.entry(digest), digest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if isinstance(found, Damage) else found
