"""Cases of ``test_session.py``, each in a separate process with the stand-in driver."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from fmha_nvptx_emu.recording import Launch, Recording

from fmha_cli.backends.cuda.upstream_session import CubinSession
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.codegen.cudnn_oss.params import BLOCKS
from fmha_cli.codegen.struct import ctypes_structure
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.run.layout import layout_of
from tests.support.fakes.cudnn_oss.played import cubin_of, device_of, plan_of
from tests.support.fakes.played_maps import read_map
from tests.support.models.modelled_session import together

LINE = "-b 1 -H 2 -s 256 -d 64 --causal --lse"


def counter(standin: str, folder: str) -> None:
    """Every launch starts with a counter of 0, those of a graph too, and its time includes the clearing."""
    recording = Recording(Path(standin), capability="9.0", kernel_ns=4_000, gap_ns=6_000)
    plan = plan_of("sm_90a", LINE)
    session = CubinSession(UPSTREAM, device_of("sm_90a"))
    session.load(plan, [cubin_of(plan, Path(folder))])
    layout = layout_of(plan.problem, plan.workspaces, gaps=True)
    session.bind(memoryview(bytearray(b"\xc3") * layout.size), layout.tensors, 1)
    (call,) = session._calls
    at, seen = call.address("tile_counter"), []

    def kernel(launch: Launch) -> None:
        held = ctypes.c_int32.from_address(at)
        seen.append(held.value)
        held.value = 99

    recording.model(kernel)
    session.upload()
    assert session.launch() == (10_001,)
    assert session.launch() == (4_001,)
    assert recording.graph_launches == 1
    assert len(seen) > 50
    assert set(seen) == {0}
    (first, *_) = recording.launches
    assert (first.grid, first.block, first.shared) == ((3, 1, 1), (384, 1, 1), 122_880)
    session.close()
    assert (recording.bytes_in_use, recording.objects) == (0, 0)


def descriptors(standin: str, folder: str) -> None:
    """Descriptors follow the arena: a new binding has other addresses in them."""
    Recording(Path(standin), capability="10.0")
    plan = plan_of("sm_100a", f"{LINE} --kv-heads 1 --layout bhsd:bshd")
    session = CubinSession(UPSTREAM, device_of("sm_100a"))
    session.load(plan, [cubin_of(plan, Path(folder))])
    layout = layout_of(plan.problem, plan.workspaces, gaps=True)
    recording = Recording(Path(standin))
    for turn in range(2):
        room = memoryview(bytearray(layout.size * (turn + 1)))
        session.bind(room, layout.tensors, 1)
        session.upload()
        recording.forget()
        session.launch()
        (launch,) = recording.launches
        (loaded,) = session._kernels.values()
        assert loaded.separate is not None
        raw = together(launch.parameters, BLOCKS["sm100"], loaded.separate)
        block = ctypes_structure(BLOCKS["sm100"]).from_buffer_copy(raw)
        (call,) = session._calls
        for name in "qkvo":
            found = read_map(bytes(np.array(getattr(block, f"tma_{name}"), np.uint64)))
            strides = call.rows(name)
            assert found.address == call.address(name)
            assert found.shape == (64, 256, 1 if name in "kv" else 2, 1)
            assert found.strides == (2 * strides.row, 2 * strides.head, 2 * strides.batch)


def failures(standin: str, folder: str) -> None:
    """A cubin with other parameters, and a driver without TMA, are refused before any launch."""
    recording = Recording(Path(standin), capability="9.0")
    plan, session = plan_of("sm_90a", LINE), CubinSession(UPSTREAM, device_of("sm_90a"))
    with pytest.raises(KernelFailure) as drifted:
        session.load(plan, [cubin_of(plan, Path(folder), drift=4)])
    assert drifted.value.code == "B061"
    session.load(plan, [cubin_of(plan, Path(folder))])
    recording.play(capability="8.0")
    layout = layout_of(plan.problem, plan.workspaces)
    with pytest.raises(KernelFailure) as refused:
        session.bind(memoryview(bytearray(layout.size)), layout.tensors, 1)
    assert (refused.value.code, refused.value.where) == ("N001", "cuTensorMapEncodeTiled")
    recording.play(capability="9.0")
    session.close()
    assert (recording.bytes_in_use, recording.objects) == (0, 0)
    assert recording.launches == ()


CASES = (counter, descriptors, failures)
