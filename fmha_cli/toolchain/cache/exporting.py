"""``fmha cache export``: entries as a tar archive.

The archive is a tar of ``fmha-cache/v2/<digest>/<file>``. Its members are sorted and carry no times, owners or modes, so
equal entries give equal archives. An archive whose name ends in ``.xz`` is compressed: the long symbol names of a cubin
compress well.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.members import Count, Digests, Key
from fmha_cli.toolchain.cache.entry import Damage, EntryMeta, verify_entry
from fmha_cli.toolchain.cache.files import FileContent, as_environment_problem, read_own, replacing
from fmha_cli.toolchain.cache.layout import META, SCHEMA_VERSION, CacheLayout

PREFIX = f"fmha-cache/v{SCHEMA_VERSION}"


@dataclass(frozen=True)
class ExportResult:
    """The result of an export.

    Attributes:
        size: bytes of the archive.
        digests: the entries in the archive.
        skipped: damaged entries that were left out.
    """

    archive: Path
    size: Annotated[Count, Key("bytes")]
    digests: Digests
    skipped: tuple[Damage, ...]


def export_entries(layout: CacheLayout, digests: Iterable[str], archive: Path) -> ExportResult:
    """Write entries into a tar archive atomically. Damaged entries are left out and reported.

    Raises:
        UsageError: a digest is not in the cache.
        EnvironmentProblem: the cache cannot be read, or the archive cannot be written.
    """
    done, skipped = [], []
    with as_environment_problem("exporting cache entries"):
        with (
            replacing(archive) as file,
            _compress(file, archive) as out,
            tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for digest in sorted(set(digests)):
                content = _read_entry(layout, digest)
                if isinstance(content, Damage):
                    skipped.append(content)
                    continue
                for name, data in content.items():
                    member = tarfile.TarInfo(f"{PREFIX}/{digest}/{name}")
                    member.size, member.mode = len(data), 0o400
                    tar.addfile(member, io.BytesIO(data))
                done.append(digest)
        return ExportResult(archive, archive.stat().st_size, tuple(done), tuple(skipped))


@contextmanager
def _compress(file: IO[bytes], archive: Path) -> Iterator[IO[bytes]]:
    """The file itself, or a stream that compresses into it."""
    if archive.suffix != ".xz":
        yield file
        return
    with lzma.LZMAFile(file, "wb", preset=6) as out:
        yield out


def _read_entry(layout: CacheLayout, digest: str) -> dict[str, bytes] | Damage:
    """The files of an entry, in the same bytes that were verified."""
    place = layout.entry(digest)
    meta = verify_entry(place, digest)
    if meta is None:
        raise UsageError(f"there is no cache entry {digest}", code="B020", help="`fmha cache ls` lists them")
    if isinstance(meta, Damage):
        return meta
    content = {name: read_own(place / name) for name in sorted((META, *meta.files))}
    changed = [name for name, data in content.items() if not _is_verified(meta, name, data)]
    if changed:
        return Damage(digest, place, tuple(f"{name} changed while it was exported" for name in changed))
    return content


def _is_verified(meta: EntryMeta, name: str, data: bytes) -> bool:
    if name == META:
        return data == meta.encode()
    return meta.files[name] == FileContent(hashlib.sha256(data).hexdigest(), len(data))
