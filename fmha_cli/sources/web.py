"""HTTP as pip does it: certificates, proxies, netrc and trusted hosts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fmha_cli.sources.faults import FetchError, shown
from fmha_cli.sources.pip_settings import PipSettings

if TYPE_CHECKING:
    import requests


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
            raise FetchError(f"{shown(address)}: {_cause(error)}") from error
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
