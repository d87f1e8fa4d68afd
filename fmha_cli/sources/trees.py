"""Digests of folders, remembered as long as no file in them changes its time or size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fmha_cli.build.layout import CacheLayout
from fmha_cli.build.memo import recall, remember, stamps
from fmha_cli.encode import digest_of
from fmha_cli.sources.manifest import MANIFEST, hash_tree, list_tree, read_manifest, tree_digest
from fmha_cli.sources.pins import Pin


def intact(pin: Pin, layout: CacheLayout) -> bool:
    """Whether the source is in the cache, with every file as pinned and nothing else.

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
    """What ``ask`` says of the files below ``root``, asked again only when one came, went or changed.

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
    try:
        remember(memo, question, answer, watched)
    except OSError:
        # A cache that is read-only does without.
        return answer
    return answer
