"""Built kernels travel between hosts as archives of the build cache, so each is compiled once for all of them.

An archive holds whole entries. The receiver verifies every file by its digest, and where the key of an entry does not
fit (another compiler, other headers) the entry is not found and the kernel is built there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from fmha_cli.domain.errors import UsageError
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.root import cache_root, open_root

_NAME = "kernels.tar.xz"


def packed(digests: Iterable[str], root: str | None) -> bytes:
    """The archive of some entries of the cache below a root; empty if one is not there.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / _NAME
        try:
            export_entries(open_root(cache_root(root)), digests, archive)
        except UsageError:  # pruned meanwhile
            return b""
        return archive.read_bytes()


def unpacked(data: bytes, root: str | None) -> None:
    """Take an archive of the driver. It may hold host code: the driver runs code here anyway.

    Raises:
        UsageError, EnvironmentProblem: it is damaged, or the cache cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / _NAME
        archive.write_bytes(data)
        import_entries(open_root(cache_root(root), create=True), archive, trust=True, notify=lambda notice: None)
