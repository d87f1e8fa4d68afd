"""Buffer instructions: ranges, strides, swizzles and private memory of each generation; loads straight to LDS.

The models are the ISA documents' formulas ("Buffer addressing", "Range checking") in numpy, lane by lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.emu_device import Device, device
from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets
from fmha_amdgpu_emu_tests.support.memory_kinds import LOADS, STORES, Kind, active, random_rows, registers

SIZE = 4096
FIRST = 8
EXEC = 0xFFFFFFFFDEADBEEF
CDNA = ("gfx90a", "gfx942", "gfx950")
STRUCTURED, INDEX_ONLY, EMPTY_ONLY, RAW = range(4)


def is_cdna(arch: str) -> bool:
    return arch in CDNA


@dataclass(frozen=True)
class Resource:
    """A buffer resource of any generation."""

    base: int
    records: int
    stride: int = 0
    swizzle: bool = False
    element: int = 4
    index_stride: int = 64
    add_tid: bool = False
    bounds: int = RAW

    def words(self, arch: str) -> dict[int, int]:
        """The resource's words in s[8:11]."""
        upper = self.base >> 32 & 0xFFFF | self.stride << 16
        flags = {8: 0, 16: 1, 32: 2, 64: 3}[self.index_stride] << 21 | self.add_tid << 23
        if is_cdna(arch):
            upper |= self.swizzle << 31
            flags |= 0 if self.add_tid else 0x20000
        else:
            upper |= ({4: 1, 8: 2, 16: 3}[self.element] if self.swizzle else 0) << 30
            flags |= self.bounds << 28 | 0x01004000
        return {8: self.base & 0xFFFFFFFF, 9: upper, 10: self.records, 11: flags}

    def sum(self, index: int, offset: int) -> int:
        """The linear address, or the swizzled one, which splits index and offset into interleaved and kept parts."""
        if not self.swizzle:
            return offset + self.stride * index
        n, e = self.index_stride, self.element
        return (index // n * self.stride + offset // e * e) * n + index % n * e + offset % e

    def in_range(self, arch: str, index: int, offset: int, payload: int, soffset: int, idxen: bool) -> bool:
        limit = max(self.records - soffset, 0)
        place = self.sum(index, offset)
        if is_cdna(arch):
            return index < self.records if idxen and self.stride else place < limit
        if self.bounds == STRUCTURED:
            return index < self.records and (not self.stride or offset + payload <= self.stride)
        if self.bounds == INDEX_ONLY:
            return index < self.records
        if self.bounds == EMPTY_ONLY:
            return self.records > 0
        if self.swizzle and self.stride:
            return index < self.records and offset + payload <= self.stride
        return place + payload <= limit


@dataclass(frozen=True)
class Mode:
    """How an instruction passes index and offset."""

    name: str
    text: str
    idxen: bool = False
    offen: bool = False
    immediate: int = 0


MODES = (
    Mode("none", "off, s[8:11], {zero} offset:32", immediate=32),
    Mode("offen", "v4, s[8:11], {zero} offen offset:32", offen=True, immediate=32),
    Mode("soffset", "v4, s[8:11], s6 offen", offen=True),
    Mode("idxen", "v4, s[8:11], {zero} idxen offset:8", idxen=True, immediate=8),
    Mode("both", "v[4:5], s[8:11], s6 idxen offen offset:4", idxen=True, offen=True, immediate=4),
)
SOFFSET = 48


def texts(arch: str) -> dict[str, str]:
    zero = "null" if arch == "gfx1201" else "0"
    out = {}
    for verb, kinds in (("load", LOADS), ("store", STORES)):
        for kind in kinds:
            for mode in MODES:
                data = registers(FIRST, kind.dwords)
                line = f"buffer_{verb}_{kind.name(arch)} {data}, {mode.text.format(zero=zero)}"
                out[f"{verb}_{kind.cdna}_{mode.name}"] = line
    if is_cdna(arch):
        widths = ["ubyte", "sbyte", "ushort", "sshort", "dword"]
        widths += ["dwordx3", "dwordx4"] if arch == "gfx950" else []
        for width in widths:
            out[f"lds_{width}"] = f"buffer_load_{width} v4, s[8:11], 0 offen offset:16 lds"
            if arch != "gfx90a":
                out[f"global_lds_{width}"] = f"global_load_lds_{width} v4, s[12:13] offset:16"
        out["spill"] = (
            "buffer_store_dwordx2 v[8:9], off, s[8:11], 0 offset:12\nbuffer_load_dwordx2 v[10:11], off, s[8:11], 0 offset:12"
        )
    return out


class BufferSnippets:
    def __init__(self, arch: str, opened: Device, folder: Path) -> None:
        self.arch, self.device = arch, opened
        self.lanes = 32 if arch in WAVE32 else 64
        self.snippets = Snippets(arch, folder, texts(arch))
        self.bytes = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
        self.address = opened.put(self.bytes)
        self.exec = EXEC & (1 << self.lanes) - 1


@pytest.fixture(scope="module", params=ARCHS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BufferSnippets]:
    with device(request.param) as opened:
        yield BufferSnippets(request.param, opened, tmp_path_factory.mktemp(request.param))


def resources(case: BufferSnippets) -> dict[str, tuple[Resource, tuple[str, ...]]]:
    """Resources by name, and the modes that apply to each."""
    base = case.address
    out = {
        "raw": (Resource(base, 1200), ("none", "offen", "soffset")),
        "odd": (Resource(base, 1194), ("offen", "soffset")),
        "empty": (Resource(base, 0), ("none", "offen")),
        "structs": (Resource(base, 29, stride=40, bounds=INDEX_ONLY), ("idxen", "both")),
        "swizzled": (Resource(base, 29, stride=64, swizzle=True, index_stride=8, bounds=INDEX_ONLY), ("idxen", "both")),
    }
    if not is_cdna(case.arch):
        out |= {
            "structured": (Resource(base, 29, stride=40, bounds=STRUCTURED), ("idxen", "both")),
            "unbounded": (Resource(base, 1, stride=40, bounds=EMPTY_ONLY), ("idxen", "both")),
            "wide": (
                Resource(base, 29, stride=64, swizzle=True, element=16, index_stride=16),
                ("idxen",),
            ),
        }
    return out


def operands(mode: Mode, kind: Kind) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Index and offset registers of the lanes: around the range limits, with no two lanes on the same bytes."""
    rng = np.random.default_rng(5)
    step = 4 if kind.bytes > 2 else kind.bytes
    if mode.idxen:
        return rng.permutation(64), rng.integers(0, 20, 64) // step * step
    offsets = rng.permutation(70)[:64] * 16 + rng.integers(0, 17 - kind.bytes, 64) // step * step
    offsets[:6] = (1136, 1152, 1184 - kind.bytes, 1168, 0xFFFFFFF0, 0x80000000)
    return np.zeros(64, np.int64), offsets


def run(
    case: BufferSnippets, resource: Resource, mode: Mode, kind: Kind, verb: str, data: npt.NDArray[np.uint32]
) -> tuple[object, list]:
    index, offset = operands(mode, kind)
    rows = [row for row, used in ((index, mode.idxen), (offset, mode.offen)) if used] or [index]
    soffset = SOFFSET if "s6" in mode.text else 0
    after = case.snippets.run(
        f"{verb}_{kind.cdna}_{mode.name}",
        v={FIRST: data, 4: np.stack(rows).astype(np.int64)},
        s=resource.words(case.arch) | {6: SOFFSET},
        exec=case.exec,
        track=True,
    )
    places = []
    for lane in range(case.lanes):
        i = int(index[lane]) if mode.idxen else 0
        i += lane if resource.add_tid else 0
        first = mode.immediate + (int(offset[lane]) if mode.offen else 0)
        payload = min(kind.bytes, 4)
        components = [
            resource.sum(i, first + 4 * d) + soffset
            if resource.in_range(case.arch, i, first + 4 * d, payload, soffset, mode.idxen)
            else None
            for d in range(kind.dwords)
        ]
        places.append(components)
    return after, places


@pytest.mark.parametrize("kind", LOADS, ids=lambda kind: kind.cdna)
def test_loads(case: BufferSnippets, kind: Kind) -> None:
    """The range of each dword is checked separately; dwords out of range read zero and cause no finding."""
    before = random_rows(3, 4)
    for name, (resource, modes) in resources(case).items():
        for mode in MODES:
            if mode.name not in modes:
                continue
            after, places = run(case, resource, mode, kind, "load", before)
            want = before.copy()
            for lane in active(case.exec, case.lanes):
                for d, place in enumerate(places[lane]):
                    memory, at = (np.zeros(16, np.uint8), 0) if place is None else (case.bytes, place)
                    piece = Kind("", "", min(kind.bytes, 4), kind.signed, kind.half)
                    want[d, lane] = piece.loaded(memory, at, before[d : d + 1, lane])[0]
            assert np.array_equal(after.v[FIRST : FIRST + 4], want), (name, mode.name)
            assert not after.findings, (name, mode.name)


@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.cdna)
def test_stores(case: BufferSnippets, kind: Kind) -> None:
    """Dwords out of range are dropped one by one."""
    data = random_rows(4, 4)
    for name, (resource, modes) in resources(case).items():
        for mode in MODES:
            if mode.name not in modes:
                continue
            address = case.device.put(case.bytes)
            moved = Resource(**{**resource.__dict__, "base": address})
            after, places = run(case, moved, mode, kind, "store", data)
            want = case.bytes.copy()
            for lane in active(case.exec, case.lanes):
                for d, place in enumerate(places[lane]):
                    if place is None:
                        continue
                    piece = Kind("", "", min(kind.bytes, 4), kind.signed, kind.half)
                    want[place : place + piece.bytes] = piece.stored(data[d : d + 1, lane])
            assert np.array_equal(case.device.get(address, want), want), (name, mode.name)
            assert not after.findings, (name, mode.name)


def test_beyond_the_allocation_but_in_range(case: BufferSnippets) -> None:
    """If a resource describes more memory than exists, there are findings, reads give zero, and nothing is written."""
    resource = Resource(case.address + SIZE - 64, 1 << 20)
    got = case.snippets.run(
        "load_dword_offen", v={FIRST: 5, 4: np.arange(64) * 4}, s=resource.words(case.arch), exec=0xFFFF, track=True
    )
    (finding,) = got.findings
    assert (finding["kind"], finding["lane"], finding["count"]) == ("out-of-bounds", 8, 8)
    assert np.array_equal(got.v[FIRST, :16], np.append(case.bytes[-32:].view(np.uint32), np.zeros(8, np.uint32)))


def test_loads_to_lds(case: BufferSnippets) -> None:
    """Lane l's data goes to M0 + offset + l times its dwords; out of range it is zero. Disabled lanes write nothing."""
    if not is_cdna(case.arch):
        pytest.skip("CDNA alone has them")
    resource = Resource(case.address, 1200)
    offsets = np.random.default_rng(8).permutation(80)[:64] * 16
    lds = np.full(4096, 0xAA, np.uint8)
    for name in [key for key in texts(case.arch) if "lds_" in key]:
        width = name.rpartition("_")[2]
        kind = next(kind for kind in LOADS if kind.cdna == width)
        ranged = name.startswith("lds")
        base = {12: case.address & 0xFFFFFFFF, 13: case.address >> 32}
        got = case.snippets.run(
            name, v={4: offsets}, s=resource.words(case.arch) | base, exec=case.exec, m0=256, lds=lds, track=True
        )
        want = lds.copy()
        for lane in active(case.exec, 64):
            at, place = 256 + 16 + lane * 4 * kind.dwords, int(offsets[lane]) + 16
            data = kind.loaded(case.bytes, place, np.zeros(4, np.uint32))
            for d in range(kind.dwords):
                if ranged and place + 4 * d >= resource.records:
                    data[d] = 0
            want[at : at + 4 * kind.dwords] = data.view(np.uint8)
        assert np.array_equal(got.lds, want), name
        assert not got.findings, name


def test_dwords_that_lie_side_by_side(case: BufferSnippets) -> None:
    """All lanes are on and in range: the dwords of 16 lanes follow one another, but for one lane or for none."""
    resource = Resource(case.address, 1200)
    for other in (None, 1, 15, 16, 21, case.lanes - 1):
        offsets = 40 + np.arange(64) * 4
        if other is not None:
            offsets[other] = 600
        want = case.bytes[offsets[:, None] + np.arange(4)].view(np.uint32)[:, 0]
        state = {"m0": 256, "lds": np.zeros(4096, np.uint8), "track": True}
        moved = resource.words(case.arch) | {12: case.address & 0xFFFFFFFF, 13: case.address >> 32}
        for name in [key for key in texts(case.arch) if key in ("lds_dword", "global_lds_dword")]:
            got = case.snippets.run(name, v={4: offsets - 16}, s=moved, **state)
            assert np.array_equal(got.lds[272 : 272 + 4 * case.lanes].view(np.uint32), want[: case.lanes]), (
                name,
                other,
            )
        got = case.snippets.run("load_dword_offen", v={4: offsets - 32, FIRST: 5}, s=moved, **state)
        assert np.array_equal(got.v[FIRST, : case.lanes], want[: case.lanes]), other


def test_scratch_through_its_resource(case: BufferSnippets) -> None:
    """gfx90a spills through a swizzled resource that adds the lane, so the lanes' dwords are adjacent."""
    if case.arch != "gfx90a":
        pytest.skip("gfx90a alone spills so")
    data = random_rows(9, 2)
    va = 0x7F0012340000
    scratch = np.zeros((64, 64), np.uint8)
    resource = Resource(va, 64 * 64, swizzle=True, add_tid=True)
    got = case.snippets.run(
        "spill", v={8: data}, s=resource.words(case.arch), exec=case.exec, scratch=scratch.ravel(), scratch_va=va
    )
    lanes = active(case.exec, 64)
    private = got.scratch.reshape(64, 16, 4).view(np.uint32)[:, :, 0]
    assert np.array_equal(private[lanes, 3:5], data[:, lanes].T)
    assert np.array_equal(got.v[10:12, lanes], data[:, lanes])
    assert np.count_nonzero(private) == 2 * len(lanes)
