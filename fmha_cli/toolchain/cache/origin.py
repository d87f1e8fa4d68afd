"""The origin of an imported entry: which archive brought it, and whether the host would execute it.

Digests prove that an archive arrived as it was written, not who wrote it. A library of host code runs with the user's
rights as soon as a kernel in it is loaded, so an import asks for trust before it takes one. A file of device code cannot
run on the host. A file's own first bytes decide its kind, because the archive's maker chose everything else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.members import Count, Sha256
from fmha_cli.toolchain.cache.files import UnsafeFileError, make_private_dir, read_own, write_atomic
from fmha_cli.toolchain.cache.layout import CacheLayout, children

_ELF = b"\x7fELF"
_MACHINE = slice(18, 20)
_DEVICES = {190: "EM_CUDA", 224: "EM_AMDGPU"}
"""``e_machine`` of code for a device, from the ELF registry of machine names."""


class Code(StrEnum):
    """Who executes an artifact."""

    HOST = "host"
    """The processor, with the user's rights. Unknown files count as host code."""
    DEVICE = "device"
    """A GPU or an emulated one."""


@dataclass(frozen=True)
class ArchiveOrigin:
    """The archive that brought an entry.

    Attributes:
        archive: the archive's file name, without its folder.
        sha256: the digest of the archive's bytes.
        imported_ns: when, in nanoseconds since 1970.
        code: who executes the artifact.
    """

    archive: str
    sha256: Sha256
    imported_ns: Count
    code: Code


def code_of(artifact: Path) -> Code:
    """Who would execute a file, by its first bytes.

    Raises:
        OSError: it cannot be read.
    """
    with artifact.open("rb") as file:
        head = file.read(_MACHINE.stop)
    device = head[:4] == _ELF and int.from_bytes(head[_MACHINE], "little") in _DEVICES
    return Code.DEVICE if device else Code.HOST


def note_origin(layout: CacheLayout, digest: str, origin: ArchiveOrigin) -> None:
    """Keep the origin of an entry. Call it before the entry appears: an imported entry is never without its origin.

    Raises:
        OSError: the cache cannot be written.
    """
    make_private_dir(layout.imported)
    write_atomic(layout.imported / digest, canonical_json(to_json(origin)).encode("ascii") + b"\n")


def forget_origin(layout: CacheLayout, digest: str) -> None:
    """Drop the origin of an entry that was built here instead.

    Raises:
        OSError: the cache cannot be written.
    """
    (layout.imported / digest).unlink(missing_ok=True)


def origin_of(layout: CacheLayout, digest: str) -> ArchiveOrigin | None:
    """The origin of an entry; None if it was built here.

    A damaged note still marks the entry: its archive is unknown.

    Raises:
        OSError: the cache cannot be read.
    """
    try:
        return from_json(ArchiveOrigin, json.loads(read_own(layout.imported / digest)), "origin")
    except FileNotFoundError:
        return None
    except (UnsafeFileError, ValueError, RecursionError):
        return ArchiveOrigin("an unknown archive", "0" * 64, 0, Code.HOST)


def without_entry(layout: CacheLayout) -> list[Path]:
    """Notes whose entry no longer exists; ``fmha cache prune`` removes them.

    Raises:
        OSError: the cache cannot be read.
    """
    return [note for note in children(layout.imported) if not layout.entry(note.name).exists()]
