"""Atomics on memory agree with formulas: global, flat, buffer; with and without the old value; several threads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.emu_device import Device, device, kernel
from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets
from fmha_amdgpu_emu_tests.support.memory_kinds import active, registers

FIRST = 8
EXEC = 0xFFF0FFFFDEADBEEF
BEFORE = 0x5A5A5A5A

Array = npt.NDArray[Any]


def packed(dtype: Any) -> Callable[[Array, Array], Array]:
    """Two 16-bit sums in a dword, each rounded to nearest even."""

    def add(memory: Array, data: Array) -> Array:
        m, d = (np.ascontiguousarray(x).view(dtype).astype(np.float32) for x in (memory, data))
        return (m + d).astype(dtype).view(np.uint32)

    return add


@dataclass(frozen=True)
class Operation:
    """One atomic. ``cdna`` and ``rdna`` are its names, None where an architecture lacks it."""

    cdna: str | None
    rdna: str | None
    dtype: Any
    change: Callable[[Array, Array], Array]
    compares: bool = False

    def name(self, arch: str) -> str | None:
        return self.rdna if arch in WAVE32 else self.cdna


def integers() -> Iterator[Operation]:
    def inc(m: Array, d: Array) -> Array:
        return np.where(m >= d, m.dtype.type(0), m + m.dtype.type(1))

    def dec(m: Array, d: Array) -> Array:
        return np.where((m == 0) | (m > d), d, m - m.dtype.type(1))

    signs = {"u": np.uint32, "i": np.int32, "b": np.uint32}
    wide = {"u": np.uint64, "i": np.int64, "b": np.uint64}
    for cdna, rdna, sign, change in (
        ("swap", "swap_b", "b", lambda m, d: d),
        ("add", "add_u", "u", lambda m, d: m + d),
        ("sub", "sub_u", "u", lambda m, d: m - d),
        ("smin", "min_i", "i", np.minimum),
        ("umin", "min_u", "u", np.minimum),
        ("smax", "max_i", "i", np.maximum),
        ("umax", "max_u", "u", np.maximum),
        ("and", "and_b", "b", lambda m, d: m & d),
        ("or", "or_b", "b", lambda m, d: m | d),
        ("xor", "xor_b", "b", lambda m, d: m ^ d),
        ("inc", "inc_u", "u", inc),
        ("dec", "dec_u", "u", dec),
    ):
        yield Operation(cdna, rdna + "32", signs[sign], change)
        yield Operation(cdna + "_x2", rdna + "64", wide[sign], change)


def least(m: Array, d: Array) -> Array:
    """The smaller number; -0 counts as below 0."""
    return np.where((d < m) | ((d == m) & np.signbit(d)), d, m)


def greatest(m: Array, d: Array) -> Array:
    return -least(-m, -d)


OPERATIONS = (
    *integers(),
    Operation("cmpswap", "cmpswap_b32", np.uint32, lambda m, d: d, compares=True),
    Operation("cmpswap_x2", "cmpswap_b64", np.uint64, lambda m, d: d, compares=True),
    Operation("add_f32", "add_f32", np.float32, lambda m, d: m + d),
    Operation("add_f64", None, np.float64, lambda m, d: m + d),
    Operation("min_f64", None, np.float64, least),
    Operation("max_f64", None, np.float64, greatest),
    Operation("pk_add_f16", None, np.uint32, packed(np.float16)),
    Operation("pk_add_bf16", None, np.uint32, packed(ml_dtypes.bfloat16)),
)


def available(arch: str, operation: Operation, space: str, returning: bool) -> bool:
    """Whether the architecture's assembler knows it."""
    if operation.name(arch) is None:
        return False
    if arch == "gfx90a":
        if operation.cdna == "pk_add_bf16":
            return False
        if operation.cdna in ("add_f32", "pk_add_f16"):
            return space != "flat"
    return not (operation.cdna == "pk_add_bf16" and space == "buffer" and arch != "gfx950")


def texts(arch: str) -> dict[str, str]:
    zero = "null" if arch == "gfx1201" else "0"
    old = {"gfx90a": "glc", "gfx1100": "glc", "gfx1201": "th:TH_ATOMIC_RETURN"}.get(arch, "sc0")
    out = {}
    for operation in OPERATIONS:
        size = np.dtype(operation.dtype).itemsize // 4
        data = registers(FIRST, size * (2 if operation.compares else 1))
        result = registers(20, size)
        name = operation.name(arch)
        key = operation.cdna
        for space, plain, returned in (
            ("global", f"v4, {data}, s[4:5] offset:16", f"{result}, v4, {data}, s[4:5] offset:16 {old}"),
            ("flat", f"v[2:3], {data}", f"{result}, v[2:3], {data} {old}"),
            (
                "buffer",
                f"{data}, v4, s[8:11], {zero} offen offset:16",
                f"{data}, v4, s[8:11], {zero} offen offset:16 {old}",
            ),
        ):
            if available(arch, operation, space, False):
                out[f"{key}_{space}"] = f"{space}_atomic_{name} {plain}"
                out[f"{key}_{space}_old"] = f"{space}_atomic_{name} {returned}"
    return out


class AtomicSnippets:
    def __init__(self, arch: str, opened: Device, folder: Path) -> None:
        self.arch, self.device = arch, opened
        self.lanes = 32 if arch in WAVE32 else 64
        self.texts = texts(arch)
        self.snippets = Snippets(arch, folder, self.texts)
        self.exec = EXEC & (1 << self.lanes) - 1


@pytest.fixture(scope="module", params=ARCHS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtomicSnippets]:
    with device(request.param) as opened:
        yield AtomicSnippets(request.param, opened, tmp_path_factory.mktemp(request.param))


def values(dtype: Any, seed: int) -> Array:
    """64 numbers: random ones and special ones, some of them equal or at the ends of the type."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        out = rng.normal(0, 1e3, 64).astype(dtype)
        out[:6] = (0.0, -0.0, np.inf, 1e-40, 1.5, -np.inf) if seed == 1 else (-0.0, -0.0, 1.0, 1e-40, 1.5, 2.0)
        return out
    info = np.iinfo(dtype)
    out = rng.integers(info.min, info.max, 64, dtype, endpoint=True)
    out[:5] = (0, info.max, 7, 7, info.min)
    out[16:32] = 5 if seed == 1 else rng.integers(0, 10, 16)
    return out


def rows_of(data: Array) -> Array:
    """Registers that hold 64 values."""
    return data.view(np.uint32).reshape(64, -1).T.copy()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.cdna)
def test_atomics(case: AtomicSnippets, operation: Operation) -> None:
    """Memory changes by the formula, the old value is returned on request, and the resource's range holds."""
    memory, data = values(operation.dtype, 1), values(operation.dtype, 2)
    if operation.cdna.startswith("pk_"):
        dtype = np.float16 if operation.cdna.endswith("f16") and "bf16" not in operation.cdna else ml_dtypes.bfloat16
        rng = np.random.default_rng(3)
        memory, data = (rng.normal(0, 9, 128).astype(dtype).view(np.uint32) for _ in range(2))
    size = memory.dtype.itemsize
    compared = np.where(np.arange(64) % 2, memory.view(memory.dtype), data)
    with np.errstate(over="ignore", invalid="ignore"):
        changed = operation.change(memory, data).astype(memory.dtype)
    if operation.compares:
        changed = np.where(memory == compared, changed, memory)
    on = active(case.exec, case.lanes)
    rows = rows_of(data)
    if operation.compares:
        rows = np.concatenate([rows, rows_of(compared)])
    for key in [key for key in case.texts if key.startswith(f"{operation.cdna}_") and key.split("_")[-1] != ""]:
        prefix, _, rest = key.partition(operation.cdna + "_")
        if prefix or rest not in ("global", "flat", "buffer", "global_old", "flat_old", "buffer_old"):
            continue
        space = rest.split("_")[0]
        limit = 50 if space == "buffer" else 64
        address = case.device.put(memory)
        place = address - (0 if space == "flat" else 16) + np.arange(64) * size
        after = case.snippets.run(
            key,
            v={
                2: np.stack([place & 0xFFFFFFFF, place >> 32]),
                4: np.arange(64) * size,
                FIRST: rows,
                20: [[BEFORE]] * 2,
            },
            s={4: (address - 16) & 0xFFFFFFFF, 5: (address - 16) >> 32}
            | {8: (address - 16) & 0xFFFFFFFF, 9: (address - 16) >> 32, 10: 16 + limit * size}
            | {11: 0x20000 if case.arch not in WAVE32 else 0x31004000},
            exec=case.exec,
            track=True,
        )
        want = memory.copy()
        here = [lane for lane in on if lane < limit]
        want[here] = changed[here]
        got = case.device.get(address, memory)
        assert np.array_equal(got.view(np.uint8), want.view(np.uint8)), key
        assert not after.findings, key
        result = FIRST if space == "buffer" else 20
        returned = np.ascontiguousarray(after.v[result : result + size // 4].T)
        if rest.endswith("_old"):
            assert np.array_equal(returned[here], memory.view(np.uint32).reshape(64, -1)[here]), key
            assert not returned[[lane for lane in on if lane >= limit]].any(), key
        elif space != "buffer":
            assert (returned == BEFORE).all(), key


def test_a_misaligned_atomic_is_out_of_bounds(case: AtomicSnippets) -> None:
    memory = np.zeros(64, np.uint32)
    address = case.device.put(memory)
    s = {4: (address - 16) & 0xFFFFFFFF, 5: (address - 16) >> 32}
    after = case.snippets.run("add_global", v={4: 6, FIRST: 1}, s=s, exec=1, track=True)
    assert [f["kind"] for f in after.findings] == ["out-of-bounds"]
    assert not case.device.get(address, memory).any()


def test_workgroups_on_several_threads(case: AtomicSnippets, tmp_path: Path) -> None:
    """No update is lost when 64 work-groups add to one word and to one float."""
    cdna = case.arch not in WAVE32
    load, wait = ("s_load_dwordx2", "s_waitcnt lgkmcnt(0)") if cdna else ("s_load_b64", "s_waitcnt lgkmcnt(0)")
    if case.arch == "gfx1201":
        wait = "s_wait_kmcnt 0x0"
    body = f"""
    {load} s[4:5], s[0:1], 0x0
    v_mov_b32 v1, 0
    v_mov_b32 v2, 1
    v_mov_b32 v3, 1.0
    {wait}
    global_atomic_{"add" if cdna else "add_u32"} v1, v2, s[4:5]
    global_atomic_add_f32 v1, v3, s[4:5] offset:4
    """
    code = kernel(case.arch, tmp_path, body)
    memory = np.zeros(2, np.uint32)
    address = case.device.put(memory)
    case.device.options(threads=4)
    observed = case.device.launch(code, "k", struct.pack("<Q", address) + bytes(56), grid=(64, 1, 1), block=(256, 1, 1))
    case.device.options()
    assert observed["status"] == 0
    assert not observed["findings"]
    after = case.device.get(address, memory)
    assert (after[0], after.view(np.float32)[1]) == (64 * 256, 64 * 256.0)
