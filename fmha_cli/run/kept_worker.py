"""What one call of ``attention`` leaves to the next: the worker, the backends, and the rows that were planned. Nothing is started, found or
chosen again while the process stays as it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock

from fmha_cli.discovery.entry_points import declaring
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.device import usable_cores
from fmha_cli.run.rows import KnownRows
from fmha_cli.run.run import Share
from fmha_cli.run.supervisor import Supervisor

Surroundings = tuple[int, dict[str, str], tuple[str, ...]]
"""What a process hands to its worker, and what choices and kernels may depend on: cores, environment variables, the path of modules."""


class KeptWorker:
    """A supervisor and the rows that its calls have planned, as long as the surroundings stay the same."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.supervisor = Supervisor()
        self.rows = KnownRows()
        self._seen: Surroundings | None = None

    def share(self) -> Share:
        """What the next call gets. A worker of other surroundings ends, and their choices are forgotten."""
        seen = (usable_cores(), dict(os.environ), tuple(sys.path))
        if seen != self._seen:
            self._seen, self.rows = seen, KnownRows()
            self.supervisor.close()
        return Share(supervisor=self.supervisor, known=self.rows)


@contextmanager
def kept_worker() -> Iterator[Share]:
    """The share of this process's kept worker; of another one while that is in use by another thread."""
    kept = _kept(os.getpid())
    if not kept.lock.acquire(blocking=False):
        with Supervisor() as another:
            yield Share(supervisor=another)
        return
    try:
        yield kept.share()
    finally:
        try:
            kept.supervisor.tidy()
        finally:
            kept.lock.release()


def kept_registry() -> Registry:
    """The installed backends; others once a distribution that declares a plugin was installed or removed."""
    return _registry(declaring(sys.path))


@lru_cache(maxsize=1)
def _registry(declared: tuple[Path, ...] | None) -> Registry:
    return build_registry()


@lru_cache(maxsize=1)
def _kept(process: int) -> KeptWorker:
    """A forked child must not speak through its parent's channel."""
    return KeptWorker()
