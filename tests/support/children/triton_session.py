"""Cases of ``test_triton_session.py``, each in a separate process with the stand-in driver of NVIDIA."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from fmha_nvptx_emu.recording import LONG_NS, Launch, Recording
from fmha_triton.deciding import decide
from fmha_triton.image import read_image
from fmha_triton.plan import plan_of
from fmha_triton.sessions import TritonCudaSession

from fmha_cli import api, plugin
from fmha_cli.run.layout import ArenaLayout, layout_of
from tests.support.fakes.played_maps import read_map

GQA = "-b 2 -H 4 --kv-heads 2 -s 200 --seqlen-k 300 -d 64 --dtype fp16 --causal --lse"


def planned(arch: str, flags: str) -> plugin.Plan:
    """The plan of the best kernel."""
    device = plugin.DeviceFacts(id="cuda:0", archs=(arch,), units=132)
    problem = api.Problem.from_cli(flags)
    best = min((d for d in decide(problem, device) if isinstance(d, api.Supported)), key=lambda d: d.rank)
    return plan_of(problem, best.kernel, device)


def built(plan: plugin.Plan, cache: str) -> list[Path]:
    """The artifact of every stage."""
    backend, context = api.build_registry().backend("triton"), plugin.BuildContext(cache_root=Path(cache))
    return [backend.build(stage, context).path for stage in plan.stages]


def launched(
    standin: str, arch: str, capability: str, flags: str, cache: str
) -> tuple[plugin.Plan, Sequence[Launch], plugin.Call[None], ArenaLayout, list[Path]]:
    """One launch of a plan on the stand-in, which runs no kernel."""
    recording = Recording(Path(standin), capability=capability, kernel_ns=LONG_NS)
    plan = planned(arch, flags)
    paths = built(plan, cache)
    session = TritonCudaSession(plugin.DeviceFacts(id="cuda:0", archs=(arch,), units=132))
    session.load(plan, paths)
    layout = layout_of(plan.problem, plan.workspaces, gaps=True)
    session.bind(memoryview(bytearray(layout.size)), layout.tensors, 1)
    (call,) = session._calls
    session.upload()
    assert len(session.launch()) == len(plan.stages)
    session.download()
    launches = recording.launches
    session.close()
    assert (recording.bytes_in_use, recording.objects) == (0, 0)
    return plan, launches, call, layout, paths


def hopper(standin: str, cache: str) -> None:
    """The descriptors stand where the cubin records them, and describe the tensors."""
    _, (launch,), call, _, (path,) = launched(standin, "sm_90a", "9.0", GQA, cache)
    image = read_image(path)
    places = plugin.parameter_places(image.binary)
    assert launch.symbol == "forward_hopper"
    assert (launch.grid, launch.block, launch.shared) == ((2, 4, 2), (384, 1, 1), image.shared_bytes)
    data = launch.parameters
    maps = [read_map(data[at : at + size]) for at, size in places if size == 128]
    for found, name, rows, heads in zip(maps, ("q", "k", "v", "o"), (200, 300, 300, 200), (4, 2, 2, 4), strict=True):
        strides = call.rows(name)
        assert found.address == call.address(name)
        assert found.shape == (64, rows, heads, 2)
        assert found.strides == (2 * strides.row, 2 * strides.head, 2 * strides.batch)
        assert found.box == (64, 128, 1, 1)
    numbers = [data[at : at + size] for at, size in places if size != 128]
    lse, _, _, rows, keys, group, scale, has_lse, *trailing = numbers[32:]
    assert struct.unpack("<q", lse)[0] == call.address("lse")
    assert [struct.unpack("<i", n)[0] for n in (rows, keys, group, has_lse)] == [200, 300, 2, 1]
    assert struct.unpack("<f", scale)[0] == pytest.approx(0.125)
    assert trailing == [bytes(8)] * 2


def ampere(standin: str, cache: str) -> None:
    """Both stages of a split plan, which have the arguments of their own kernels."""
    flags = "-H 4 --kv-heads 2 -s 1 --seqlen-k 2000 -d 64 --dtype bf16 --splits 5 --lse"
    plan, (main, combine), call, _, paths = launched(standin, "sm_80", "8.0", flags, cache)
    assert (main.symbol, main.grid) == ("split", (1, 10, 1))
    assert (combine.symbol, combine.grid) == ("combine", (1, 4, 1))
    assert plan.splits == 5
    partial = struct.pack("<q", call.address("partial_o"))
    assert partial in main.parameters
    assert combine.parameters.startswith(partial)
    for launch, path in zip((main, combine), paths, strict=True):
        image = read_image(path)
        assert launch.block == (image.threads, 1, 1)
        places = plugin.parameter_places(image.binary)
        assert len(launch.parameters) >= max(at + size for at, size in places)


CASES = (hopper, ampere)
