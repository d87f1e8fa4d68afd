"""Global, flat, scratch and scalar memory: every width, offsets of both signs, EXEC, apertures, what lies out of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from emu_device import Device, device
from harness import ARCHS, WAVE32, Snippets
from memory_kinds import LOADS, STORES, Kind, active, random_rows, registers

SIZE = 4096
FIRST = 8
"""The first register that a load writes or a store reads."""
EXEC = 0xFFFF0000DEADBEEF
SHARED, PRIVATE = 1 << 16, 2 << 16
"""Upper words of the apertures."""
SCRATCH = 256


def texts(arch: str) -> dict[str, str]:
    """Each width in each space."""
    out = {}
    for load, kinds in ((True, LOADS), (False, STORES)):
        verb = "load" if load else "store"
        for kind in kinds:
            name, data = kind.name(arch), registers(FIRST, kind.dwords)

            def line(space: str, address: str, rest: str, name: str = name, verb: str = verb, data: str = data) -> str:
                first, second = (data, address) if verb == "load" else (address, data)
                return f"{space}_{verb}_{name} {first}, {second}{rest}"

            out |= {
                f"{verb}_{kind.cdna}_saddr": line("global", "v4", ", s[4:5] offset:-16"),
                f"{verb}_{kind.cdna}_vaddr": line("global", "v[2:3]", ", off offset:24"),
                f"{verb}_{kind.cdna}_flat": line("flat", "v[2:3]", " offset:24"),
                f"{verb}_{kind.cdna}_scratch": line("scratch", "v4", ", off offset:8"),
            }
            out[f"{verb}_{kind.cdna}_scratch_saddr"] = line("scratch", "off", ", s6 offset:8")
    wide, scalar = ("dword", "dwordx") if arch.startswith("gfx9") else ("b", "b")
    sizes = {1: wide + ("32" if wide == "b" else "")}
    sizes |= {n: scalar + str(n * 32 if wide == "b" else n) for n in (2, 4, 8, 16)}
    for n, name in sizes.items():
        target = f"s[16:{15 + n}]" if n > 1 else "s16"
        out[f"scalar{n}"] = f"s_load_{name} {target}, s[4:5], 0x14"
        out[f"scalar_register{n}"] = f"s_load_{name} {target}, s[4:5], s6"
        out[f"scalar_buffer{n}"] = f"s_buffer_load_{name} {target}, s[8:11], 0x14"
    if arch == "gfx1201":
        out["scalar3"] = "s_load_b96 s[16:18], s[4:5], 0x14"
        for name in ("u8", "i8", "u16", "i16"):
            out[f"scalar_{name}"] = f"s_load_{name} s16, s[4:5], 0x12"
    return out


class Case:
    """One architecture: its device, its snippets, some memory."""

    def __init__(self, arch: str, opened: Device, folder: Path) -> None:
        self.arch, self.device = arch, opened
        self.lanes = 32 if arch in WAVE32 else 64
        self.snippets = Snippets(arch, folder, texts(arch))
        self.bytes = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
        self.address = opened.put(self.bytes)
        self.exec = EXEC & (1 << self.lanes) - 1


@pytest.fixture(scope="module", params=ARCHS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    with device(request.param) as opened:
        yield Case(request.param, opened, tmp_path_factory.mktemp(request.param))


def split(address: int, offsets: np.ndarray) -> np.ndarray:
    """Two rows: lower and upper words of 64-bit addresses."""
    whole = offsets.astype(np.uint64) + np.uint64(address)
    return np.stack([(whole & 0xFFFFFFFF).astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)])


def scattered(kind: Kind, limit: int) -> np.ndarray:
    """A place for each lane, no two of them overlapping."""
    places = np.random.default_rng(2).permutation(limit // 16)[:64] * 16
    return np.resize(places, 64) + (0 if kind.bytes > 2 else 2)


def expected_rows(case: Case, kind: Kind, memory: np.ndarray, offsets: np.ndarray, before: np.ndarray) -> np.ndarray:
    after = before.copy()
    for lane in active(case.exec, case.lanes):
        after[: kind.dwords, lane] = kind.loaded(memory, int(offsets[lane]), before[:, lane])
    return after


@pytest.mark.parametrize("kind", LOADS, ids=lambda kind: kind.cdna)
def test_loads(case: Case, kind: Kind) -> None:
    """Active lanes get memory, the others and the other half keep what they had."""
    before = random_rows(3, 4)
    offsets = scattered(kind, SIZE - 64) + 16
    want = expected_rows(case, kind, case.bytes, offsets, before)
    base = {4: case.address & 0xFFFFFFFF, 5: case.address >> 32}
    saddr = case.snippets.run(f"load_{kind.cdna}_saddr", v={FIRST: before, 4: offsets + 16}, s=base, exec=case.exec)
    assert np.array_equal(saddr.v[FIRST : FIRST + 4], want)
    for space in ("vaddr", "flat"):
        rows = split(case.address - 24, offsets)
        got = case.snippets.run(f"load_{kind.cdna}_{space}", v={FIRST: before, 2: rows}, exec=case.exec)
        assert np.array_equal(got.v[FIRST : FIRST + 4], want), space
        assert not got.findings


@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.cdna)
def test_stores(case: Case, kind: Kind) -> None:
    """Active lanes write their bytes and nothing beside them."""
    data = random_rows(4, 4)
    offsets = scattered(kind, SIZE - 64) + 16
    want = case.bytes.copy()
    for lane in active(case.exec, case.lanes):
        want[offsets[lane] : offsets[lane] + kind.bytes] = kind.stored(data[: kind.dwords, lane])
    for space in ("saddr", "vaddr", "flat"):
        address = case.device.put(case.bytes)
        v = {FIRST: data, 4: offsets + 16} | ({} if space == "saddr" else {2: split(address - 24, offsets)})
        base = {4: address & 0xFFFFFFFF, 5: address >> 32}
        case.snippets.run(f"store_{kind.cdna}_{space}", v=v, s=base, exec=case.exec)
        assert np.array_equal(case.device.get(address, want), want), space


@pytest.mark.parametrize("kind", LOADS, ids=lambda kind: kind.cdna)
def test_scratch_loads(case: Case, kind: Kind) -> None:
    """Each lane reads its own memory, at the sum of register, scalar and immediate."""
    before = random_rows(5, 4)
    scratch = np.random.default_rng(6).integers(0, 256, (64, SCRATCH), np.uint8)
    places = np.random.default_rng(7).integers(0, SCRATCH - 32, 64) & ~3
    for name, where in (("scratch", places), ("scratch_saddr", np.full(64, 40))):
        want = before.copy()
        for lane in active(case.exec, case.lanes):
            want[: kind.dwords, lane] = kind.loaded(scratch[lane], int(where[lane]) + 8, before[:, lane])
        got = case.snippets.run(
            f"load_{kind.cdna}_{name}", v={FIRST: before, 4: where}, s={6: 40}, exec=case.exec, scratch=scratch.ravel()
        )
        assert np.array_equal(got.v[FIRST : FIRST + 4], want)


@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.cdna)
def test_scratch_stores(case: Case, kind: Kind) -> None:
    data = random_rows(8, 4)
    places = np.random.default_rng(9).integers(0, SCRATCH - 32, 64) & ~3
    scratch = np.zeros((64, SCRATCH), np.uint8)
    want = scratch.copy()
    for lane in active(case.exec, case.lanes):
        at = int(places[lane]) + 8
        want[lane, at : at + kind.bytes] = kind.stored(data[: kind.dwords, lane])
    got = case.snippets.run(
        f"store_{kind.cdna}_scratch", v={FIRST: data, 4: places}, exec=case.exec, scratch=scratch.ravel()
    )
    assert np.array_equal(got.scratch.reshape(64, SCRATCH), want)


def test_flat_apertures(case: Case) -> None:
    """By the upper word of its address a lane reaches memory, LDS or its private memory."""
    lds = np.random.default_rng(10).integers(0, 256, 1024, np.uint8)
    scratch = np.random.default_rng(11).integers(0, 256, (64, SCRATCH), np.uint8)
    lanes = np.arange(64)
    offsets = lanes * 4 % 128
    rows = split(case.address, offsets)
    rows[0] -= 24
    for lane in range(64):
        if lane % 3:
            rows[:, lane] = (offsets[lane] - 24 & 0xFFFFFFFF if lane % 3 == 1 else offsets[lane] + 8, 0)
            rows[1, lane] = SHARED if lane % 3 == 1 else PRIVATE
    rows[0, lanes % 3 == 1] = offsets[lanes % 3 == 1] + 24
    got = case.snippets.run("load_dword_flat", v={2: rows}, lds=lds, scratch=scratch.ravel(), track=True)
    for lane in range(case.lanes):
        at = int(offsets[lane])
        if lane % 3 == 0:
            want = case.bytes[at : at + 4]
        elif lane % 3 == 1:
            want = lds[at + 48 : at + 52]
        else:
            want = scratch[lane, at + 32 : at + 36]
        assert got.v[FIRST, lane] == want.view(np.uint32)[0], lane
    assert not got.findings
    beyond = rows.copy()
    beyond[0, lanes % 3 == 1] = 1020
    beyond[0, lanes % 3 == 2] = SCRATCH
    outside = case.snippets.run("load_dword_flat", v={2: beyond}, lds=lds, scratch=scratch.ravel(), track=True)
    assert {f["kind"] for f in outside.findings} == {"out-of-bounds"}
    assert not outside.v[FIRST, lanes[: case.lanes][lanes[: case.lanes] % 3 != 0]].any()


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_scalar_loads(case: Case, n: int) -> None:
    """Immediate and register offsets; the two low bits of an address are ignored; other scalars stay."""
    words = case.bytes.view(np.uint32)
    resource = {8: case.address & 0xFFFFFFFF, 9: case.address >> 32, 10: SIZE, 11: 0}
    base = {4: case.address & 0xFFFFFFFF | 0, 5: case.address >> 32, 6: 0x102, 16 + n: 0xABCD}
    got = case.snippets.run(f"scalar{n}", s=base)
    assert np.array_equal(got.s[16 : 16 + n], words[5 : 5 + n])
    assert got.s[16 + n] == 0xABCD
    assert np.array_equal(case.snippets.run(f"scalar_register{n}", s=base).s[16 : 16 + n], words[64 : 64 + n])
    assert np.array_equal(case.snippets.run(f"scalar_buffer{n}", s=resource).s[16 : 16 + n], words[5 : 5 + n])
    short = case.snippets.run(f"scalar_buffer{n}", s=resource | {10: 0x18}).s[16 : 16 + n]
    assert short[0] == words[5]
    assert not short[1:].any()


def test_scalar_loads_of_gfx12(case: Case) -> None:
    """Three dwords, and less than one."""
    if case.arch != "gfx1201":
        pytest.skip("gfx12 alone has them")
    base = {4: case.address & 0xFFFFFFFF, 5: case.address >> 32}
    assert np.array_equal(case.snippets.run("scalar3", s=base).s[16:19], case.bytes.view(np.uint32)[5:8])
    for name, size in (("u8", 1), ("i8", 1), ("u16", 2), ("i16", 2)):
        data = case.bytes[0x12 : 0x12 + size].tobytes()
        value = int.from_bytes(data, "little", signed=name[0] == "i") & 0xFFFFFFFF
        assert case.snippets.run(f"scalar_{name}", s=base).s[16] == value


def test_out_of_bounds(case: Case) -> None:
    """Lanes beyond the allocation read zero, write nothing, and are named with what is nearest; the others work."""
    offsets = np.arange(64) * (SIZE // 16)
    base = {4: case.address & 0xFFFFFFFF, 5: case.address >> 32}
    got = case.snippets.run("load_dword_saddr", v={FIRST: 7, 4: offsets + 16}, s=base, exec=0x0001FFFF, track=True)
    (finding,) = got.findings
    assert finding["kind"] == "out-of-bounds"
    assert (finding["lane"], finding["count"]) == (16, 1)
    assert "at the end of allocation" in finding["text"]
    assert got.v[FIRST, 16] == 0
    assert got.v[FIRST, 15] == case.bytes.view(np.uint32)[15 * SIZE // 64]
    assert got.v[FIRST, 17] == 7
    null = case.snippets.run("store_dword_saddr", v={FIRST: 7, 4: offsets}, s={4: 64, 5: 0}, exec=3, track=True)
    assert null.findings[0]["count"] == 2
    private = case.snippets.run(
        "store_dword_scratch",
        v={FIRST: 7, 4: SCRATCH - 8},
        exec=1,
        scratch=np.zeros(64 * SCRATCH, np.uint8),
        track=True,
    )
    assert "private memory" in private.findings[0]["text"]
    assert not private.scratch.any()
