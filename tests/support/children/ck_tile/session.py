"""Cases of ``test_session.py``, each run in a separate process with the stand-in runtime.

The stand-in's device memory is host memory, so a case can read the kernels' inputs and write their outputs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.backends.ck_tile.plan import plan_of
from fmha_cli.backends.ck_tile.session import CkSession
from fmha_cli.backends.gpu.arena_views import extent, view
from fmha_cli.codegen.ck_tile.args import CkStatus
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import ROTARY_TABLES
from fmha_cli.run.layout import ArenaLayout, layout_of
from tests.support.fakes.hip_recorder.recording import PlayedDevice, Recording
from tests.support.fakes.kernel_library import Fake, build_fake

Bytes = npt.NDArray[np.uint8]
POISON = 0xC3


def plan_for(line: str, arch: str, family: Family) -> Plan:
    problem, device = Problem.from_cli(line), DeviceFacts.of_arch(arch)
    decisions = Registry().backend("ck_tile").decide(problem, device)
    fit = [d for d in decisions if isinstance(d, Supported) and d.kernel.family is family]
    return plan_of(problem, min(fit, key=lambda d: d.rank).kernel, device)


class Bench:
    """A session with fake libraries, an arena with gaps and guards, and the device's view of it."""

    def __init__(self, standin: Path, cache: Path, plan: Plan, llc: int = 0, memory: int = 1 << 34) -> None:
        self.recording = Recording(standin, PlayedDevice(arch=plan.main.arch, major=9, memory_bytes=memory))
        self.plan = plan
        self.paths = [build_fake(stage.family, cache) for stage in plan.stages]
        self.fakes = [Fake(p, s.family) for p, s in zip(self.paths, plan.stages, strict=True)]
        device = DeviceFacts(id="hip:0", archs=(plan.main.arch,), llc_bytes=llc)
        self.session = CkSession(device, standin)
        self.layout: ArenaLayout = layout_of(plan.problem, plan.workspaces, gaps=True)
        self.memory = bytearray([POISON]) * self.layout.size
        self.host: Bytes = np.frombuffer(self.memory, np.uint8)
        self.device: Bytes = np.zeros(0, np.uint8)
        self.base = 0

    def start(self) -> None:
        self.session.load(self.plan, self.paths)
        self.session.bind(memoryview(self.memory), self.layout.tensors, 1)
        self.session.upload()
        assert self.session._mirror is not None
        self.base = base = self.session._mirror.base
        raw = (ctypes.c_char * self.layout.size).from_address(base)
        self.device = np.frombuffer(raw, np.uint8)

    def put(self, name: str, values: npt.ArrayLike) -> None:
        target = view(self.host, self.layout.tensors[name])
        target[...] = np.asarray(values).astype(target.dtype)

    def on_device(self, name: str) -> npt.NDArray[np.generic]:
        return view(self.device, self.layout.tensors[name])

    def outside(self, names: Sequence[str], arena: Bytes) -> Bytes:
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

    def pointed(self, address: int, count: int) -> list[int]:
        return list((ctypes.c_int32 * count).from_address(address))


def forward(standin: str, cache: str) -> None:
    """Checks addresses, auxiliary arrays, the LSE of shifted ALiBi, untouched guards and freed memory."""
    line = "--seqlens-q 3,0,2 --seqlens-k 5,4,2 -H 2 -d 64 --alibi --causal --lse --splits 1"
    b = Bench(Path(standin), Path(cache), plan_for(line, "gfx942", Family.FWD))
    b.put("alibi_slopes", [0.5, 0.25])
    b.start()
    assert len(b.session.launch()) == 1
    assert b.fakes[0].launches == 1
    last = b.fakes[0].last
    for name in ("q", "k", "v", "o", "lse"):
        assert getattr(last, f"{name}_ptr") == b.base + b.layout.tensors[name].offset, name
    assert b.pointed(last.seqstart_q_ptr, 4) == [0, 3, 3, 5]
    assert b.pointed(last.seqstart_k_ptr, 4) == [0, 5, 9, 11]
    before = b.outside(["lse"], b.host).copy()
    b.on_device("lse")[...] = np.array([[1, 2, 3, 4, -np.inf], [1, 2, 3, 4, -np.inf]], np.float32)
    b.session.download()
    shift = np.array([2, 3, 4, 0, 1])  # i + seqlen_k - seqlen_q of the rows of sequences 0 and 2
    wanted = [[1, 2, 3, 4, -np.inf] - 0.5 * shift, [1, 2, 3, 4, -np.inf] - 0.25 * shift]
    assert np.array_equal(view(b.host, b.layout.tensors["lse"]), np.array(wanted, np.float32))
    assert np.array_equal(b.outside(["lse"], b.host), before)
    b.session.close()
    assert b.recording.bytes_in_use == 0


def fp8(standin: str, cache: str) -> None:
    """-0 is NaN in FNUZ: the device gets +0, the host keeps its bits. The scales contain the factors of two."""
    plan = plan_for(
        "-b 1 -H 1 -s 4 -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --scale 0.5 --splits 1", "gfx942", Family.FWD
    )
    b = Bench(Path(standin), Path(cache), plan)
    bits = view(b.host, b.layout.tensors["q"]).view(np.uint8)
    bits[...] = 0x38
    bits[0, 0, 1, :5] = 0x80
    for name, value in (("q_descale", 3.0), ("k_descale", 0.25), ("v_descale", 6.0)):
        b.put(name, value)
    original = b.host.copy()
    b.start()
    seen = b.on_device("q").view(np.uint8)
    assert list(seen[0, 0, 1, :7]) == [0, 0, 0, 0, 0, 0x38, 0x38]
    b.session.launch()
    last = b.fakes[0].last
    assert last.scale_s == np.float32(0.5 * 3 * 0.25 * 4)
    assert last.scale_p == 240
    assert last.scale_o == np.float32(6.0 * 2 / 240)
    b.session.download()
    assert np.array_equal(b.host, original)
    ocp = plan_for(
        "-b 1 -H 1 -s 4 -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --scale 0.5 --splits 1", "gfx950", Family.FWD
    )
    c = Bench(Path(standin), Path(cache), ocp)
    view(c.host, c.layout.tensors["q"]).view(np.uint8)[...] = 0x80
    for name in ("q_descale", "k_descale", "v_descale"):
        c.put(name, 1.0)
    c.start()
    c.session.launch()
    assert c.on_device("q").view(np.uint8).min() == 0x80
    assert (c.fakes[0].last.scale_s, c.fakes[0].last.scale_p) == (0.5, 448)


def backward(standin: str, cache: str) -> None:
    """Accumulators are zeroed at every launch, heads are summed, and the LSE is what the kernels expect."""
    line = "--seqlens-q 3,0 --seqlens-k 4,5 -H 4 --kv-heads 2 -d 64 --alibi --causal --direction bwd --dtype bf16"
    b = Bench(Path(standin), Path(cache), plan_for(line, "gfx942", Family.BWD_DQ_DK_DV))
    b.put("alibi_slopes", [1, 2, 3, 4])
    b.put("lse", np.zeros((4, 3)))
    b.start()
    shift = np.array([1, 2, 3])
    assert np.array_equal(b.on_device("lse"), np.outer([1, 2, 3, 4], shift).astype(np.float32))
    before = b.outside(["dq_acc", "dq", "dk", "dv", "dk_heads", "dv_heads"], b.device).copy()
    for _ in range(2):
        acc, dk = b.on_device("dq_acc"), b.on_device("dk")
        acc[...], dk[...] = 7, 7
        assert len(b.session.launch()) == 3
        assert not acc.any()
        assert not b.on_device("dk").astype(np.float32).any()
        after = b.outside(["dq_acc", "dq", "dk", "dv", "dk_heads", "dv_heads"], b.device)
        assert np.array_equal(after, before)
    heads = b.device[b.layout.tensors["dk_heads"].offset :][: 4 * 9 * 64 * 2].view(ml_dtypes.bfloat16)
    heads.reshape(4, 9, 64)[...] = np.array([1, 2, 30, 40]).reshape(4, 1, 1).astype(ml_dtypes.bfloat16)
    b.session.download()
    dk = view(b.host, b.layout.tensors["dk"]).astype(np.float32)
    assert np.array_equal(dk[:, 0, 0], [3, 70])
    assert np.unique(dk).tolist() == [3, 70]
    assert not view(b.host, b.layout.tensors["lse"]).any()
    last = b.fakes[1].last
    assert last.dk_ptr == b.base + b.layout.tensors["dk_heads"].offset
    assert last.nhead_stride_dk == 9 * 64
    assert last.nhead_stride_lsed == b.layout.tensors["lse"].strides[0]


def append(standin: str, cache: str) -> None:
    """Q is rotated in a copy, made again at every launch; the rotary tables match the positions."""
    line = "-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 3,1 --append 2 --rotary 32 -d 64 --splits 2"
    b = Bench(Path(standin), Path(cache), plan_for(line, "gfx942", Family.FWD_SPLITKV))
    rng = np.random.default_rng(1)
    b.put("q", rng.standard_normal((2, 2, 2, 64)))
    b.start()
    q = b.layout.tensors["q"]
    for _ in range(2):
        copy = b.device[b.layout.tensors["q_rotated"].offset :][: extent(q)]
        copy[...] = 1
        b.session.launch()
        assert np.array_equal(copy, b.device[q.offset : q.offset + extent(q)])
    appended, main = b.fakes[0].last, b.fakes[1].last
    assert appended.q_ptr == main.q_ptr == b.base + b.layout.tensors["q_rotated"].offset
    assert b.pointed(appended.seqlen_k_ptr, 2) == [3, 1]
    assert b.pointed(main.seqlen_k_ptr, 2) == [5, 3]
    cos = np.frombuffer((ctypes.c_char * (5 * 16 * 2)).from_address(appended.rotary_cos_ptr), np.float16).reshape(5, 16)
    sin = np.frombuffer((ctypes.c_char * (5 * 16 * 2)).from_address(appended.rotary_sin_ptr), np.float16).reshape(5, 16)
    angle = 3 * 10000.0 ** (-np.arange(16) * 2 / 32)
    assert np.array_equal(cos[3], np.cos(angle).astype(np.float16))
    assert np.array_equal(sin[3], np.sin(angle).astype(np.float16))


def given_angles(standin: str, cache: str) -> None:
    """Rotary tables and the index of the cache are the problem's; rows of a table behind its last position are zeros."""
    line = "-b 2 -H 2 -s 2 --kv-cache linear --cache-seqlens 3,1 --append 2 --rotary 32 -d 64 --splits 2"
    line += " --rotary-cos filled --rotary-sin filled --cache-batch-idx 2,0"
    b = Bench(Path(standin), Path(cache), plan_for(line, "gfx942", Family.FWD_SPLITKV))
    tables = {name: np.random.default_rng(n).standard_normal((5, 16)) for n, name in enumerate(ROTARY_TABLES)}
    for name, table in tables.items():
        b.put(name, table)
    b.start()
    b.session.launch()
    appended, main = b.fakes[0].last, b.fakes[1].last
    for name, at in zip(ROTARY_TABLES, (appended.rotary_cos_ptr, appended.rotary_sin_ptr), strict=True):
        held = np.frombuffer((ctypes.c_char * (5 * 16 * 2)).from_address(at), np.float16).reshape(5, 16)
        assert np.array_equal(held, tables[name].astype(np.float32).astype(np.float16))
    assert b.pointed(appended.cache_batch_idx, 2) == b.pointed(main.cache_batch_idx, 2) == [2, 0]
    assert b.layout.tensors["k"].shape[0] == 3


def prefill(standin: str, cache: str) -> None:
    """The block table becomes one list of pages, sequence after sequence, and is read again at every upload.

    The last page is repeated as far as the kernel reads: whole tiles of keys, and V one step ahead.
    """
    line = "--seqlens-q 2,1 --kv-cache paged:1 --cache-seqlens 3,2 -H 2 -d 128 --causal --splits 1"
    b = Bench(Path(standin), Path(cache), plan_for(line, "gfx942", Family.BATCH_PREFILL))
    b.put("block_table", [[4, 0, 2], [5, 1, -1]])
    b.start()
    b.session.launch()
    last = b.fakes[0].last
    assert b.pointed(last.kv_indptr, 3) == [0, 3, 5]
    tile = b.plan.main.algorithm.tile
    read = 3 + tile[1] + tile[4]
    assert b.pointed(last.kv_page_indices, read) == [4, 0, 2, 5, 1] + [1] * (read - 5)
    b.put("block_table", [[0, 1, 2], [3, 4, -1]])
    b.session.upload()
    assert b.pointed(last.kv_page_indices, 5) == [0, 1, 2, 3, 4]
    assert last.num_total_pages == 6
    assert last.stride_k == b.layout.tensors["k"].strides[0]


def failures(standin: str, cache: str) -> None:
    """Bad statuses, drifted structs, missing files, foreign devices and full memory each have their own error."""
    plan = plan_for("-b 1 -H 1 -s 64 -d 64 --splits 1", "gfx942", Family.FWD)
    b = Bench(Path(standin), Path(cache), plan)
    b.start()
    fake = b.fakes[0]

    def launch() -> BaseException | None:
        try:
            b.session.launch()
        except (KernelFailure, MemoryError) as fault:
            return fault
        return None

    fake.answer(CkStatus.OVERFLOW, field=1)
    fault = launch()
    assert isinstance(fault, KernelFailure)
    assert fault.code == "K112"
    assert "k_ptr" in fault.what
    assert "does not fit" in fault.what
    fake.answer(CkStatus.LAUNCH_FAILED, hip_error=9)
    fault = launch()
    assert isinstance(fault, KernelFailure)
    assert fault.code == "H005"
    assert "invalid configuration argument (9)" in fault.what
    fake.answer(CkStatus.LAUNCH_FAILED, hip_error=2)
    assert isinstance(launch(), MemoryError)
    fake.answer(77)
    fault = launch()
    assert isinstance(fault, KernelFailure)
    assert "77" in fault.what
    fake.answer(CkStatus.OK)
    assert launch() is None
    for path, code in ((build_fake(Family.FWD, Path(cache), drift=True), "K111"), (Path(cache, "absent.so"), "K110")):
        with pytest.raises(KernelFailure) as refused:
            b.session.load(plan, [path])
        assert refused.value.code == code
    for device in ("cpu", "hip:x", "cuda:0"):
        with pytest.raises(EnvironmentProblem) as foreign:
            CkSession(DeviceFacts(id=device, archs=("gfx942",)), Path(standin))
        assert foreign.value.code == "H006"
    full = Bench(Path(standin), Path(cache), plan, memory=100_000)
    with pytest.raises(MemoryError, match="hipMalloc"):
        full.start()


def caches(standin: str, cache: str) -> None:
    """Eviction writes twice the size of the last-level cache; the buffer is allocated once."""
    plan = plan_for("-b 1 -H 1 -s 64 -d 64 --splits 1", "gfx942", Family.FWD)
    b = Bench(Path(standin), Path(cache), plan, llc=1 << 20)
    b.start()
    used = b.recording.bytes_in_use
    b.session.evict_caches()
    assert b.recording.bytes_in_use == used + (2 << 20)
    b.session.evict_caches()
    assert b.recording.bytes_in_use == used + (2 << 20)
    b.session.close()
    assert b.recording.bytes_in_use == 0


CASES = (forward, fp8, backward, append, given_angles, prefill, failures, caches)
