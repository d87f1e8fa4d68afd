"""Find one pinned file, in a folder of ``--find-links`` or in a simple index (HTTP or a folder), and download it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

from fmha_cli.sources.faults import FetchError, WrongContent, redact
from fmha_cli.sources.pins import Archive
from fmha_cli.sources.web import Web

if TYPE_CHECKING:
    from pypi_simple import ProjectPage


_CHUNK = 1 << 20


@dataclass(frozen=True)
class SourcePlace:
    """Where a file is: an address, or a path on this machine."""

    origin: str
    url: str | None = None
    path: Path | None = None


def places(archive: Archive, web: Web) -> Iterator[SourcePlace | FetchError]:
    """Every place that offers the file by its name, in pip's order, and the fault of each index that cannot answer."""
    for link in web.settings.links:
        yield from _find_linked(archive, link, web)
    if not web.settings.no_index:
        from pypi_simple import PYPI_SIMPLE_ENDPOINT

        for index in (*(web.settings.indexes or (PYPI_SIMPLE_ENDPOINT,)), *web.settings.extra):
            yield from _find_indexed(archive, index, web)


def local_path(address: str) -> Path | None:
    """The path that a ``file:`` address or a plain path means; None for another kind of address."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(unquote(parts.path)))
    return None if len(parts.scheme) > 1 else Path(os.path.expanduser(address))


def _find_linked(archive: Archive, link: str, web: Web) -> Iterator[SourcePlace | FetchError]:
    folder = local_path(link)
    try:
        if folder is None:
            yield from _on_page(archive, _page(archive, link, web), link)
        elif folder.is_dir():
            found = folder / archive.file
            if found.is_file():
                yield SourcePlace(f"the folder {folder}", path=found)
        elif folder.is_file():
            yield from _on_page(archive, _local_page(archive, folder), link)
    except FetchError as fault:
        yield fault


def _find_indexed(archive: Archive, index: str, web: Web) -> Iterator[SourcePlace | FetchError]:
    folder = local_path(index)
    try:
        if folder is None:
            yield from _on_page(archive, _page(archive, f"{index.rstrip('/')}/{archive.project}/", web), index)
            return
        page = folder / archive.project / "index.html"
        if page.is_file():
            yield from _on_page(archive, _local_page(archive, page), index)
        elif (folder / archive.project / archive.file).is_file():
            yield SourcePlace(f"the folder {folder}", path=folder / archive.project / archive.file)
        else:
            raise FetchError(f"the index {index} does not know {archive.project}")
    except FetchError as fault:
        yield fault


def _on_page(archive: Archive, page: ProjectPage, index: str) -> Iterator[SourcePlace]:
    """The file on a page of links. Raises FetchError: the page does not offer it."""
    for package in page.packages:
        if package.filename == archive.file:
            address = _with_login(urlunsplit(urlsplit(package.url)._replace(fragment="")), index)
            path = local_path(address)
            yield SourcePlace(redact(f"the index {index}"), url=None if path else address, path=path)
            return
    raise FetchError(f"the index {index} does not offer {archive.file}")


def _page(archive: Archive, address: str, web: Web) -> ProjectPage:
    from pypi_simple import ACCEPT_JSON_PREFERRED, ProjectPage, UnsupportedContentTypeError
    from requests import RequestException

    answer = web.get(address, {"Accept": ACCEPT_JSON_PREFERRED})
    try:
        return ProjectPage.from_response(answer, archive.project)
    except (RequestException, UnsupportedContentTypeError, ValueError, KeyError, TypeError) as error:
        raise FetchError(f"{address} is not a page of a package index: {type(error).__name__}") from error
    finally:
        answer.close()


def _local_page(archive: Archive, file: Path) -> ProjectPage:
    from pypi_simple import ProjectPage

    try:
        return ProjectPage.from_html(archive.project, file.read_text("utf-8"), base_url=file.absolute().as_uri())
    except (OSError, ValueError) as error:
        raise FetchError(f"the page {file} cannot be read: {error}") from error


def _with_login(address: str, index: str) -> str:
    """The address with the index's user and password, if it is on the same server and has none itself."""
    ours, theirs = urlsplit(index), urlsplit(urljoin(index, address))
    same = (ours.scheme, ours.hostname, ours.port) == (theirs.scheme, theirs.hostname, theirs.port)
    login = ours.netloc.rpartition("@")[0]
    if same and login and "@" not in theirs.netloc:
        return urlunsplit(theirs._replace(netloc=f"{login}@{theirs.netloc}"))
    return address


def download(
    archive: Archive, place: SourcePlace, out: Path, web: Web, came: Callable[[int], None] = lambda count: None
) -> Path:
    """The archive's file, verified: ``out``.

    Args:
        came: takes the number of bytes so far.

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
            came(length)
    if length < archive.bytes:
        raise FetchError(f"{place.origin}: {archive.file} ended after {length} of {archive.bytes} bytes")
    found = digest.hexdigest()
    if found != archive.sha256:
        raise WrongContent(f"{place.origin}: {archive.file} has the SHA-256 {found}, not the pinned {archive.sha256}")
    return out


def _chunks(place: SourcePlace, web: Web) -> Iterator[bytes]:
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
