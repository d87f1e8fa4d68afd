"""The process that runs chunks on one device: ``python -m fmha_cli.sweeps.child ANSWERS LEASE``.

Jobs come as lines on stdin, events leave on the descriptor ANSWERS; LEASE is the lock of the device, which this process and
the worker that it starts hold as long as they live. When stdin ends, the reader of the rows is gone: the process ends,
in the middle of a chunk at once with everything that it started.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from fmha_cli.discovery.builtins import revisions_in
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import EnvironmentProblem, FmhaError
from fmha_cli.domain.phases import Phase, Voice
from fmha_cli.report.record import Record
from fmha_cli.run.kernel_tables import StoredTables
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.sweeps.jobs import ChunkJob, mark_of
from fmha_cli.system.processes import end_own_group
from fmha_cli.toolchain.cache.root import cache_root

BEAT_S = 1.0
"""Seconds between two signs of life."""


class _Answers:
    """Writes events; several threads may."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def tell(self, event: str, **members: Any) -> None:
        data = json.dumps({"event": event, **members}).encode("ascii") + b"\n"
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]


def main(arguments: Sequence[str]) -> int:
    """Run the jobs that come, one after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's: it ends this process
    answers, lease = _Answers(int(arguments[0])), int(arguments[1])
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    working = threading.Event()

    def hear() -> None:
        while line := sys.stdin.buffer.readline():
            jobs.put(line)
        if working.is_set():
            end_own_group()
        jobs.put(b"")

    def beat() -> None:
        while not threading.Event().wait(BEAT_S):
            try:
                answers.tell("beat")
            except OSError:
                end_own_group()

    for work in (hear, beat):
        threading.Thread(target=work, daemon=True).start()
    answers.tell("ready", pid=os.getpid())
    with Supervisor(held=(lease,)) as supervisor:  # one worker for all chunks: to start it costs as much as ten rows
        while line := jobs.get():
            working.set()
            job = ChunkJob.of_line(line)
            try:
                _do(job, answers, supervisor)
            except FmhaError as fault:
                answers.tell("refused", chunk=job.number, why=fault.what + (f" ({fault.why})" if fault.why else ""))
            else:
                answers.tell("done", chunk=job.number)
            working.clear()
    return 0


def _do(job: ChunkJob, answers: _Answers, supervisor: Supervisor) -> None:
    """Run a chunk.

    Raises:
        FmhaError: it cannot be run here, or its rows are others than planned.
    """
    from fmha_cli.run.events import Built, Done, Planned, Started
    from fmha_cli.run.run import Run, Share
    from fmha_cli.run.tuned_choice import entries_among

    request, number = job.request, job.number

    def say(text: str) -> None:
        answers.tell("said", chunk=number, text=text)

    def phase(name: Phase, done: int, total: int) -> None:
        if not done:
            answers.tell("phase", chunk=number, name=name.value)

    registry = build_registry(lambda: StoredTables(cache_root(request.cache_root), say))
    chosen = revisions_in(lambda key: request.options.get(key.replace("_", "-")))
    past = {int(row): Record.from_dict(record) for row, record in job.past.items()}
    run = Run(
        job.problems,
        request,
        registry.at_revisions(chosen) if chosen else registry,
        layers=job.layers,
        tuned=entries_among(job.tuned),
        share=Share(supervisor=supervisor, past=past),
        voice=Voice(phase=phase),
    )
    with run:
        for event in run:
            match event:
                case Planned():
                    _refuse_others(tuple(map(mark_of, event.rows)), job)
                case Built():
                    answers.tell("built", chunk=number, digests=list(event.digests))
                case Started():
                    answers.tell("began", chunk=number, rows=list(event.numbers))
                case Done(number=row, record=record) if row not in past:
                    answers.tell("ended", chunk=number, row=row, record=record.to_dict())


def _refuse_others(found: tuple[Any, ...], job: ChunkJob) -> None:
    """Raises EnvironmentProblem: X061, the rows are others than the driver planned."""
    if found != job.expected:
        other = next((n for n, pair in enumerate(zip(found, job.expected, strict=False)) if len({*pair}) > 1), 0)
        why = f"{len(found)} rows instead of {len(job.expected)}; the first other one is row {other + 1}"
        raise EnvironmentProblem("this place plans other rows than the driver", code="X061", why=why)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
