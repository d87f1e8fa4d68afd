"""A separate process, ``python standin.py STANDIN WHAT [MORE ...]``, that prints one JSON object.

The stand-in has the real runtime's name, so the test process must not load it.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fmha_cli.backends.gpu.driver import DriverError
from fmha_cli.backends.hip.runtime import Hip, probe_hip
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import FmhaError
from fmha_cli.report.parts import ErrorRow
from tests.support.fakes.hip_recorder.recording import PlayedDevice, Recording


def _probe(recording: Recording, arch: str, count: str) -> Any:
    recording.play(
        PlayedDevice(arch=arch, major=9, count=int(count), units=304, memory_bytes=1 << 34, l2_bytes=4 << 20)
    )
    found = probe_hip(recording.path)
    devices = [[d.id, list(d.archs), d.units, d.memory_bytes, d.llc_bytes, d.name] for d in found.devices]
    return {"state": found.state.value, "why": found.why, "devices": devices, "version": found.version}


def _memory(recording: Recording) -> Any:
    hip = Hip.open(recording.path)
    data = ctypes.create_string_buffer(bytes(range(100)), 100)
    back = ctypes.create_string_buffer(100)
    stream = hip.stream()
    a, b = hip.malloc(100), hip.malloc(100)
    hip.copy_in(a, ctypes.addressof(data), 100)
    hip.fill(b, 7, 100, stream)
    hip.copy_within(b, a + 10, 20, stream)
    hip.copy_out(ctypes.addressof(back), b, 100)
    used = recording.bytes_in_use
    hip.free(a)
    hip.free(b)
    return {"back": list(back.raw), "used": used, "left": recording.bytes_in_use}


def _faults(recording: Recording) -> Any:
    hip = Hip.open(recording.path)
    stream, a = hip.stream(), hip.malloc(64)
    host = ctypes.create_string_buffer(64)
    calls: dict[str, Callable[[], Any]] = {
        "beyond": lambda: hip.copy_out(ctypes.addressof(host), a + 32, 64),
        "fill": lambda: hip.fill(a, 0, 65, stream),
        "free": lambda: hip.free(a + 1),
        "twice": lambda: (hip.free(a), hip.free(a)),
        "huge": lambda: hip.malloc(1 << 50),
        "device": lambda: hip.use(3),
        "event": lambda: hip.elapsed_ns((hip.event(), hip.event())),
        "unknown": lambda: hip.call("hipDeviceReset"),
    }
    out: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            call()
            out[name] = None
        except DriverError as fault:
            out[name] = ["DriverError", fault.what, fault.why, fault.number]
        except MemoryError as fault:
            out[name] = ["MemoryError", str(fault)]
    return out


def _events(recording: Recording) -> Any:
    hip = Hip.open(recording.path)
    stream = hip.stream()
    events = [hip.event() for _ in range(3)]
    for event in events:
        hip.record(event, stream)
    hip.synchronize(stream)
    times = hip.elapsed_ns(events)
    hip.destroy(events, stream)
    return {"times": times, "text": hip.error_text(2), "unknown": hip.error_text(123456)}


def main(standin: str, what: str, *more: str) -> None:
    recording = Recording(Path(standin), PlayedDevice.of_arch("gfx942"))
    handlers = {"probe": _probe, "memory": _memory, "faults": _faults, "events": _events}
    try:
        answer = handlers[what](recording, *more)
    except FmhaError as fault:
        answer = {"error": to_json(ErrorRow.of(fault))}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
