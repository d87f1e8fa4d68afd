"""FlashAttention's own host code next to ours on an emulated device: ``python upstream_launches.py DEVICE PROBLEM``
prints what differs.

Needs ``tests/backends/flash_attn`` on ``PYTHONPATH``. Upstream's host code (``flash_api.cpp``, compiled for the host) is asked
with the addresses of a model arena. The grids, blocks, shared memory and parameter structs that it answers with, its addresses
replaced by those on the device, are launched on the same inputs. The outputs are compared bit for bit with those of the session's
own launches. Both use the same compiled kernels, chosen by the template that each names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fmha_cli.api import Problem, build_registry
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.backends.gpu.launching import Launch, PackedArguments
from fmha_cli.discovery.emulated_devices import emulated_availability, emulated_device
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.codec import to_json
from fmha_cli.oracle.fills import fill
from fmha_cli.plugin import BuildContext, EmulatorOptions, cache_root
from fmha_cli.run.arena import Arena
from fmha_cli.run.builds import build_orders
from fmha_cli.run.cases import Cases
from fmha_cli.run.layout import layout_of
from fmha_cli.run.protocol import map_shared
from fmha_cli.run.request import Order
from tests.support.referees.upstream_host.calls import DEVICES
from tests.support.referees.upstream_host.client import Allocation, Host
from tests.support.referees.upstream_host.client import Launch as Theirs
from tests.support.referees.upstream_host.compare import ARENA, Compared, FlashProblem, Members, compare, launch_faults
from tests.support.referees.upstream_host.program import host_program

POINTER = 8
"""Bytes of a pointer, and its alignment in a parameter struct."""
Place = tuple[int, int, int]
"""An address of the model, the bytes from there on, and the address on the device."""


def compared(device_id: str, text: str) -> dict[str, Any]:
    """Launch both, and say what each launched and which outputs differ.

    Returns:
        ``api``: upstream's function. ``kernels``: the templates that upstream's code launched, without their arguments.
        ``launch_faults``: differences between the launches and their parameter structs. ``instructions``: of each launch, ours and
        upstream's. ``findings``: the emulator's, ours and upstream's. ``bytes``: of each output compared. ``constant``: outputs
        whose bytes are all the same, which prove nothing. ``differ``: outputs that are not the same bit for bit.
    """
    registry, problem = build_registry(), Problem.from_cli(text)
    emulator, device = emulated_device(registry, device_id)
    backend = registry.backend("flash_attn")
    found = emulated_availability(registry, (backend,), device.id)
    best = select(problem, registry, found, Wanted(backend=backend.name, device=device.id)).best
    assert best is not None
    plan = backend.plan(problem, best.kernel, best.device)
    context = BuildContext(cache_root=cache_root(), jobs=1)
    host = Host(host_program(context.cache_root))
    asked = next(d for d in DEVICES[device_id.removeprefix("emu:")] if d.multiprocessors == device.units)
    (both,) = compare(host, [FlashProblem(problem, asked)])
    assert both.theirs is not None
    assert not both.refused, both.refused
    faults = [*launch_faults(both), *Members(host.layout()).faults(both)]
    built = build_orders(map(Order, plan.stages), registry, context)
    library = emulator.build(device, context)
    attached = emulator.attach(library.path, device, EmulatorOptions(cache=str(context.cache_root / "emulators")))
    session: Any = backend.open(device)
    layout = layout_of(problem, plan.workspaces)
    with Arena(layout) as arena:
        memory = map_shared(arena.fd, layout.size)
        arena.write(
            Cases(lambda one, kind: fill(one, kind, 0), oracle_s=1.0)
            .case(problem, "normal", stream=backend.dropout_stream, check=True)
            .inputs
        )
        arena.prepare()
        session.load(plan, [built[stage.kernel.digest].value.path for stage in plan.stages])
        session.bind(memoryview(memory), dict(layout.tensors), 1)
        outputs = [
            name for name in ("o", "lse", "dq", "dk", "dv") if name in layout.tensors and name not in _inputs(problem)
        ]
        session.upload()
        session.launch()
        session.download()
        ours, seen = _bytes(session, layout.tensors, outputs), attached.take()
        arena.prepare()
        session.upload()
        places = list(_places(session, both))
        for launch in both.theirs.launches:
            _launch(session, plan.stages, launch, places)
        session.download()
        theirs, seen_theirs = _bytes(session, layout.tensors, outputs), attached.take()
        if "lse" in theirs:
            theirs["lse"] = _lse(session, host, both, places, len(theirs["lse"]))
        session.close()
    return {
        "api": both.call.api if both.call else "",
        "kernels": [one.kernel.partition("<")[0] for one in both.theirs.launches],
        "instructions": [[one.instructions for one in part.executed] for part in (seen, seen_theirs)],
        "findings": [[to_json(one) for one in part.findings] for part in (seen, seen_theirs)],
        "launch_faults": faults,
        "bytes": {name: len(data) for name, data in ours.items()},
        "constant": [name for name, data in ours.items() if len(set(data)) < 2],
        "differ": [name for name in outputs if ours[name] != theirs[name]],
    }


def _inputs(problem: Problem) -> Sequence[str]:
    return ("o", "lse") if problem.direction.backward else ()


def _bytes(session: Any, tensors: Mapping[str, Any], names: Sequence[str]) -> dict[str, bytes]:
    host = session._mirror.host
    return {n: _dense(host, tensors[n]) for n in names}


def _dense(host: Any, tensor: Any) -> bytes:
    size = {"fp16": 2, "bf16": 2, "fp32": 4}[tensor.dtype]
    words = np.frombuffer(host, f"u{size}", offset=tensor.offset, count=(host.nbytes - tensor.offset) // size)
    view = np.lib.stride_tricks.as_strided(words, tensor.shape, [size * s for s in tensor.strides])
    return np.ascontiguousarray(view).tobytes()


def _places(session: Any, both: Compared) -> Iterator[Place]:
    assert both.theirs is not None
    assert both.ours.binding is not None
    mirror, (call,) = session._mirror, session._calls
    yield ARENA, mirror.host.nbytes, mirror.base
    for name, address in both.ours.binding.auxiliaries.items():
        yield address, 1, call.auxiliaries[name]
    for one in both.theirs.allocations:
        assert one.how in ("empty", "zeros"), f"upstream copies: {one}"
        yield one.address, max(one.bytes, 1), _allocated(session, one)


def _allocated(session: Any, one: Allocation) -> int:
    size = max(one.bytes, 16)
    address: int = session._mirror.allocate(size)
    session._mirror.write(address, np.full(size, 0 if one.how == "zeros" else 0xFF, np.uint8))
    return address


def _moved(params: bytes, places: Sequence[Place]) -> bytes:
    words = np.frombuffer(params, np.uint64).copy()
    for k, word in enumerate(words.tolist()):
        for start, size, to in places:
            if start <= word < start + size:
                words[k] = to + word - start
    return words.tobytes()


def _launch(session: Any, stages: Sequence[Any], one: Theirs, places: Sequence[Place]) -> None:
    (stage,) = (s for s in stages if UPSTREAM.template(s.kernel) == one.kernel)
    data = _moved(one.params, places)
    if one.splits is not None:
        data += one.splits.to_bytes(4, "little", signed=True)
    kernel, stream = session._kernels[stage], session._stream()
    shape = Launch(one.grid, one.block, one.smem)
    kernel.launch(shape, PackedArguments(data, session._cuda.arguments_end), stream)
    session._cuda.synchronize(stream)


def _lse(session: Any, host: Host, both: Compared, places: Sequence[Place], size: int) -> bytes:
    """Upstream's own LSE, which it allocates."""
    assert both.theirs is not None
    offset, width = host.layout()["forward"][1]["softmax_lse_ptr"]
    address = int.from_bytes(_moved(both.theirs.launches[0].params, places)[offset : offset + width], "little")
    out = np.empty(size, np.uint8)
    session._memory.copy_out(out.ctypes.data, address, size)
    return out.tobytes()


if __name__ == "__main__":
    print(json.dumps(compared(*sys.argv[1:])))
