"""Digest of the text of a folder, the same for every checkout of one revision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from fmha_cli.encode import digest_of


def text_digest(root: Path, suffixes: Sequence[str]) -> str:
    """Digest of relative path and text of all files with these suffixes; line endings do not count.

    Raises:
        OSError: a file cannot be read.
    """
    found = []
    for path in root.rglob("*"):
        if path.suffix in suffixes and path.is_file():
            text = path.read_bytes().replace(b"\r\n", b"\n")
            found.append([path.relative_to(root).as_posix(), hashlib.sha256(text).hexdigest()])
    return digest_of(sorted(found))
