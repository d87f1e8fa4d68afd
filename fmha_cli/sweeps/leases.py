"""Leases: one process at a time uses a device. A lease is a lock (``flock``) of a file in the user's state folder.

The lock is taken before a worker starts and inherited by every process that may use the device. It ends when the last of
them has ended, however that happens, so a device whose worker was killed is not given away while a child of that worker
still runs on it. The file names the holder; the name counts only while the file is locked. Workers that time nothing
may share a device's lease with others of their sort.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fmha_cli.domain.errors import EnvironmentProblem, no_home
from fmha_cli.system.files import BINARY, CLOEXEC, write_at_start
from fmha_cli.system.locks import try_lock

_LONGEST = 4096


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """``$XDG_STATE_HOME/fmha``, else the platform's folder of states. A relative variable counts as unset, as its
    specification demands.

    Raises:
        EnvironmentProblem: X042, the variable is not set, and the user has no home.
    """
    xdg = (os.environ if environ is None else environ).get("XDG_STATE_HOME", "")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "fmha"
    from platformdirs import user_state_path

    try:
        return user_state_path("fmha", appauthor=False).absolute()
    except RuntimeError as fault:
        raise no_home("set HOME or XDG_STATE_HOME") from fault


@dataclass(frozen=True, kw_only=True)
class LeaseHolder:
    """Who holds a device.

    Attributes:
        device: the id of the device, with the number of the emulation where there are several.
        host: the name of the machine.
        pid: of the driver, or of the cluster's worker, that took the lease.
        run: id of the sweep.
        since: ISO 8601 in UTC.
    """

    device: str
    host: str
    pid: int
    run: str
    since: str

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.device} is held by the sweep {self.run[:8]} (process {self.pid} on {self.host}) since {self.since}"
        )


class Lease:
    """A device that is held. ``descriptor`` is what a process inherits that uses the device."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def let_go(self) -> None:
        """Close the descriptor of this process; processes that inherited it hold the device as long as they live."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def lease_path(folder: Path, device: str, host: str | None = None) -> Path:
    """The file of a device. It has the host in its path, because several machines may share a home folder."""
    where = file_name(platform.node() if host is None else host) or "localhost"
    return folder / "leases" / where / f"{file_name(device)}.lock"


def file_name(text: str) -> str:
    """A name as that of a file."""
    return re.sub(r"[^\w.-]", "_", text)


def take(folder: Path, device: str, run: str, *, shared: bool = False) -> Lease | None:
    """The lease of a device without waiting; None while another process holds it, or some share it and this one will not.

    Raises:
        EnvironmentProblem: X060, the file cannot be made or locked.
    """
    path = lease_path(folder, device)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC | BINARY, 0o600)
        try:
            if not try_lock(descriptor, shared=shared):
                os.close(descriptor)
                return None
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            holder = LeaseHolder(device=device, host=platform.node(), pid=os.getpid(), run=run, since=since)
            write_at_start(descriptor, json.dumps(asdict(holder)).encode())
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as fault:
        what, help = f"{device} cannot be leased", "set XDG_STATE_HOME to a folder that can be written"
        raise EnvironmentProblem(what, code="X060", where=str(path), why=fault.strerror, help=help) from fault
    return Lease(descriptor)


def holder_of(folder: Path, device: str) -> LeaseHolder | None:
    """Who last took a device, as its file says; None if nobody did, or the file says nothing."""
    try:
        with lease_path(folder, device).open("rb") as file:
            told: Any = json.loads(file.read(_LONGEST))
        return LeaseHolder(**told)
    except (OSError, ValueError, TypeError):
        return None
