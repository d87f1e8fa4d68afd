"""One finished entry on disk: how it is sealed, read and verified.

An entry is four sealed files. ``meta.json`` holds the SHA-256 and size of the other three, the parts of the key,
and a digest of itself; it is stored as canonical JSON and compared byte for byte with its own re-encoding, so
there is no byte in an entry that can change without being noticed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.build.files import UnsafeFileError, hash_own, read_own, write_sealed
from fmha_cli.build.key import digest_of_parts
from fmha_cli.build.layout import ARTIFACT, ENTRY_FILES, META, SOURCE
from fmha_cli.encode import canonical_json, digest_of

META_SCHEMA = "fmha.cache-entry/1"
_HASHED = tuple(name for name in ENTRY_FILES if name != META)


@dataclass(frozen=True)
class EntryMeta:
    """What ``meta.json`` says.

    Attributes:
        digest: the key's digest, which is also the entry's name.
        parts: the key's parts (``BuildKey.parts``).
        files: name to (SHA-256, size in bytes) of the other three files.
        created_ns: nanoseconds since 1970 when the entry was sealed.
        build_ns: nanoseconds that the compiler took.
        peak_bytes: the compiler's peak memory; None where the system does not tell.
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
        """Bytes of the three hashed files."""
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
    """An entry that must not be loaded, and everything that is wrong with it."""

    digest: str
    path: Path
    reasons: tuple[str, ...]


def seal_entry(folder: Path, meta: EntryMeta) -> None:
    """Write ``meta.json`` into a folder whose other three files are sealed already."""
    write_sealed(folder / META, meta.encode())


def read_meta(folder: Path, digest: str) -> EntryMeta | Damage:
    """Read and check ``meta.json`` alone, which is enough for a listing but not for loading the artifact.

    Raises:
        FileNotFoundError: there is no such entry.
    """
    folder.stat()
    try:
        return _decode_meta(read_own(folder / META), digest)
    except FileNotFoundError:
        reason = "is missing"
    except (UnsafeFileError, ValueError) as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    return Damage(digest, folder, (f"{META} {reason}",))


def verify_entry(folder: Path, digest: str) -> EntryMeta | Damage:
    """Read and re-hash every file of an entry.

    Checked: exactly the four files are there, each a regular file of ours that others cannot write to; their
    sizes and digests; the digest of ``meta.json`` itself; that the key's parts hash to the entry's name; and
    that the source is the one the key was made of.

    The check is true at the moment it is made. Between it and a later ``dlopen`` by path only the same user
    (or root) can change the file, because the root was found private to that user.

    Raises:
        FileNotFoundError: there is no such entry.
    """
    meta = read_meta(folder, digest)
    if isinstance(meta, Damage):
        return meta
    reasons = [reason for name in _HASHED if (reason := _file_fault(folder / name, *meta.files[name]))]
    strangers = sorted({path.name for path in folder.iterdir()} - set(ENTRY_FILES))
    reasons += [f"{name} does not belong here" for name in strangers]
    if meta.parts.get("source_sha256") != meta.files[SOURCE][0]:
        reasons.append(f"{SOURCE} is not the source that the key was made of")
    return Damage(digest, folder, tuple(reasons)) if reasons else meta


def _file_fault(path: Path, sha256: str, size: int) -> str | None:
    """What is wrong with one hashed file, or None."""
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
        ValueError: with the words that follow the file's name in a sentence.
    """
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    try:
        if document["schema"] != META_SCHEMA:
            raise ValueError(f"has the schema {document['schema']!r}, not {META_SCHEMA!r}")
        meta = EntryMeta(
            digest=str(document["digest"]),
            parts=dict(document["key"]),
            files={
                name: (str(document["files"][name]["sha256"]), int(document["files"][name]["size"])) for name in _HASHED
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
