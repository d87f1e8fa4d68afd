"""Where a row comes from: the run, the machine, and how its kernel was chosen."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from uuid import uuid4

from fmha_cli.domain.journal import Start
from fmha_cli.report.parts import RunRow, SelectedBy
from fmha_cli.report.record import Record
from fmha_cli.run.host import Host
from fmha_cli.run.request import Request
from fmha_cli.run.revision import GitRevision
from fmha_cli.run.rows import Row


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
