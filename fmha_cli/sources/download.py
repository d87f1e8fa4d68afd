"""One whole file from a place, into a temporary file, checked against its pin."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from fmha_cli.sources.faults import FetchError, WrongContent
from fmha_cli.sources.index import Place
from fmha_cli.sources.pins import Archive
from fmha_cli.sources.web import Web

_CHUNK = 1 << 20


def download(archive: Archive, place: Place, out: Path, web: Web) -> Path:
    """The archive's file, verified: ``out``.

    Raises:
        FetchError: it cannot be read, or ends early.
        WrongContent: it is longer than pinned, or has another digest.
        OSError: ``out`` cannot be written.
    """
    digest, length = hashlib.sha256(), 0
    with out.open("xb") as file:
        for chunk in _chunks(place, web):
            length += len(chunk)
            if length > archive.bytes:
                raise WrongContent(f"{place.origin}: {archive.file} is longer than the pinned {archive.bytes} bytes")
            digest.update(chunk)
            file.write(chunk)
    if length < archive.bytes:
        raise FetchError(f"{place.origin}: {archive.file} ended after {length} of {archive.bytes} bytes")
    found = digest.hexdigest()
    if found != archive.sha256:
        raise WrongContent(f"{place.origin}: {archive.file} has the SHA-256 {found}, not the pinned {archive.sha256}")
    return out


def _chunks(place: Place, web: Web) -> Iterator[bytes]:
    from requests import RequestException

    if place.path is not None:
        try:
            with place.path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    yield chunk
        except OSError as error:
            raise FetchError(f"{place.path} cannot be read: {error.strerror}") from error
        return
    # Not compressed on the way: the digest is that of the file.
    answer = web.get(place.url or "", {"Accept-Encoding": "identity"})
    try:
        yield from answer.iter_content(_CHUNK)
    except (RequestException, OSError) as error:
        raise FetchError(f"{place.origin}: the connection broke ({type(error).__name__})") from error
    finally:
        answer.close()
