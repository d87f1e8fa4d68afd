"""Digests of folders: of their text, and digests that are remembered until a file changes its time or size.

A manifest has the files of a source's folder with digests, listed once and checked on every use.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.sources.pins import Pin
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.memo import recall, remember, stamps

MANIFEST = ".fmha-source.json"
MANIFEST_SCHEMA = "fmha.source-manifest/1"

Files = Mapping[str, tuple[str, int]]
"""Path below the folder (with ``/``) -> (SHA-256, size in bytes)."""


def tree_digest(files: Files) -> str:
    """One digest of paths and contents."""
    return digest_of([[path, sha256] for path, (sha256, _) in sorted(files.items())])


def hash_tree(root: Path) -> dict[str, tuple[str, int]]:
    """Every file below a folder, the manifest left out; a link or a device counts as a file with an empty digest.

    Raises:
        OSError: something cannot be read.
    """
    found: dict[str, tuple[str, int]] = {}
    for path in list_tree(root):
        name = path.relative_to(root).as_posix()
        if path.is_symlink() or not path.is_file():
            found[name] = ("", 0)
            continue
        with path.open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
    return found


def list_tree(root: Path) -> list[Path]:
    """Every path below a folder that is not itself a folder, sorted, without the manifest and Python's compiled files.

    Raises:
        OSError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for folder, folders, names in os.walk(root, onerror=refuse):
        here = Path(folder)
        # Running upstream's generator leaves its modules there, compiled.
        folders[:] = [name for name in folders if name != "__pycache__"]
        # os.walk does not follow links to folders, and does not list them among the files.
        found += [here / name for name in names] + [here / name for name in folders if (here / name).is_symlink()]
    return sorted(path for path in found if path != root / MANIFEST)


def write_manifest(root: Path, pinned: Mapping[str, object], files: Files) -> None:
    """Write the list next to the files, as the last step of unpacking.

    Raises:
        OSError: it cannot be written.
    """
    listed = {path: [sha256, size] for path, (sha256, size) in files.items()}
    body = {"files": listed, "pin": dict(pinned), "schema": MANIFEST_SCHEMA, "tree": tree_digest(files)}
    (root / MANIFEST).write_text(canonical_json({**body, "self": digest_of(body)}) + "\n", "ascii")


def read_manifest(root: Path) -> tuple[str, dict[str, tuple[str, int]]] | None:
    """The tree digest and the files that the manifest promises; None when it is missing or not whole."""
    try:
        raw = json.loads((root / MANIFEST).read_bytes())
        claimed = raw.pop("self")
        if claimed != digest_of(raw) or raw["schema"] != MANIFEST_SCHEMA:
            return None
        return str(raw["tree"]), {path: (str(sha256), int(size)) for path, (sha256, size) in raw["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def differences(promised: Files, found: Files) -> tuple[str, ...]:
    """One line for every file that is missing, unexpected or changed."""
    lines = [f"{path} is missing" for path in sorted(promised.keys() - found.keys())]
    lines += [f"{path} does not belong here" for path in sorted(found.keys() - promised.keys())]
    lines += [f"{path} has changed" for path in sorted(promised.keys() & found.keys()) if promised[path] != found[path]]
    return tuple(lines)


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
    return recall_answer(layout, f"source-{pin.folder}", place, lambda: tree_digest(hash_tree(place))) == pin.digest


def recall_answer(layout: CacheLayout, name: str, root: Path, ask: Callable[[], str]) -> str:
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
