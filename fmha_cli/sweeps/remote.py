"""What a cluster's worker does for the driver. Dask calls these functions by name, in the worker's process.

A chunk runs in a child (``child``) under the lease of the device, as on the driver's own machine. What the child says goes to
the driver at once; its records come a second time with the result, in case the first message was lost with its connection.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import UsageError
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Request
from fmha_cli.sweeps.jobs import ChunkJob, Event
from fmha_cli.sweeps.leases import Lease, holder_of, state_folder, take
from fmha_cli.sweeps.process import ChildProcess, events_of
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.root import cache_root, open_root

MARK = "fmha"
"""The first part of the name of a worker of ``fmha worker``: ``fmha|HOST|DEVICE|COPY``."""

_LEASE_S = 0.2


def worker_name(device: str, copy: str) -> str:
    """The driver's name of a worker's device."""
    return "|".join((MARK, platform.node(), device, copy))


def describe(request: str, device: str) -> str:
    """The answers of the backends on this machine about a device, as JSON: backend -> ``Availability``."""
    wanted, registry = from_json(Request, json.loads(request)).wanted, build_registry()
    found = probe_backends(registry, wanted_backends(registry, wanted), None, device)
    return json.dumps({name: to_json(answer) for name, answer in found.items()})


def found_of(text: str) -> dict[str, Availability]:
    """The inverse of what ``describe`` returns."""
    return {name: from_json(Availability, answer) for name, answer in json.loads(text).items()}


def run_chunk(line: str, run: str, slot: str, archives: Mapping[str, bytes], ship: bool) -> dict[str, Any]:
    """Run a chunk on this worker's device.

    Args:
        line: the job. run: id of the sweep. slot: name of the lease.
        archives: built kernels to take first, by a digest of what they are.
        ship: whether the result shall hold the kernels of the chunk.

    Returns:
        ``records``: row -> record; ``end``: the event with which it ended; ``archive``: the kernels, may be empty.
    """
    from distributed import get_worker

    worker, job = get_worker(), ChunkJob.of_line(line)

    def tell(event: Event) -> None:
        worker.log_event(topic_of(run), {"worker": worker.address, "text": json.dumps(event)})

    return carried_out(job, run, slot, archives, ship, tell)


def topic_of(run: str) -> str:
    """The topic of a sweep's messages."""
    return f"fmha-{run}"


def carried_out(
    job: ChunkJob, run: str, slot: str, archives: Mapping[str, bytes], ship: bool, tell: Callable[[Event], None]
) -> dict[str, Any]:
    """As ``run_chunk``, with a receiver of the events."""
    for data in archives.values():
        unpacked(data, job.request.cache_root)
    records: dict[str, Any] = {}
    digests: set[str] = set()
    end: dict[str, Any] = {"event": "died", "chunk": job.number, "why": "its process ended"}
    with tempfile.TemporaryDirectory() as folder:
        child = ChildProcess(_leased(slot, run, tell, job.number), Path(folder) / "log")
        child.send(job)
        for event in events_of(child):
            if event["event"] == "built":
                digests.update(event["digests"])
            elif event["event"] == "ended":
                records[str(event["row"])] = event["record"]
            if event["event"] in ("done", "refused"):
                end = dict(event)
                break
            tell(event)
        if end["event"] == "died":
            end["why"] = child.bury()
        else:
            child.close()
    archive = packed(digests, job.request.cache_root) if ship and digests and end["event"] == "done" else b""
    return {"records": records, "end": end, "archive": archive}


def _leased(slot: str, run: str, tell: Callable[[Event], None], chunk: int) -> Lease:
    """The lease of a device, as soon as nobody has it. The child of a worker that was killed may still hold it."""
    states, told = state_folder(os.environ), False
    while (lease := take(states, slot, run)) is None:
        holder = holder_of(states, slot)
        if not told and holder is not None:
            tell({"event": "waits", "chunk": chunk, "text": holder.text})
            told = True
        time.sleep(_LEASE_S)
    return lease


_NAME = "kernels.tar.xz"


def packed(digests: Iterable[str], root: str | None) -> bytes:
    """The archive of some entries of the cache below a root; empty if one is not there.

    Raises:
        EnvironmentProblem: the cache cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / _NAME
        try:
            export_entries(open_root(cache_root(root)), digests, archive)
        except UsageError:  # pruned meanwhile
            return b""
        return archive.read_bytes()


def unpacked(data: bytes, root: str | None) -> None:
    """Take an archive of the driver. It may hold host code: the driver runs code here anyway.

    Raises:
        UsageError, EnvironmentProblem: it is damaged, or the cache cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / _NAME
        archive.write_bytes(data)
        import_entries(open_root(cache_root(root), create=True), archive, trust=True, notify=lambda notice: None)
