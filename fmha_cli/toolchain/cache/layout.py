"""The paths under the cache root.

::

    v2/ab/cdef…/{artifact, build.log, meta.json, source.cpp}   finished entries; some also hold kernel.ptx
    v1/                                                        entries of an older version; `prune` removes them
    tmp/<uuid>/{entry, work}                                   builds under way
    locks/<name>.lock                                          never deleted
    quarantine/<digest>.<uuid>/                                damaged entries
    failed/<digest>/{build.log, source.cpp}                    the last failed build of a key
    toolchains/<name>.json                                     probe results
    toolchains/rocm-<digest>/                                  the parts of ROCm that a compiler lacks, as one root
    kernels/<backend>-<arch>                                   the index of kernels by digest and upstream name
    kernels/every-arch                                         the digests of all of them
    sources/<name>-<version>/                                  pinned third-party sources
    prebuilt/<digest>                                          second names of imported entries
    imported/<digest>                                          the origins of imported entries
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

SCHEMA_VERSION = 2
"""Version of keys, entries and archives, part of every key and of every entry's path. Raise it if the layout or the
meaning of an entry changes, so old entries are never found."""

ARTIFACT = "artifact"
LOG = "build.log"
META = "meta.json"
SOURCE = "source.cpp"
PTX = "kernel.ptx"
"""The PTX that an artifact was assembled from, if its compiler produces it."""
ENTRY_FILES = (ARTIFACT, LOG, META, SOURCE)
"""The files of every entry, which may also have ``PTX``."""

_VERSION = re.compile(r"v(\d+)")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    """Whether ``text`` has the form of a key digest: 64 lower-case hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True)
class CacheLayout:
    """Paths under one cache root. It computes names only and touches no file."""

    root: Path
    tmp: Path = field(init=False)
    """Builds in progress, and entries that are being removed."""
    locks: Path = field(init=False)
    """The lock files."""
    quarantine: Path = field(init=False)
    """The damaged entries."""
    failed: Path = field(init=False)
    """The logs of failed builds."""
    toolchains: Path = field(init=False)
    """The results of probing compilers."""
    kernels: Path = field(init=False)
    """The index of kernels."""
    sources: Path = field(init=False)
    """The third-party sources."""
    prebuilt: Path = field(init=False)
    """Second names of the entries that came in archives."""
    imported: Path = field(init=False)
    """Where the entries that came in archives are from."""

    def __post_init__(self) -> None:
        for room in fields(self)[1:]:
            object.__setattr__(self, room.name, self.root / room.name)

    @property
    def entries(self) -> Path:
        """The finished entries."""
        return self.root / f"v{SCHEMA_VERSION}"

    @property
    def outdated(self) -> tuple[Path, ...]:
        """The folders of entries that older versions of the package left; this version never looks into them."""
        found = [(match, path) for path in children(self.root) if (match := _VERSION.fullmatch(path.name))]
        return tuple(path for match, path in found if int(match[1]) < SCHEMA_VERSION)

    @property
    def rooms(self) -> tuple[Path, ...]:
        """Every directory directly under the root."""
        return (self.entries, *(self.root / room.name for room in fields(self)[1:]))

    def entry(self, digest: str) -> Path:
        """The directory of a finished entry."""
        return self.entries / digest[:2] / digest[2:]

    def lock(self, name: str) -> Path:
        """The lock file for a digest or another name."""
        return self.locks / f"{name}.lock"

    def failure(self, digest: str) -> Path:
        """Where a failed build leaves its log and source."""
        return self.failed / digest

    def new_tmp(self) -> Path:
        """A fresh name for a build's directory."""
        return self.tmp / uuid.uuid4().hex

    def new_quarantine(self, digest: str) -> Path:
        """A fresh name for a damaged entry."""
        return self.quarantine / f"{digest}.{uuid.uuid4().hex[:12]}"

    def digests(self) -> Iterator[str]:
        """Digests of all finished entries, sorted. Empty if the cache does not exist yet."""
        for shelf in children(self.entries):
            for entry in children(shelf):
                if is_digest(shelf.name + entry.name):
                    yield shelf.name + entry.name


def children(path: Path) -> list[Path]:
    """The members of a directory, sorted; none if it is missing or not a directory.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return sorted(path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
