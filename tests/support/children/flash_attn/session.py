"""Cases of ``test_session.py``, each in a separate process with the stand-in driver.

The memory of a simulated device is host memory at real addresses, so a case can read the kernels' inputs and write
their outputs.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fmha_nvptx_emu.recording import Launch, Recording

from fmha_cli.backends.cuda.upstream_session import CubinSession
from fmha_cli.backends.flash_attn.arguments import params_of
from fmha_cli.backends.flash_attn.launches import launch_of
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.backends.gpu.arena_views import extent, view
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import c_fields, ctypes_structure
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, KernelFailure
from fmha_cli.domain.tensors import ROTARY_TABLES
from fmha_cli.run.layout import ArenaLayout, layout_of
from tests.support.fakes.flash_attn.cubins import fake_cubin, fake_cubins
from tests.support.generators.flash_attn.plans import FAMILIES, L2, device_for, plan_for

Bytes = npt.NDArray[np.uint8]
POISON = 0xC3


def params_in(launch: Launch, kind: type) -> Any:
    """The parameter block of a launch, as its dataclass."""
    raw = ctypes_structure(kind).from_buffer_copy(launch.parameters)
    values = {name: getattr(raw, name) for name, _ in c_fields(kind)}
    values["philox_args"] = (raw.philox_args.seed, raw.philox_args.offset)
    return kind(**{name: 0 if value is None else value for name, value in values.items()})


class Bench:
    """A session with fake cubins, an arena with gaps and guards, and the device's view of it."""

    def __init__(self, standin: str, folder: str, line: str, arch: str = "sm_90", **settings: object) -> None:
        number = arch.removeprefix("sm_").rstrip("a")
        self.recording = Recording(Path(standin), capability=f"{number[:-1]}.{number[-1]}", l2=L2, **settings)
        self.plan = plan_for(line, arch)
        self.paths = fake_cubins(self.plan, Path(folder))
        self.session = CubinSession(UPSTREAM, device_for(arch))
        self.layout: ArenaLayout = layout_of(self.plan.problem, self.plan.workspaces, gaps=True)
        self.memory = bytearray([POISON]) * self.layout.size
        self.host: Bytes = np.frombuffer(self.memory, np.uint8)
        self.device: Bytes = np.zeros(0, np.uint8)

    def start(self) -> None:
        self.session.load(self.plan, self.paths)
        self.session.bind(memoryview(self.memory), self.layout.tensors, 1)
        self.session.upload()
        raw = (ctypes.c_char * self.layout.size).from_address(self.session._calls[0].arena)
        self.device = np.frombuffer(raw, np.uint8)

    @property
    def call(self) -> Any:
        (call,) = self.session._calls
        return call

    def put(self, name: str, values: npt.ArrayLike) -> None:
        target = view(self.host, self.layout.tensors[name])
        target[...] = np.asarray(values).astype(target.dtype)

    def on_device(self, name: str) -> npt.NDArray[np.generic]:
        return view(self.device, self.layout.tensors[name])

    def scratch(self, name: str, dtype: str) -> npt.NDArray[np.generic]:
        """A flat view of a workspace on the device."""
        tensor = self.layout.tensors[name]
        return self.device[tensor.offset :][: tensor.shape[0]].view(dtype)

    def outside(self, names: tuple[str, ...], arena: Bytes) -> Bytes:
        """The bytes of the arena outside the elements of these tensors."""
        owned = np.zeros(len(arena), bool)
        for name in names:
            tensor = self.layout.tensors[name]
            item = view(arena, tensor).dtype.itemsize
            marks = np.lib.stride_tricks.as_strided(
                owned[tensor.offset : tensor.offset + extent(tensor)],
                (*tensor.shape, item),
                (*(s * item for s in tensor.strides), 1),
            )
            marks[...] = True
        return arena[~owned]


def families(standin: str, folder: str) -> None:
    """Every family is launched with the grid, shared memory and parameters of its plan, and all memory is freed."""
    for line, arch, wanted in FAMILIES:
        b = Bench(standin, folder, line, arch)
        assert tuple(stage.family for stage in b.plan.stages) == wanted, line
        b.recording.forget()
        b.start()
        assert len(b.session.launch()) == len(wanted), line
        assert len(b.recording.launches) == len(wanted), b.recording.complaint
        stages = [(stage, call) for call in b.session._calls for stage in call.plan.stages]
        for (stage, call), made in zip(stages, b.recording.launches, strict=True):
            launch = launch_of(stage, call)
            assert (made.grid, made.block, made.shared) == (launch.grid, launch.block, launch.shared), line
            wanted_params = params_of(stage, call)
            got = params_in(made, type(wanted_params))
            assert type(wanted_params) is (FaBwdParams if stage.family.value.startswith("bwd") else FaFwdParams)
            for name, kind in c_fields(type(wanted_params)):
                a, e = getattr(got, name), getattr(wanted_params, name)
                assert a == (np.float32(e) if kind.spelling == "float" else e), (line, name)
            tail = made.parameters[ctypes.sizeof(ctypes_structure(type(wanted_params))) :]
            assert list(np.frombuffer(tail, np.int32)) == list(launch.extra)
            for name in ("q", "k", "v"):
                assert getattr(got, f"{name}_ptr") == call.arena + b.layout.tensors[name].offset
        b.session.download()
        b.session.close()
        assert (b.recording.bytes_in_use, b.recording.objects) == (0, 0), line


def forward(standin: str, folder: str) -> None:
    """Inputs reach the device, outputs come back, LSE is converted, and nothing else changes."""
    b = Bench(standin, folder, "--seqlens-q 3,0,2 --seqlens-k 5,4,2 -H 2 -d 64 --alibi --causal --lse")
    b.put("alibi_slopes", [0.5, 0.25])
    q = np.random.default_rng(1).standard_normal((2, 5, 64))
    b.put("q", q)
    b.start()
    seen: list[FaFwdParams] = []

    def kernel(launch: Launch) -> None:
        p = params_in(launch, FaFwdParams)
        seen.append(p)
        b.on_device("o")[...] = np.float16(3)
        lse = (ctypes.c_float * 10).from_address(p.softmax_lse_ptr)
        lse[:] = [1, 2, 3, 4, np.inf, 1, 2, 3, 4, np.inf]

    b.recording.model(kernel)
    before = b.outside(("o", "lse", "softmax_lse"), b.host).copy()
    b.session.launch()
    assert not b.recording.faults
    b.session.download()
    assert np.array_equal(b.on_device("q"), q.astype(np.float16))
    starts = [list((ctypes.c_int32 * 4).from_address(p)) for p in (seen[0].cu_seqlens_q, seen[0].cu_seqlens_k)]
    assert starts == [[0, 3, 3, 5], [0, 5, 9, 11]]
    shift = np.array([2, 3, 4, 0, 1])  # i + seqlen_k - seqlen_q of the rows of sequences 0 and 2
    wanted = [[1, 2, 3, 4, -np.inf] - 0.5 * shift, [1, 2, 3, 4, -np.inf] - 0.25 * shift]
    assert np.array_equal(view(b.host, b.layout.tensors["lse"]), np.array(wanted, np.float32))
    assert (view(b.host, b.layout.tensors["o"]) == 3).all()
    assert np.array_equal(b.outside(("o", "lse", "softmax_lse"), b.host), before)


def backward(standin: str, folder: str) -> None:
    """Every deterministic launch gets a zeroed accumulator, LSE and random state; grouped heads are summed."""
    line = "-b 1 -s 3 -H 4 --kv-heads 2 -d 64 --direction bwd --deterministic --dropout 0.1 --seed 5 --offset 9"
    b = Bench(standin, folder, line, "sm_80")
    b.put("lse", np.full((1, 4, 3), -np.inf))
    b.start()
    accumulator, stages, problems = b.scratch("dq_accum", "f4"), [], []
    rest = b.outside(("dq_accum", "dk_expanded"), b.device).copy()

    def kernel(launch: Launch) -> None:
        p = params_in(launch, FaBwdParams)
        if len(stages) % 3 == 0 and accumulator.any():
            problems.append("dq_accum is not zero")
        accumulator[...] = 7
        if list((ctypes.c_uint64 * 2).from_address(p.rng_state)) != [5, 9]:
            problems.append("another random state")
        if not np.isposinf(b.scratch("softmax_lse", "f4")).all():
            problems.append("a row without keys has LSE +inf for the kernels")
        heads = b.scratch("dk_expanded", "f2").reshape(1, 3, 4, 64)
        heads[...] = np.array([1, 2, 30, 40], np.float16).reshape(4, 1)
        stages.append(len(launch.parameters))

    b.recording.model(kernel)
    for _ in range(2):
        b.session.upload()  # the next launch is a single one
        assert len(b.session.launch()) == 3
    assert not b.recording.faults
    assert not problems
    assert stages[2] == stages[0] + 4
    assert len(stages) == 6
    assert np.array_equal(b.outside(("dq_accum", "dk_expanded"), b.device), rest)
    b.session.download()
    dk = view(b.host, b.layout.tensors["dk"])
    assert np.array_equal(dk[0, :, 0, 0], [3, 70])


def both(standin: str, folder: str) -> None:
    """The backward kernels find the O and LSE that the forward kernel has left on the device, in the same launch."""
    b = Bench(standin, folder, "-b 1 -s 3 -H 4 --kv-heads 2 -d 64 --direction fwd+bwd --deterministic", "sm_80")
    b.start()
    seen: list[object] = []

    def kernel(launch: Launch) -> None:
        stage = len(seen) % 4
        p = params_in(launch, FaBwdParams if stage else FaFwdParams)
        o = (ctypes.c_uint16 * 8).from_address(p.o_ptr)
        lse = (ctypes.c_float * 12).from_address(p.softmax_lse_ptr)
        seen.append((lse[0], o[0]))
        if not stage:
            lse[:], o[:] = [len(seen)] * 12, [len(seen)] * 8

    b.recording.model(kernel)
    for _ in range(2):
        b.session.upload()
        assert len(b.session.launch()) == 4
    assert not b.recording.faults
    assert seen[1:4] == [(1, 1)] * 3
    assert seen[5:] == [(5, 5)] * 3
    b.session.download()
    lse = view(b.host, b.layout.tensors["lse"])
    assert (lse == 5).all()


def append(standin: str, folder: str) -> None:
    """Lengths and rotary tables are on the device, at the addresses in the parameters."""
    b = Bench(
        standin, folder, "-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 3,1 --append 2 --rotary 32 -d 64 --causal"
    )
    b.start()
    b.session.launch()
    p = params_in(b.recording.launches[0], FaFwdParams)
    assert list((ctypes.c_int32 * 2).from_address(p.cu_seqlens_k)) == [3, 1]
    angle = 3 * 10000.0 ** (-np.arange(16) * 2 / 32)
    for pointer, function in ((p.rotary_cos_ptr, np.cos), (p.rotary_sin_ptr, np.sin)):
        row = np.frombuffer((ctypes.c_char * 128).from_address(pointer), np.float16).reshape(4, 16)[3]
        assert np.array_equal(row, function(angle).astype(np.float16))
    assert (p.seqlen_knew, p.rotary_dim) == (2, 32)


def given_angles(standin: str, folder: str) -> None:
    """Rotary tables and the index of the cache are the problem's; rows of a table behind its last position are zeros."""
    line = "-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 3,1 --append 2 --rotary 32 -d 64 --causal"
    b = Bench(standin, folder, f"{line} --rotary-cos filled --rotary-sin filled --cache-batch-idx 2,0")
    tables = {name: np.random.default_rng(n).standard_normal((5, 16)) for n, name in enumerate(ROTARY_TABLES)}
    for name, table in tables.items():
        view(b.host, b.layout.tensors[name])[...] = table
    b.start()
    b.session.launch()
    p = params_in(b.recording.launches[0], FaFwdParams)
    for name, at in zip(ROTARY_TABLES, (p.rotary_cos_ptr, p.rotary_sin_ptr), strict=True):
        held = np.frombuffer((ctypes.c_char * (5 * 16 * 2)).from_address(at), np.float16).reshape(5, 16)
        assert np.array_equal(held, tables[name].astype(np.float32).astype(np.float16))
    assert list((ctypes.c_int32 * 2).from_address(p.cache_batch_idx)) == [2, 0]


def nothing(standin: str, folder: str) -> None:
    """Without keys upstream launches nothing: the times are 0, O is 0 and LSE is -inf."""
    b = Bench(standin, folder, "--seqlens-q 3,2 --seqlens-k 0,0 -H 2 -d 64 --lse")
    b.start()
    assert b.session.launch() == (0,)
    assert b.session.launch() == (0,)
    assert not b.recording.launches
    b.session.download()
    assert not view(b.host, b.layout.tensors["o"]).any()
    assert np.isneginf(view(b.host, b.layout.tensors["lse"])).all()


def times(standin: str, folder: str) -> None:
    """A launch is single after an upload or an eviction; other short launches are replayed. Each stage has its time."""
    line = "-b 1 -H 2 -s 16 --seqlen-k 4k -d 128 --splits 2"
    b = Bench(standin, folder, line, kernel_ns=4_000, gap_ns=6_000)
    b.start()
    assert b.session.launch() == (10_000, 10_000)
    assert len(b.recording.launches) == 2
    assert b.session.launch() == (4_000, 4_000)
    assert b.recording.graph_launches == 1
    for _ in range(2):
        b.recording.forget()
        b.session.evict_caches()
        assert b.session.launch() == (10_000, 10_000)
        assert [launch.replayed for launch in b.recording.launches] == [False, False]
    b.recording.forget()
    b.session.upload()
    assert b.session.launch() == (10_000, 10_000)
    assert b.session.launch() == (4_000, 4_000)
    assert all(launch.replayed for launch in b.recording.launches[2:])
    blocks = {launch.parameters for launch in b.recording.launches}
    assert len(blocks) == 1  # both kernels of a split get the same block
    b.recording.play(kernel_ns=300_000)
    b.session.close()
    b.start()
    graphs = b.recording.graph_launches
    assert {b.session.launch() for _ in range(4)} == {(306_000, 306_000)}
    assert b.recording.graph_launches == graphs


def caches(standin: str, folder: str) -> None:
    """Eviction writes twice the L2 from one allocation. Closing frees all, and the session can load again."""
    b = Bench(standin, folder, "-b 1 -H 1 -s 64 -d 64")
    for _ in range(2):
        b.start()
        used = b.recording.bytes_in_use
        b.session.evict_caches()
        assert b.recording.bytes_in_use == used + 2 * L2
        address, size = b.session._mirror._evictor
        assert size == 2 * L2
        written = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)
        assert (written == 1).all()
        b.session.evict_caches()
        assert b.recording.bytes_in_use == used + 2 * L2
        b.session.close()
        assert (b.recording.bytes_in_use, b.recording.objects) == (0, 0)


def failures(standin: str, folder: str) -> None:
    """Foreign devices, other architectures, drifted blocks and refused launches each have an error; nothing leaks."""
    b = Bench(standin, folder, "-b 1 -H 1 -s 64 -d 128")
    for name in ("cpu", "cuda:x", "hip:0", "cuda:3"):
        with pytest.raises(EnvironmentProblem) as foreign:
            CubinSession(UPSTREAM, DeviceFacts(id=name, archs=("sm_90",)))
        assert foreign.value.code == "N006", name
    other = replace(b.plan.main, arch="sm_80")
    for capability, cubin, code in (
        ("9.0", fake_cubin(b.plan.main, drift=8), "B061"),
        ("9.0", fake_cubin(other), "B060"),
        ("9.0", b"\x7fELF" + bytes(100), "B060"),
        ("8.0", fake_cubin(b.plan.main), "N009"),
    ):
        b.recording.play(capability=capability)
        b.paths[0].write_bytes(cubin)
        with pytest.raises(KernelFailure) as refused:
            b.session.load(b.plan, b.paths)
        assert refused.value.code == code, refused.value.render()
        assert not isinstance(refused.value, DeviceLost)
    b.session.close()
    b.recording.play(capability="9.0")
    b.start()
    b.recording.play(refuse=701)
    with pytest.raises(KernelFailure) as launch:
        b.session.launch()
    assert launch.value.code == "N008"
    assert "too many resources requested for launch (701)" in launch.value.what
    assert "grid" in (launch.value.why or "")
    b.recording.play(refuse=0)
    assert b.session.launch() == (100_000,)
    b.session.close()
    b.recording.play(shared=10_000)
    with pytest.raises(KernelFailure) as small:
        b.start()
    assert small.value.code == "N008"
    assert "bytes of shared memory" in (small.value.why or "")
    b.session.close()
    assert (b.recording.bytes_in_use, b.recording.objects) == (0, 0)


def memory(standin: str, folder: str) -> None:
    """A device too small for the arena or for eviction raises MemoryError."""
    small = Bench(standin, folder, "-b 1 -H 1 -s 64 -d 64", memory=100_000)
    with pytest.raises(MemoryError, match="cuMemAlloc: out of memory"):
        small.start()
    small.session.close()
    assert (small.recording.bytes_in_use, small.recording.objects) == (0, 0)
    tight = Bench(standin, folder, "-b 1 -H 1 -s 64 -d 64", memory=L2)
    tight.start()
    with pytest.raises(MemoryError):
        tight.session.evict_caches()
    tight.session.close()
    assert tight.recording.bytes_in_use == 0


def lost(standin: str, folder: str) -> None:
    """An illegal access, plain or in a replay, loses the device; closing then raises nothing."""
    b = Bench(standin, folder, "-b 1 -H 1 -s 64 -d 64", kernel_ns=5_000)
    b.start()
    b.session.launch()
    b.recording.play(fault="700@30")
    with pytest.raises(DeviceLost, match="an illegal memory access was encountered"):
        b.session.launch()
    assert b.recording.launches[-1].replayed
    with pytest.raises(DeviceLost):
        b.session.download()
    b.session.close()


CASES = (families, forward, backward, both, append, given_angles, nothing, times, caches, failures, memory, lost)
