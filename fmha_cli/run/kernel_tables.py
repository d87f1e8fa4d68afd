"""The index of kernels in the user's cache. A table is used only if it is whole and belongs to this code and these facts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import fmha_cli
from fmha_cli.domain.arch import arch_root
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.toolchain.cache.files import UnsafeFileError, make_private_dir, read_own, write_atomic
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root

MAGIC = b"fmha.kernel-index/1\n"
_DIGEST = hashlib.sha256().digest_size
_ROOMS = ("domain", "discovery", "codegen", "backends")
"""The packages whose code decides which kernels exist, and their digests and upstream names."""


class StoredTables:
    """See ``fmha_cli.discovery.kernel_index.KernelTables`` for the contract of the methods.

    A file holds ``MAGIC``, the key of the code and the facts, the SHA-256 of the table, and the table. A file that is
    damaged, foreign or of another version is as good as none, and the next look-up replaces it.

    Args:
        notify: takes one line for people.
    """

    def __init__(self, root: Path, notify: Callable[[str], None]) -> None:
        self._root, self._notify, self._said = root, notify, False

    def load(self, backend: str, arch: str) -> bytes | None:
        try:
            layout = self._safe
            data = b"" if layout is None else read_own(_file(layout, backend, arch))
        except (OSError, UnsafeFileError):
            return None
        head = MAGIC + self.key
        table = data[len(head) + _DIGEST :]
        fits = data.startswith(head) and data[len(head) :][:_DIGEST] == hashlib.sha256(table).digest()
        return table if fits else None

    def keep(self, backend: str, arch: str, table: bytes) -> None:
        with suppress(OSError, EnvironmentProblem):  # the next look-up takes as long as this one
            path = _file(open_root(self._root), backend, arch)
            make_private_dir(path.parent)
            write_atomic(path, MAGIC + self.key + hashlib.sha256(table).digest() + table)

    def announce(self) -> None:
        if not self._said:
            self._said = True
            self._notify("looking through all kernels once, for an index of them in the cache")

    @cached_property
    def _safe(self) -> CacheLayout | None:
        try:
            return open_root(self._root, create=False)
        except EnvironmentProblem:
            return None

    @cached_property
    def key(self) -> bytes:
        """SHA-256 over the code and the facts from which kernels follow."""
        package = Path(fmha_cli.__file__).parent
        total = hashlib.sha256()
        for name, path in _sources((*(str(package / room) for room in _ROOMS), str(arch_root()))):
            with open(path, "rb", buffering=0) as file:
                total.update(f"{name}\0".encode() + hashlib.sha256(file.read()).digest())
        return total.digest()


def _sources(folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The name and the path of each file."""
    for top in folders:
        for folder, below, names in os.walk(top):
            below.sort()
            yield from ((name, os.path.join(folder, name)) for name in sorted(names) if name.endswith((".py", ".json")))


def _file(layout: CacheLayout, backend: str, arch: str) -> Path:
    return layout.kernels / f"{backend}-{arch}"
