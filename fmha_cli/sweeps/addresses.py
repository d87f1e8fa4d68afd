"""``--scheduler``: where the workers are, and what protects the connection to them.

A cluster's port runs code that is sent to it (Dask pickles functions), so beyond this machine it must be TLS, with which
both sides prove who they are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from distributed.security import Security

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]+):([0-9]{1,5})")


class Where(StrEnum):
    """The kinds of ``--scheduler``."""

    LOCAL = "local"
    DASK = "dask"
    SLURM = "slurm"


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files of ``--tls-ca``, ``--tls-cert`` and ``--tls-key`` in PEM form."""

    ca: str
    cert: str
    key: str

    def security(self) -> Security:
        """What Dask takes. Raises EnvironmentProblem: X063, Dask is not installed."""
        need_dask()
        from distributed.security import Security

        files: dict[str, Any] = {"tls_ca_file": self.ca}
        for role in ("client", "scheduler", "worker"):
            files |= {f"tls_{role}_cert": self.cert, f"tls_{role}_key": self.key}
        return Security(require_encryption=True, **files)


@dataclass(frozen=True, kw_only=True)
class Address:
    """The value of ``--scheduler``.

    Attributes:
        url: of a Dask scheduler; empty for other kinds.
        options: of Slurm, by name.
    """

    where: Where
    url: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def parse_scheduler(text: str, *, tls: bool) -> Address:
    """The address of a text: ``local``, ``tcp://HOST:PORT``, ``tls://HOST:PORT``, ``slurm:NAME=VALUE,...``.

    Args:
        tls: whether the files of a TLS connection are given.

    Raises:
        UsageError: E002, another text; a scheduler beyond this machine without TLS.
    """
    if text == Where.LOCAL:
        return Address(where=Where.LOCAL)
    kind, colon, rest = text.partition(":")
    if kind == Where.SLURM and colon:
        options = dict(_option(text, word) for word in rest.split(",") if word.strip())
        if not tls:
            raise _unsafe(text, "workers on other machines")
        return Address(where=Where.SLURM, options=options)
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        help = "local, tcp://HOST:8786, tls://HOST:8786 or slurm:queue=NAME,..."
        raise UsageError(f"--scheduler {text}: no address of a scheduler", code="E002", where="--scheduler", help=help)
    if match[1] == "tls" and not tls:
        raise _unsafe(text, "tls://")
    if match[1] == "tcp" and not tls and not _loopback(match[2]):
        raise _unsafe(text, f"{match[2]} is another machine, whose")
    return Address(where=Where.DASK, url=f"{'tls' if tls else 'tcp'}://{match[2]}:{match[3]}")


def _option(text: str, word: str) -> tuple[str, str]:
    name, equals, value = word.strip().partition("=")
    if not equals or not name or not value:
        raise UsageError(f"--scheduler {text}: {word.strip()}", code="E002", where="--scheduler", help="NAME=VALUE")
    return name, value


def _unsafe(text: str, what: str) -> UsageError:
    why = (
        f"{what} port would run whatever anybody sends to it" if what.endswith("whose") else f"{what} need certificates"
    )
    help = "--tls-ca FILE --tls-cert FILE --tls-key FILE, on the scheduler and on every worker too"
    return UsageError(f"--scheduler {text} without TLS", code="E002", where="--scheduler", why=why, help=help)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def need_dask(package: str = "distributed") -> None:
    """Raises EnvironmentProblem: X063, the packages of other schedulers are not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        help = 'pip install "fmha[dask]"; --scheduler local needs nothing'
        what = f"a cluster needs {package}"
        raise EnvironmentProblem(what, code="X063", where="--scheduler", why=f"no module named {package}", help=help)
