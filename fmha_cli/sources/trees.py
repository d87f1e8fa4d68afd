"""Digests of folders: of their text, and digests that are remembered until a file changes its time or size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from fmha_cli.domain.encode import digest_of
from fmha_cli.sources.manifest import MANIFEST, hash_tree, list_tree, read_manifest, tree_digest
from fmha_cli.sources.pins import Pin
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import recall, remember, stamps


def intact(pin: Pin, layout: CacheLayout) -> bool:
    """Whether the source is in the cache, with exactly the pinned files.

    Raises:
        OSError: it cannot be read.
    """
    place = layout.sources / pin.folder
    if not (place / MANIFEST).is_file():
        return False
    manifest = read_manifest(place)
    if manifest is None or manifest[0] != pin.digest:
        return False
    return remembered(layout, f"source-{pin.folder}", place, lambda: tree_digest(hash_tree(place))) == pin.digest


def remembered(layout: CacheLayout, name: str, root: Path, ask: Callable[[], str]) -> str:
    """The answer of ``ask`` about the files below ``root``. It is called again only if a file was added, removed or changed.

    Raises:
        OSError: the folder cannot be read.
    """
    paths = [str(path) for path in list_tree(root)]
    question = {"files": digest_of(paths), "name": name, "root": str(root)}
    memo = layout.toolchains / f"{name}-{digest_of(str(root))[:12]}.json"
    known = recall(memo, question)
    if isinstance(known, str):
        return known
    watched = stamps(paths)
    answer = ask()
    with suppress(OSError):  # a read-only cache works without it
        remember(memo, question, answer, watched)
    return answer


def text_digest(root: Path, suffixes: Sequence[str]) -> str:
    """Digest of the paths and texts of all files with these suffixes, the same for every checkout of one revision.

    Line endings do not count.

    Raises:
        OSError: a file cannot be read.
    """
    found = []
    for path in root.rglob("*"):
        if path.suffix in suffixes and path.is_file():
            text = path.read_bytes().replace(b"\r\n", b"\n")
            found.append([path.relative_to(root).as_posix(), hashlib.sha256(text).hexdigest()])
    return digest_of(sorted(found))
