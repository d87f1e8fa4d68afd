"""One finished entry on disk: how it is sealed, read and verified.

An entry is four sealed files, or five if the compiler also produced PTX. ``meta.json`` holds the SHA-256 and size of the
others, the parts of the key, and a digest of itself. It is stored as canonical JSON and compared byte for byte with its
own re-encoding, so a change of any byte in an entry is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.members import FewestItems, Sha256
from fmha_cli.toolchain.cache.files import UnsafeFileError, hash_own, read_own, write_sealed
from fmha_cli.toolchain.cache.key import digest_of_parts
from fmha_cli.toolchain.cache.layout import ARTIFACT, ENTRY_FILES, META, PTX, SCHEMA_VERSION, SOURCE

META_SCHEMA = f"fmha.cache-entry/{SCHEMA_VERSION}"
_HASHED = tuple(name for name in ENTRY_FILES if name != META)


@dataclass(frozen=True)
class EntryMeta:
    """The content of ``meta.json``.

    Attributes:
        digest: the key's digest, which is also the entry's name.
        parts: the key's parts (``BuildKey.parts``).
        files: name -> (SHA-256, size in bytes) of the other files.
        created_ns: when the entry was sealed, in nanoseconds since 1970.
        build_ns: nanoseconds that the compiler took.
        peak_bytes: the compiler's peak memory; None where the system does not report it.
    """

    digest: str
    parts: Mapping[str, Any]
    files: Mapping[str, tuple[str, int]]
    created_ns: int
    build_ns: int
    peak_bytes: int | None

    @property
    def artifact_sha256(self) -> str:
        """SHA-256 of the artifact."""
        return self.files[ARTIFACT][0]

    @property
    def size(self) -> int:
        """Bytes of the hashed files."""
        return sum(size for _, size in self.files.values())

    def encode(self) -> bytes:
        """The bytes of ``meta.json``: canonical JSON with its own digest under ``self``."""
        body = {
            "build_ns": self.build_ns,
            "created_ns": self.created_ns,
            "digest": self.digest,
            "files": {name: {"sha256": digest, "size": size} for name, (digest, size) in self.files.items()},
            "key": dict(self.parts),
            "peak_bytes": self.peak_bytes,
            "schema": META_SCHEMA,
        }
        return canonical_json({**body, "self": digest_of(body)}).encode("ascii") + b"\n"


@dataclass(frozen=True)
class Damage:
    """An entry that must not be loaded, with every fault that was found."""

    digest: Sha256
    path: Path
    reasons: Annotated[tuple[str, ...], FewestItems(1)]


def seal_entry(folder: Path, meta: EntryMeta) -> None:
    """Write ``meta.json`` into a folder whose other files are already sealed."""
    write_sealed(folder / META, meta.encode())


def read_meta(folder: Path, digest: str) -> EntryMeta | Damage | None:
    """Read and check ``meta.json`` alone, which is enough for a listing but not for loading the artifact.

    Returns:
        None when there is no such entry.
    """
    try:
        return _decode_meta(read_own(folder / META), digest)
    except FileNotFoundError:
        if not folder.exists():
            return None
        reason = "is missing"
    except NotADirectoryError:
        return Damage(digest, folder, ("it is not a directory",))
    except (UnsafeFileError, ValueError) as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    return Damage(digest, folder, (f"{META} {reason}",))


def verify_entry(folder: Path, digest: str) -> EntryMeta | Damage | None:
    """Read and re-hash every file of an entry.

    An entry is sound if it holds exactly the files that it names, each a regular file of this user that others cannot
    write to; if their sizes and digests and that of ``meta.json`` agree; if the key's parts hash to the entry's name;
    and if the source is the one that the key was made from.

    The result holds at the moment of the check. Only the same user (or root) can change a file between the check and a
    later ``dlopen`` by path, because the root was found to be private to that user.

    Returns:
        None when there is no such entry.

    Raises:
        OSError: its folder cannot be read.
    """
    meta = read_meta(folder, digest)
    if not isinstance(meta, EntryMeta):
        return meta
    reasons = [reason for name, said in meta.files.items() if (reason := _file_fault(folder / name, *said))]
    try:
        strangers = sorted({path.name for path in folder.iterdir()} - {META, *meta.files})
    except FileNotFoundError:  # moved away while it was read
        return None
    reasons += [f"{name} does not belong here" for name in strangers]
    if meta.parts.get("source_sha256") != meta.files[SOURCE][0]:
        reasons.append(f"{SOURCE} is not the source that the key was made of")
    return Damage(digest, folder, tuple(reasons)) if reasons else meta


def _file_fault(path: Path, sha256: str, size: int) -> str | None:
    """The fault of one hashed file; None if it is sound."""
    try:
        found, length = hash_own(path)
    except FileNotFoundError:
        return f"{path.name} is missing"
    except UnsafeFileError as error:
        return f"{path.name} {error}"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    if length != size:
        return f"{path.name} has {length} bytes instead of {size}"
    return None if found == sha256 else f"{path.name} has the SHA-256 {found[:12]}… instead of {sha256[:12]}…"


def _decode_meta(raw: bytes, digest: str) -> EntryMeta:
    """Parse ``meta.json``.

    Raises:
        ValueError: the content is wrong. The message continues a sentence that begins with the file's name.
    """
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    try:
        names = (*_HASHED, PTX) if PTX in document["files"] else _HASHED
        if document["schema"] != META_SCHEMA:
            raise ValueError(f"has the schema {document['schema']!r}, not {META_SCHEMA!r}")
        meta = EntryMeta(
            digest=str(document["digest"]),
            parts=dict(document["key"]),
            files={
                name: (str(document["files"][name]["sha256"]), int(document["files"][name]["size"])) for name in names
            },
            created_ns=int(document["created_ns"]),
            build_ns=int(document["build_ns"]),
            peak_bytes=None if document["peak_bytes"] is None else int(document["peak_bytes"]),
        )
        encoded = meta.encode()
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("lacks a field or has one of another type") from None
    if encoded != raw:
        raise ValueError("does not match its own digest")
    if meta.digest != digest or digest_of_parts(meta.parts) != digest:
        raise ValueError("belongs to another key")
    return meta
