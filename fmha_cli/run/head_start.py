"""``HeadStart``: a worker that gets ready while the parent is still importing what a walk needs, numpy above all."""

from __future__ import annotations

from contextlib import suppress

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.run.process import WorkerProcess


class HeadStart:
    """Use it as a context manager in the main thread. A worker that nobody takes ends with it.

    A failure to start one is not an error here: the first request that needs a worker reports it.
    """

    def __init__(self) -> None:
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> HeadStart:
        with suppress(EnvironmentProblem):
            self._worker = WorkerProcess()
        return self

    def __exit__(self, *exc: object) -> None:
        worker = self.take()
        if worker is not None:
            worker.kill()
            worker.close()

    def take(self) -> WorkerProcess | None:
        """The worker, which from now on is the caller's; None if there is none, or none any more."""
        worker, self._worker = self._worker, None
        return worker
