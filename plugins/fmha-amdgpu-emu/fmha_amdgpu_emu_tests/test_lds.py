"""ds_read, ds_write and their gfx11 names: every width, one and two addresses, AGPRs, bounds, waits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import Array

BYTES = 4096
CDNA = tuple(arch for arch in ARCHS if arch not in WAVE32)
WAIT = {arch: "s_wait_dscnt 0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)" for arch in ARCHS}

PARTS = {  # loaded width, the read's name, its name on gfx11, and how it fills the register
    "u8": (1, False, None), "i8": (1, True, None), "u16": (2, False, None), "i16": (2, True, None),
    "u8_d16": (1, False, 0), "u8_d16_hi": (1, False, 16), "i8_d16": (1, True, 0), "i8_d16_hi": (1, True, 16),
    "u16_d16": (2, False, 0), "u16_d16_hi": (2, False, 16),
}  # fmt: skip
WIDE = {"b32": 1, "b64": 2, "b96": 3, "b128": 4}
STORED = {"b8": (1, 0), "b8_d16_hi": (1, 16), "b16": (2, 0), "b16_d16_hi": (2, 16)}
PAIRS = {(width, stride): f"{width}{stride}" for width in ("b32", "b64") for stride in (1, 64)}


def reg(first: int, count: int, kind: str = "v") -> str:
    return f"{kind}[{first}:{first + count - 1}]" if count > 1 else f"{kind}{first}"


def two(op: str, arch: str, stride: int, width: str) -> str:
    """ds_read2st64_b32 or ds_load_2addr_stride64_b32."""
    if arch in WAVE32:
        return f"ds_{'load' if op == 'read' else 'store'}_2addr_{'stride64_' if stride == 64 else ''}{width}"
    return f"ds_{op}2{'st64' if stride == 64 else ''}_{width}"


def texts_of(arch: str) -> dict[str, str]:
    load, store = ("load", "store") if arch in WAVE32 else ("read", "write")
    texts = {f"read_{key}": f"ds_{load}_{key} v2, v0 offset:24" for key in PARTS}
    texts |= {f"read_{key}": f"ds_{load}_{key} {reg(2, n)}, v0 offset:24" for key, n in WIDE.items()}
    texts |= {f"write_{key}": f"ds_{store}_{key} v0, v8 offset:24" for key in STORED}
    texts |= {f"write_{key}": f"ds_{store}_{key} v0, {reg(8, n)} offset:24" for key, n in WIDE.items()}
    for width, stride in PAIRS:
        n = WIDE[width]
        key = f"{width}_{stride}"
        texts[f"read2_{key}"] = f"{two('read', arch, stride, width)} {reg(2, 2 * n)}, v0 offset0:1 offset1:3"
        texts[f"write2_{key}"] = (
            f"{two('write', arch, stride, width)} v0, {reg(8, n)}, {reg(12, n)} offset0:3 offset1:1"
        )
    texts["own"] = f"ds_{load}_addtid_b32 v2 offset:16"
    texts["put_own"] = f"ds_{store}_addtid_b32 v8 offset:16"
    texts["over"] = f"ds_{load}_b128 v[0:3], v2"
    texts["waited"] = f"ds_{load}_b32 v2, v0\n{WAIT[arch]}\nv_mov_b32 v3, v2"
    texts["unwaited"] = f"ds_{load}_b32 v2, v0\nv_mov_b32 v3, v2"
    if arch in CDNA:
        texts["agpr_read"] = "ds_read2st64_b32 a[2:3], v0 offset0:1 offset1:3"
        texts["agpr_write"] = "ds_write_b128 v0, a[8:11] offset:24"
        texts["agpr_write2"] = "ds_write2_b64 v0, a[8:9], a[12:13] offset0:3 offset1:1"
    return texts


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snippets]:
    return {arch: Snippets(arch, tmp_path_factory.mktemp(arch), texts_of(arch)) for arch in ARCHS}


class Wave:
    """A wave's LDS, addresses of all alignments, and the active lanes."""

    def __init__(self, arch: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.lanes = 32 if arch in WAVE32 else 64
        self.memory = rng.integers(0, 256, BYTES).astype(np.uint8)
        self.at = rng.integers(0, 1024, 64).astype(np.uint32)
        self.exec = int(rng.integers(1, 2**self.lanes, dtype=np.uint64))
        self.on = np.array([self.exec >> lane & 1 for lane in range(64)], bool)
        self.v = rng.integers(0, 2**32, (20, 64)).astype(np.uint32)
        self.v[0] = self.at

    def state(self) -> dict[str, Any]:
        return {"v": {0: self.v}, "lds": self.memory, "exec": self.exec}

    def loaded(self, at: Array, count: int) -> Array:
        """``count`` bytes at each lane's address, as unsigned bytes (64, count)."""
        return np.stack([self.memory[int(a) : int(a) + count] for a in at])

    def words(self, at: Array, count: int) -> Array:
        return self.loaded(at, 4 * count).copy().view(np.uint32).T


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("key", PARTS)
def test_part_reads(arch: str, key: str, snippets: dict[str, Snippets]) -> None:
    """8 and 16 bits are zero- or sign-extended; D16 forms keep the other half."""
    wave = Wave(arch, len(key))
    width, signed, shift = PARTS[key]
    after = snippets[arch].run(f"read_{key}", **wave.state())
    raw = wave.loaded(wave.at + 24, width).copy().view({1: np.uint8, 2: np.uint16}[width])[:, 0]
    value = raw.astype(np.int64) - (int(signed) * (raw >= 1 << 8 * width - 1).astype(np.int64) << 8 * width)
    if shift is None:
        want = value.astype(np.uint32)
    else:
        keep = np.uint32(0xFFFF0000 if shift == 0 else 0xFFFF)
        want = (wave.v[2] & keep) | (value.astype(np.uint16).astype(np.uint32) << np.uint32(shift))
    assert np.array_equal(after.v[2], np.where(wave.on, want, wave.v[2]))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("key", WIDE)
def test_wide_reads(arch: str, key: str, snippets: dict[str, Snippets]) -> None:
    """One to four dwords are read at any byte address."""
    wave = Wave(arch, 10 + len(key))
    n = WIDE[key]
    after = snippets[arch].run(f"read_{key}", **wave.state())
    want = np.where(wave.on, wave.words(wave.at + 24, n), wave.v[2 : 2 + n])
    assert np.array_equal(after.v[2 : 2 + n], want)
    assert np.array_equal(after.v[2 + n : 20], wave.v[2 + n : 20])


@pytest.mark.parametrize("arch", ARCHS)
def test_two_addresses(arch: str, snippets: dict[str, Snippets]) -> None:
    """offset0 and offset1 count elements, or 64 of them."""
    for seed, (width, stride) in enumerate(PAIRS):
        wave = Wave(arch, 20 + seed)
        n = WIDE[width]
        step = 4 * n * stride
        after = snippets[arch].run(f"read2_{width}_{stride}", **wave.state())
        want = np.concatenate([wave.words(wave.at + k * step, n) for k in (1, 3)])
        assert np.array_equal(after.v[2 : 2 + 2 * n], np.where(wave.on, want, wave.v[2 : 2 + 2 * n]))
        after = snippets[arch].run(f"write2_{width}_{stride}", **apart_twice(wave, 4 * n, stride))
        memory = wave.memory.copy()
        for k, first in ((3, 8), (1, 12)):
            scatter(memory, wave, wave.v[first : first + n], k * step)
        assert np.array_equal(after.lds, memory)


def apart(wave: Wave) -> dict[str, Any]:
    """Unordered addresses 20 bytes apart, so writes of up to 16 bytes do not overlap."""
    wave.at = wave.v[0] = (np.random.default_rng(3).permutation(64) * 20 + 1).astype(np.uint32)
    return wave.state()


def apart_twice(wave: Wave, size: int, stride: int) -> dict[str, Any]:
    """Addresses of 16 lanes such that elements of ``size`` bytes at 1 and 3 strides do not overlap."""
    wave.at = wave.v[0] = (np.arange(64) * size * (4 if stride == 1 else 1)).astype(np.uint32)
    wave.on &= np.arange(64) < 16
    wave.exec &= 0xFFFF
    return wave.state()


def scatter(memory: Array, wave: Wave, rows: Array, offset: int) -> None:
    data = np.ascontiguousarray(rows.T).view(np.uint8)
    for lane in np.flatnonzero(wave.on):
        at = int(wave.at[lane]) + offset
        memory[at : at + data.shape[1]] = data[lane]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("key", [*STORED, *WIDE])
def test_writes(arch: str, key: str, snippets: dict[str, Snippets]) -> None:
    """The bytes of the data are written, from bit 16 on in the D16 forms; disabled lanes write nothing."""
    wave = Wave(arch, 30)
    after = snippets[arch].run(f"write_{key}", **apart(wave))
    memory = wave.memory.copy()
    if key in WIDE:
        scatter(memory, wave, wave.v[8 : 8 + WIDE[key]], 24)
    else:
        width, shift = STORED[key]
        data = (wave.v[8] >> np.uint32(shift)).view(np.uint8).reshape(64, 4)[:, :width]
        for lane in np.flatnonzero(wave.on):
            memory[int(wave.at[lane]) + 24 : int(wave.at[lane]) + 24 + width] = data[lane]
    assert np.array_equal(after.lds, memory)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("width", ["b32", "b64", "b128"])
def test_lanes_that_write_whole_pieces(arch: str, width: str, snippets: dict[str, Snippets]) -> None:
    """Neighbours that write pieces of 16 bytes together, in any order of pieces, whichever lanes are on; one stores what is there."""
    dwords = WIDE[width]
    for first, lanes in ((0, 64), (0, 8), (8, 16), (4, 7)):
        wave = Wave(arch, 90)
        places = 16 * np.random.default_rng(4).permutation(128)[: 16 * dwords] + 8
        wave.at = wave.v[0] = (np.repeat(places, 4 // dwords) + np.arange(64) % (4 // dwords) * 4 * dwords).astype(
            np.uint32
        )
        wave.exec = ((1 << lanes) - 1 << first) & (1 << wave.lanes) - 1
        wave.on = np.array([wave.exec >> lane & 1 for lane in range(64)], bool)
        for kept in (None, first + 5):
            if kept is not None:
                wave.v[8 : 8 + dwords, kept] = wave.words(wave.at[kept : kept + 1] + 24, dwords)[:, 0]
            after = snippets[arch].run(f"write_{width}", **wave.state())
            memory = wave.memory.copy()
            scatter(memory, wave, wave.v[8 : 8 + dwords], 24)
            assert np.array_equal(after.lds, memory), (first, lanes, kept)


@pytest.mark.parametrize("arch", ARCHS)
def test_own_dword(arch: str, snippets: dict[str, Snippets]) -> None:
    """addtid addresses offset + M0[15:0] + 4 times the lane."""
    wave = Wave(arch, 40)
    own = 16 + 256 + 4 * np.arange(64)
    after = snippets[arch].run("own", m0=0xABCD0100, **wave.state())
    assert np.array_equal(after.v[2], np.where(wave.on, wave.words(own, 1)[0], wave.v[2]))
    after = snippets[arch].run("put_own", m0=0xABCD0100, **wave.state())
    memory = wave.memory.copy()
    wave.at = own.astype(np.uint32)
    scatter(memory, wave, wave.v[8:9], 0)
    assert np.array_equal(after.lds, memory)


@pytest.mark.parametrize("arch", CDNA)
def test_accumulation_registers(arch: str, snippets: dict[str, Snippets]) -> None:
    """AGPRs serve as data and as destination."""
    wave = Wave(arch, 50)
    state = wave.state()
    state["v"] = {0: wave.at, 256: wave.v}
    after = snippets[arch].run("agpr_read", **state)
    want = np.concatenate([wave.words(wave.at + k * 256, 1) for k in (1, 3)])
    assert np.array_equal(after.v[258:260], np.where(wave.on, want, wave.v[2:4]))
    state = apart(wave)
    state["v"] = {0: wave.at, 256: wave.v}
    memory = wave.memory.copy()
    scatter(memory, wave, wave.v[8:12], 24)
    assert np.array_equal(snippets[arch].run("agpr_write", **state).lds, memory)
    state = apart_twice(wave, 8, 1)
    state["v"] = {0: wave.at, 256: wave.v}
    memory = wave.memory.copy()
    scatter(memory, wave, wave.v[8:10], 24)
    scatter(memory, wave, wave.v[12:14], 8)
    assert np.array_equal(snippets[arch].run("agpr_write2", **state).lds, memory)


@pytest.mark.parametrize("arch", ARCHS)
def test_destination_over_the_address(arch: str, snippets: dict[str, Snippets]) -> None:
    wave = Wave(arch, 60)
    wave.v[2] = wave.at
    after = snippets[arch].run("over", **wave.state())
    assert np.array_equal(after.v[:4], np.where(wave.on, wave.words(wave.at, 4), wave.v[:4]))


@pytest.mark.parametrize("arch", ARCHS)
def test_out_of_range(arch: str, snippets: dict[str, Snippets]) -> None:
    """Wholly or partly beyond the allocation, reads give zero, writes have no effect, and one finding has the count."""
    wave = Wave(arch, 70)
    wave.exec, wave.on = 2**wave.lanes - 1, np.arange(64) < wave.lanes
    wave.v[0] = wave.at = (np.arange(64) * 16).astype(np.uint32)
    wave.v[0, 3], wave.v[0, 5], wave.v[0, 7] = BYTES - 24 - 15, 0xFFFFFFF0, BYTES - 24 - 16
    wave.at = wave.v[0].copy()
    inside = np.ones(64, bool)
    inside[[3, 5]] = False  # 0xfffffff0 + 24 wraps around to 8
    inside[5] = True
    wave.at[5] = 0xFFFFFFF0
    after = snippets[arch].run("read_b128", **wave.state())
    at = (wave.at + np.uint32(24)).astype(np.uint32)
    want = np.stack([wave.words(at[lane : lane + 1], 4)[:, 0] if inside[lane] else np.zeros(4, np.uint32)
                     for lane in range(64)], axis=1)  # fmt: skip
    assert np.array_equal(after.v[2:6, : wave.lanes], want[:, : wave.lanes])
    assert [(f["kind"], f["lane"], f["count"]) for f in after.findings] == [("out-of-bounds", 3, 1)]
    after = snippets[arch].run("write_b128", **wave.state())
    memory = wave.memory.copy()
    wave.on &= inside
    wave.at = at
    scatter(memory, wave, wave.v[8:12], 0)
    assert np.array_equal(after.lds, memory)
    assert "0x1000 bytes" in after.findings[0]["text"]


@pytest.mark.parametrize(("arch", "waited"), list(itertools.product(ARCHS, (True, False))))
def test_results_are_pending(arch: str, waited: bool, snippets: dict[str, Snippets]) -> None:
    """Use of an LDS read's result before its wait is a finding."""
    wave = Wave(arch, 80)
    # Nothing wrote the LDS of a snippet, so only the missing wait matters here.
    after = snippets[arch].run("waited" if waited else "unwaited", track=True, **wave.state())
    assert ("missing-wait" in {f["kind"] for f in after.findings}) == (not waited)
