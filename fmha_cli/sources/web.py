"""HTTP as pip does it: certificates, proxies, netrc and trusted hosts. ``RangedFile`` reads a file in pieces, if the server allows it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fmha_cli.sources.faults import FetchError, redact
from fmha_cli.sources.pip_settings import PipSettings

if TYPE_CHECKING:
    import requests
import io
import re
from collections.abc import Callable

from fmha_cli.sources.faults import WrongContent


@dataclass(frozen=True)
class Web:
    """A client with pip's settings. netrc and proxy variables are honoured by ``requests`` itself."""

    settings: PipSettings

    @cached_property
    def _session(self) -> requests.Session:
        import requests
        from requests.adapters import HTTPAdapter

        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=self.settings.retries))
        session.cert = self.settings.client_cert
        if self.settings.proxy:
            session.proxies = {"http": self.settings.proxy, "https": self.settings.proxy}
        return session

    def get(self, address: str, headers: Mapping[str, str] | None = None) -> requests.Response:
        """The answer to one GET, its body not read yet; the caller closes it.

        Raises:
            FetchError: no connection, or a status of 400 and more.
        """
        import requests

        parts = urlsplit(address)
        trusted = {parts.hostname, f"{parts.hostname}:{parts.port}"} & set(self.settings.trusted)
        verify = False if trusted else self.settings.cert
        try:
            with warnings.catch_warnings():
                # pip does not warn about hosts that its user trusts without a certificate.
                warnings.simplefilter("ignore" if trusted else "default")
                answer = self._session.get(
                    address, headers=dict(headers or {}), timeout=self.settings.timeout, stream=True, verify=verify
                )
        except (requests.RequestException, OSError) as error:
            raise FetchError(f"{redact(address)}: {_cause(error)}") from error
        if answer.status_code >= 400:
            answer.close()
            raise FetchError(f"{address}: status {answer.status_code} {answer.reason}")
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


def _cause(error: BaseException) -> str:
    """The innermost cause in one line, without the exceptions that ``requests`` wraps around it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    text = str(error).strip().splitlines()
    return text[0][:200] if text and text[0] else type(error).__name__


PIECE = 1 << 18
"""Bytes requested at once; the members of one folder of a wheel are adjacent."""

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class NoRanges(FetchError):
    """The server sends whole files only."""


class RangedFile(io.RawIOBase):
    """A seekable file of known length over HTTP ranges; keeps the pieces that it has read.

    Args:
        length: of the whole file, as pinned. limit: bytes that it may read in all.

    Raises:
        NoRanges: on reading, when the server answers a range with the whole file.
        WrongContent: on reading, when the file has another length, or more than ``limit`` is requested.
        FetchError: on reading, when the connection fails.
    """

    def __init__(
        self, web: Web, address: str, length: int, limit: int, came: Callable[[int], None] = lambda count: None
    ) -> None:
        super().__init__()
        self._came = came
        self._web, self._address, self._length, self._limit = web, address, length, limit
        self._at = 0
        self._pieces: dict[int, bytes] = {}

    @property
    def read_bytes(self) -> int:
        """Bytes that came over the network so far."""
        return sum(map(len, self._pieces.values()))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if self._at >= self._length:
            return 0
        piece, start = divmod(self._at, PIECE)
        if piece not in self._pieces:
            self._pieces[piece] = self._fetch(piece)
            self._came(self.read_bytes)
        data = self._pieces[piece][start : start + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _fetch(self, piece: int) -> bytes:
        from requests import RequestException

        first = piece * PIECE
        last = min(first + PIECE, self._length) - 1
        if self.read_bytes + last + 1 - first > self._limit:
            raise WrongContent(f"more than {self._limit} bytes of the file would have to be read")
        answer = self._web.get(self._address, {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"})
        try:
            if answer.status_code != 206:
                raise NoRanges("the server sends whole files only")
            match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            if match is None or tuple(map(int, match.groups())) != (first, last, self._length):
                raise WrongContent(f"the file does not have the pinned length of {self._length} bytes")
            data = b""
            for chunk in answer.iter_content(PIECE):
                data += chunk
                if len(data) > last + 1 - first:
                    break
        except (RequestException, OSError) as error:
            raise FetchError(f"the connection broke ({type(error).__name__})") from error
        finally:
            answer.close()
        if len(data) != last + 1 - first:
            raise FetchError(f"a range of {last + 1 - first} bytes came with {len(data)}")
        return data
