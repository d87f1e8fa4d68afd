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

from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.members import FewestItems, Key, Sha256
from fmha_cli.toolchain.cache.files import FileContent, UnsafeFileError, hash_own, read_own
from fmha_cli.toolchain.cache.layout import ENTRY_FILES, META, PTX, SCHEMA_VERSION, SOURCE

META_SCHEMA = f"fmha.cache-entry/{SCHEMA_VERSION}"
_HASHED = {*ENTRY_FILES} - {META}


@dataclass(frozen=True)
class EntryMeta:
    """The content of ``meta.json``.

    Attributes:
        digest: the key's digest, which is also the entry's name.
        parts: the key's parts (``BuildKey.parts``).
        files: the names of the other files, and their contents.
        created_ns: when the entry was sealed, in nanoseconds since 1970.
        build_ns: nanoseconds that the compiler took.
        peak_bytes: the compiler's peak memory; None where the system does not report it.
    """

    digest: str
    parts: Annotated[Mapping[str, Any], Key("key")]
    files: Mapping[str, FileContent]
    created_ns: int
    build_ns: int
    peak_bytes: int | None
    schema: str = META_SCHEMA

    def encode(self) -> bytes:
        """The bytes of ``meta.json``: canonical JSON with its own digest under ``self``."""
        body = to_json(self)
        return canonical_json({**body, "self": digest_of(body)}).encode("ascii") + b"\n"


@dataclass(frozen=True)
class Damage:
    """An entry that must not be loaded, with every fault that was found."""

    digest: Sha256
    path: Path
    reasons: Annotated[tuple[str, ...], FewestItems(1)]


def read_meta(folder: Path, digest: str) -> EntryMeta | Damage | None:
    """Read and check ``meta.json`` alone, which is enough for a listing but not for loading the artifact.

    Returns:
        None if the entry does not exist.
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
        None if the entry does not exist.

    Raises:
        OSError: its folder cannot be read.
    """
    meta = read_meta(folder, digest)
    if not isinstance(meta, EntryMeta):
        return meta
    reasons = [reason for name, said in meta.files.items() if (reason := _file_fault(folder / name, said))]
    try:
        strangers = sorted({path.name for path in folder.iterdir()} - {META, *meta.files})
    except FileNotFoundError:  # moved away while it was read
        return None
    reasons += [f"{name} does not belong here" for name in strangers]
    if meta.parts.get("source_sha256") != meta.files[SOURCE].sha256:
        reasons.append(f"{SOURCE} is not the source that the key was made from")
    return Damage(digest, folder, tuple(reasons)) if reasons else meta


def _file_fault(path: Path, said: FileContent) -> str | None:
    """The fault of one hashed file; None if it is sound."""
    try:
        found = hash_own(path)
    except FileNotFoundError:
        return f"{path.name} is missing"
    except UnsafeFileError as error:
        return f"{path.name} {error}"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    if found.size != said.size:
        return f"{path.name} has {found.size} bytes instead of {said.size}"
    differs = f"{path.name} has the SHA-256 {found.sha256[:12]}… instead of {said.sha256[:12]}…"
    return None if found == said else differs


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
        del document["self"]
        if document["schema"] != META_SCHEMA:
            raise ValueError(f"has the schema {document['schema']!r}, not {META_SCHEMA!r}")
        meta = from_json(EntryMeta, document)
        if {*meta.files} - {PTX} != _HASHED:
            raise DecodeError("not the files of an entry", "files")
        encoded = meta.encode()
    except (KeyError, TypeError, RecursionError, DecodeError):
        raise ValueError("lacks a field or has one of another type") from None
    if encoded != raw:
        raise ValueError("does not match its own digest")
    if meta.digest != digest or digest_of(meta.parts) != digest:
        raise ValueError("belongs to another key")
    return meta
