"""The worker and the backends that one call of ``attention`` leaves to the next: neither is started or found again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from threading import Lock

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.device import usable_cores
from fmha_cli.run.supervisor import Supervisor


@contextmanager
def kept_worker() -> Iterator[Supervisor]:
    """The supervisor of this process's kept worker; of another one while that is in use by another thread."""
    supervisor, lock = _kept(os.getpid(), usable_cores())
    if not lock.acquire(blocking=False):
        with Supervisor() as another:
            yield another
        return
    try:
        yield supervisor
    finally:
        try:
            supervisor.tidy()
        finally:
            lock.release()


@cache
def kept_registry() -> Registry:
    """The installed backends, as they were at the first call."""
    return build_registry()


@lru_cache(maxsize=1)
def _kept(process: int, cores: int) -> tuple[Supervisor, Lock]:
    """A forked child must not speak through its parent's channel, and a worker keeps the cores with which it was started."""
    return Supervisor(), Lock()
