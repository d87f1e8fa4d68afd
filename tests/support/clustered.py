"""A real Dask cluster for tests: a scheduler and workers of ``fmha worker``, on loopback or in network namespaces."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.live_processes import gone
from tests.support.swept import descendants, environ_of, kill, words_of

START_S = 120.0


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Node:
    """A host of the cluster: the process of ``fmha worker`` (Dask's nanny), and what it started."""

    device: str
    process: subprocess.Popen[bytes]

    @property
    def worker(self) -> int | None:
        """The process id of Dask's worker, which the nanny replaces when it dies."""
        found = (pid for pid in descendants(self.process.pid) if "spawn_main" in words_of(pid))
        return next(found, None)

    @property
    def group(self) -> list[int]:
        """The nanny and everything that it started."""
        return [self.process.pid, *descendants(self.process.pid)]

    def pause(self) -> list[int]:
        """Stop them all, and what they start or end meanwhile; the stopped ones."""
        seen: set[int] = set()
        stopped: list[int] = []
        while new := [pid for pid in self.group if pid not in seen]:
            seen.update(new)
            stopped += [pid for pid in new if kill(pid, signal.SIGSTOP)]
        return stopped


def waited(path: Path, text: str) -> None:
    """Wait until a log holds a text."""
    end = time.monotonic() + START_S
    while not path.exists() or text not in path.read_text(errors="replace"):
        assert time.monotonic() < end, path.read_text(errors="replace") if path.exists() else "no log"
        time.sleep(0.1)


@contextmanager
def cluster(
    folder: Path,
    devices: int,
    *,
    host: str = "127.0.0.1",
    before: Sequence[Sequence[str]] = (),
    tls: Sequence[str] = (),
    scheduler_tls: Sequence[str] = (),
) -> Iterator[tuple[str, list[Node]]]:
    """A scheduler, and a node for each device: the address, and the nodes.

    Args:
        before: words before the command of each node (``ip netns exec NAME``); none on loopback.
        tls: the options of certificates of ``fmha``; scheduler_tls: those of Dask's scheduler.
    """
    port = free_port()
    url = f"{'tls' if tls else 'tcp'}://{host}:{port}"
    started: list[subprocess.Popen[bytes]] = []

    def run(log: str, words: Sequence[str], environ: dict[str, str]) -> subprocess.Popen[bytes]:
        with (folder / log).open("wb") as out:
            process = subprocess.Popen(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environ, cwd=folder)
        started.append(process)
        return process

    try:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", str(port)]
        run("scheduler.log", [*command, "--no-dashboard", *scheduler_tls], dict(os.environ))
        waited(folder / "scheduler.log", "Scheduler at:")
        nodes = []
        for number in range(devices):
            own = environ_of(folder, devices) | {"FMHA_CACHE_DIR": str(folder / f"cache{number}")}
            words = [sys.executable, "-m", "fmha_cli", "worker", "--scheduler", url, *tls, "--backend", "null"]
            device = f"null:{number}"
            prefix = before[number] if before else ()
            nodes.append(Node(device, run(f"node{number}.log", [*prefix, *words, "--devices", device], own)))
        for number in range(devices):
            waited(folder / f"node{number}.log", f"at {url}")
        yield url, nodes
    finally:
        for process in reversed(started):
            below = descendants(process.pid)
            process.kill()
            process.wait()
            for pid in below:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
            assert all(map(gone, below))
