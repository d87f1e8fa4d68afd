"""Where a row comes from: the run, the machine, the user's repository, and how its kernel was chosen."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.journal import Start
from fmha_cli.domain.processor import Processor, this_processor
from fmha_cli.report.parts import RunRow, SelectedBy
from fmha_cli.report.record import Record
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.system.machine import memory_bytes

LONGEST_S = 2.0
"""How long the rows wait for git. A repository that takes longer has no revision in its records."""

_COMMAND = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
_SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false")
"""The repository is only read, and a program that its configuration names is not started."""


class GitRevision(AbstractContextManager["GitRevision"]):
    """One query to git, started in the background when the object is made. Nothing here ever fails.

    Attributes:
        commit: the commit that is checked out; None without a repository, without git, or if git was too slow.
        dirty: whether a tracked file differs from it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.commit: str | None = None
        self.dirty: bool | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            here = Path.cwd() if folder is None else folder
            git = shutil.which("git")
            if git is not None and any((above / ".git").exists() for above in (here, *here.parents)):
                self._process = subprocess.Popen(
                    [git, *_SAFE, *_COMMAND],
                    cwd=here,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "LC_ALL": "C"},
                )
        except OSError:
            return

    def wait(self) -> None:
        """Take the answer; called before the first kernel is timed, so git does not disturb a measurement."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            answer, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return
        lines = answer.decode("ascii", "replace").splitlines()
        commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
        if process.returncode == 0 and commit and commit.isalnum():
            self.commit, self.dirty = commit, any(not line.startswith("#") for line in lines)

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


_COMPILERS = ("g++", "clang++", "c++")

_ACCELERATORS = ("0x03", "0x12")
"""Classes of PCI devices: display controllers, and processing accelerators."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """Facts of a machine; it names no user, no folder and no network.

    Attributes:
        cores: logical cores of the machine.
        memory_gib: main memory, rounded.
        accelerators: vendor and device number of each graphics card or accelerator on the PCI bus, with its driver.
        drivers: driver of an accelerator -> version, where the driver states one.
        compilers: name of a program -> name of the file that it stands for, which often holds the version.
    """

    system: str
    machine: str
    processor: Processor
    cores: int
    memory_gib: int
    accelerators: tuple[str, ...]
    drivers: Mapping[str, str]
    compilers: Mapping[str, str]

    @property
    def digest(self) -> str:
        """sha256 over all facts: equal for every run on one machine until a part of it is replaced."""
        return digest_of(to_json(self))

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.processor.text}, {self.cores} cores, {self.memory_gib} GiB"


def this_host(root: Path = Path("/")) -> Host:
    """The machine that runs this process.

    Args:
        root: where the folders ``proc`` and ``sys`` are.
    """
    cards = [*filter(None, map(_card, sorted((root / "sys" / "bus" / "pci" / "devices").glob("*"))))]
    versions = {driver: _text(root / "sys" / "module" / driver / "version").strip() for _, driver in cards}
    found = {name: shutil.which(name) for name in _COMPILERS}
    return Host(
        system=platform.system(),
        machine=platform.machine(),
        processor=this_processor(root / "proc" / "cpuinfo"),
        cores=os.cpu_count() or 1,
        memory_gib=round(memory_bytes() / 2**30),
        accelerators=tuple(map(" ".join, cards)),
        drivers={name: version for name, version in versions.items() if version},
        compilers={name: os.path.basename(os.path.realpath(path)) for name, path in found.items() if path},
    )


def _card(place: Path) -> tuple[str, str] | None:
    """The accelerator at a place of the PCI bus; None if another device is there."""
    if not _text(place / "class").startswith(_ACCELERATORS):
        return None
    model = ":".join(_text(place / name).strip() for name in ("vendor", "device"))
    return model, os.path.basename(os.path.realpath(place / "driver"))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def now() -> str:
    """This moment, ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True)
class Origin:
    """The common part of all rows of an invocation."""

    run: RunRow
    host: Host

    @staticmethod
    def new(host: Host, request: Request) -> Origin:
        """The origin of a new run."""
        command = request.command.value
        return Origin(RunRow(id=uuid4().hex, command=command, started=now(), label=request.label), host)

    def within(self, start: Start) -> Origin:
        """The origin of a run that a journal resumes: it keeps the id and the time of its first invocation."""
        return replace(self, run=replace(self.run, id=start.run, started=start.started))

    def at(self, revision: GitRevision) -> Origin:
        """The same origin with the revision of the user's repository."""
        return replace(self, run=replace(self.run, revision=revision.commit, dirty=revision.dirty))

    def stamped(self, record: Record, started: str | None) -> Record:
        """The record with its origin; ``started`` is when its row was dispatched."""
        return replace(record, run=self.run, host=self.host.digest, processor=self.host.processor, started=started)


def selected_by(row: Row, request: Request) -> SelectedBy | None:
    """How the kernel of a row was chosen; None if there is none."""
    if row.choice is None:
        return None
    if request.ab is not None:
        return SelectedBy.PAIR
    if request.all_kernels:
        return SelectedBy.ALL_KERNELS
    if row.tuned:
        return SelectedBy.TUNED
    if row.asked is not None:
        return SelectedBy.BACKEND
    return SelectedBy.DEFAULT if request.kernel is None else SelectedBy.KERNEL
