"""LDS permutes, swizzles, gfx950's transposed reads, append and consume, and tracking of undefined permuted data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32, Snippets
from fmha_amdgpu_emu_tests.support.matrix_layouts import Array, pack

SWIZZLES = {
    "swap16": 'swizzle(SWAP,16)', "reverse8": "swizzle(REVERSE,8)", "broadcast32_3": "swizzle(BROADCAST,32,3)",
    "broadcast8_5": "swizzle(BROADCAST,8,5)", "mask": 'swizzle(BITMASK_PERM,"01pip")', "plain": "0x3c71",
    "quad": "swizzle(QUAD_PERM,3,1,0,2)",
}  # fmt: skip
GFX9_SWIZZLES = {
    **{f"rotate_{way}_{by}": f"swizzle(ROTATE,{way},{by})" for way in (0, 1) for by in (1, 5, 31)},
    **{f"fft_{mask}": f"swizzle(FFT,{mask})" for mask in (0, 1, 3, 15, 31, 17)},
}
WAIT = {arch: "s_wait_dscnt 0" if arch == "gfx1201" else "s_waitcnt lgkmcnt(0)" for arch in ARCHS}


def texts_of(arch: str) -> dict[str, str]:
    texts = {
        "bpermute": "ds_bpermute_b32 v3, v1, v2 offset:64", "permute": "ds_permute_b32 v3, v1, v2 offset:64",
        "append": "ds_append v3 offset:8", "consume": "ds_consume v3 offset:8",
        "used": f"ds_bpermute_b32 v3, v1, v2\n{WAIT[arch]}\nv_cmp_eq_u32 vcc, v3, v1" if arch not in WAVE32 else
                f"ds_bpermute_b32 v3, v1, v2\n{WAIT[arch]}\nv_cmp_eq_u32 vcc_lo, v3, v1",
        "unwaited": "ds_bpermute_b32 v3, v1, v2\nv_mov_b32 v4, v3",
    }  # fmt: skip
    swizzles = SWIZZLES | (GFX9_SWIZZLES if arch not in WAVE32 else {})
    texts |= {f"swizzle_{key}": f"ds_swizzle_b32 v3, v2 offset:{value}" for key, value in swizzles.items()}
    if arch == "gfx1201":
        texts["fetch"] = "ds_bpermute_fi_b32 v3, v1, v2 offset:64"
    if arch not in WAVE32:
        texts["agpr"] = "ds_bpermute_b32 a3, v1, a2 offset:64"
    if arch == "gfx950":
        texts["tr16"] = "ds_read_b64_tr_b16 v[4:5], v1 offset:8"
        texts["tr16_over"] = "ds_read_b64_tr_b16 v[0:1], v1 offset:8"
        texts["tr8"] = "ds_read_b64_tr_b8 v[4:5], v1 offset:8"
        texts["tr4"] = "ds_read_b64_tr_b4 v[4:5], v1 offset:8"
        texts["tr6"] = "ds_read_b96_tr_b6 v[4:6], v1 offset:8"
    return texts


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snippets]:
    return {arch: Snippets(arch, tmp_path_factory.mktemp(arch), texts_of(arch)) for arch in ARCHS}


def lanes_of(arch: str) -> int:
    return 32 if arch in WAVE32 else 64


def bits(mask: int) -> Array:
    return np.array([mask >> lane & 1 for lane in range(64)], bool)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("full", [True, False])
def test_bpermute(arch: str, full: bool, snippets: dict[str, Snippets]) -> None:
    """A lane reads any lane of the wave. Excess address bits are ignored, and a disabled lane gives zero."""
    rng = np.random.default_rng(1)
    lanes = lanes_of(arch)
    mask = 2**lanes - 1 if full else int(rng.integers(1, 2**lanes, dtype=np.uint64))
    address, data = (rng.integers(0, 2**32, 64).astype(np.uint32) for _ in range(2))
    source = ((address + np.uint32(64)) // 4 % lanes).astype(int)
    on = bits(mask)
    want = np.where(on[source], data[source], 0)
    after = snippets[arch].run("bpermute", v={1: address, 2: data, 3: 99}, exec=mask)
    assert np.array_equal(after.v[3], np.where(on, want, 99))
    assert lanes == 32 or (source[:32] >= 32).any()
    if arch == "gfx1201":
        after = snippets[arch].run("fetch", v={1: address, 2: data, 3: 99}, exec=mask)
        assert np.array_equal(after.v[3], np.where(on, data[source], 99))
    if arch not in WAVE32:
        after = snippets[arch].run("agpr", v={1: address, 258: data, 259: 99}, exec=mask)
        assert np.array_equal(after.v[259], np.where(on, want, 99))


@pytest.mark.parametrize("arch", ARCHS)
def test_permute(arch: str, snippets: dict[str, Snippets]) -> None:
    """Lanes push. If several push to one lane, the highest wins; a lane that receives nothing gets zero."""
    rng = np.random.default_rng(2)
    lanes = lanes_of(arch)
    for mask in (2**lanes - 1, int(rng.integers(1, 2**lanes, dtype=np.uint64))):
        address, data = (rng.integers(0, 2**32, 64).astype(np.uint32) for _ in range(2))
        on, want = bits(mask), np.zeros(64, np.uint32)
        for lane in np.flatnonzero(on):
            want[int(address[lane] + np.uint32(64)) // 4 % lanes] = data[lane]
        after = snippets[arch].run("permute", v={1: address, 2: data, 3: 99}, exec=mask)
        assert np.array_equal(after.v[3], np.where(on, want, 99))


def source_lane(key: str, lane: int) -> int:
    """The lane that each swizzle should read, computed from its name."""
    low, half = lane % 32, lane // 32 * 32
    kind, *words = key.split("_")
    if kind == "swap16":
        return half + (low ^ 16)
    if kind == "reverse8":
        return half + low // 8 * 8 + 7 - low % 8
    if kind.startswith("broadcast"):
        size = int(kind[9:])
        return half + low // size * size + int(words[0])
    if kind == "mask":  # bits from the top: 0, 1, kept, inverted, kept
        return half + (8 | (low & 4) | (~low & 2) | (low & 1))
    if kind == "plain":  # 0x3c71: and with 0x11, or with 0x03, xor with 0x0f
        return half + ((low & 0x11 | 0x03) ^ 0x0F)
    if kind == "quad":
        return lane // 4 * 4 + (3, 1, 0, 2)[lane % 4]
    if kind == "rotate":
        return half + (low + (int(words[1]) if words[0] == "0" else -int(words[1]))) % 32
    mask = int(words[0])
    reversed_bits = int(f"{low:05b}"[::-1], 2)
    return half + (reversed_bits >> mask.bit_count() | (low & mask))


@pytest.mark.parametrize("arch", ARCHS)
def test_swizzles(arch: str, snippets: dict[str, Snippets]) -> None:
    """Bit masks, quads, rotations and butterflies within 32 lanes; disabled lanes give zero."""
    rng = np.random.default_rng(3)
    lanes = lanes_of(arch)
    for key in (*SWIZZLES, *(GFX9_SWIZZLES if arch not in WAVE32 else ())):
        for mask in (2**lanes - 1, int(rng.integers(1, 2**lanes, dtype=np.uint64))):
            data, on = rng.integers(0, 2**32, 64).astype(np.uint32), bits(mask)
            source = np.array([source_lane(key, lane) for lane in range(64)])
            want = np.where(on[source], data[source], 0)
            after = snippets[arch].run(f"swizzle_{key}", v={2: data, 3: 99}, exec=mask)
            assert np.array_equal(after.v[3], np.where(on, want, 99)), key


TRANSPOSED = {"tr16": (16, 4, 2), "tr16_over": (16, 4, 2), "tr8": (8, 8, 2), "tr4": (4, 16, 2), "tr6": (6, 16, 3)}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_reads(name: str, snippets: dict[str, Snippets]) -> None:
    """16 lanes read a matrix of 16 columns row by row, and each receives a column."""
    width, rows, dwords = TRANSPOSED[name]
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 1 << width, (4, rows, 16)).astype(np.uint64)  # a matrix for each group of lanes
    group, row, column = np.indices(codes.shape)
    held = 32 * dwords // width  # elements in a lane's piece
    piece = row * (16 // held) + column // held  # lane of the group that reads the element
    words = pack(codes, 16 * group + piece, column % held, width, held)
    at = (rng.permutation(64) * 16).astype(np.uint32)
    memory = np.zeros(1040, np.uint8)
    for lane in range(64):
        memory[int(at[lane]) + 8 : int(at[lane]) + 8 + 4 * dwords] = words[:, lane].copy().view(np.uint8)
    after = snippets["gfx950"].run(name, v={1: at}, lds=memory)
    first = 0 if name.endswith("over") else 4
    got = element(after.v[first : first + dwords], 16 * group + column, row, width)
    assert np.array_equal(got, codes)


def test_transposed_reads_of_some_lanes(snippets: dict[str, Snippets]) -> None:
    """Lanes that are off keep their registers, and a row that they would read is zero to the others."""
    off = 0x0000000F_FFFF0000
    memory = np.arange(1, 521, dtype=np.uint16)
    after = snippets["gfx950"].run(
        "tr16",
        v={1: np.arange(64, dtype=np.uint32) * 8, 4: 99, 5: 98},
        exec=~off & (1 << 64) - 1,
        lds=memory.view(np.uint8),
    )
    rows = memory[4 : 4 + 256].reshape(4, 4, 16).astype(np.uint32)
    rows[2, 0] = 0  # of lanes 32 to 35
    want = np.stack([rows[:, 0] | rows[:, 1] << 16, rows[:, 2] | rows[:, 3] << 16]).reshape(2, 64)
    assert np.array_equal(after.v[4:6], np.where(bits(off), np.array([[99], [98]]), want))


def element(words: Array, lane: Array, index: Array, width: int) -> Array:
    """An element, which may span two dwords."""
    padded = np.vstack([words, np.zeros((1, 64), np.uint32)]).astype(np.uint64)
    bit = index * width
    both = padded[bit // 32, lane] | padded[bit // 32 + 1, lane] << np.uint64(32)
    return np.asarray(both >> (bit % 32).astype(np.uint64) & np.uint64((1 << width) - 1))


@pytest.mark.parametrize("arch", ARCHS)
def test_append_and_consume(arch: str, snippets: dict[str, Snippets]) -> None:
    """The counter at M0 + offset changes by the number of active lanes, which all receive its old value."""
    memory = np.arange(64, dtype=np.uint32)
    mask = 0x8F0F
    for name, sign in (("append", 1), ("consume", -1)):
        after = snippets[arch].run(name, v={3: 99}, exec=mask, m0=0x10, lds=memory.view(np.uint8))
        want = memory.copy()
        want[6] = (6 + sign * mask.bit_count()) % 2**32
        assert np.array_equal(after.lds.view(np.uint32), want)
        assert np.array_equal(after.v[3], np.where(bits(mask), 6, 99))


@pytest.mark.parametrize("arch", ARCHS)
def test_definedness_moves_with_the_data(arch: str, snippets: dict[str, Snippets]) -> None:
    """An undefined lane is a finding only if it is fetched and its value decides something."""
    lanes = lanes_of(arch)
    defined = np.full(512, 2**64 - 1, np.uint64)
    defined[2] = np.uint64(2**64 - 1 - (1 << 5))
    same, five = np.arange(64) * 4, np.where(np.arange(64) == 5, 24, np.arange(64) * 4)
    full = 2**lanes - 1
    after = snippets[arch].run("used", v={1: same}, track=True, defined=defined)
    assert [(f["kind"], f["lane"]) for f in after.findings] == [("uninitialised-register", 5)]
    assert not snippets[arch].run("used", v={1: five}, track=True, defined=defined).findings
    defined[2], defined[1] = np.uint64(2**64 - 1), np.uint64(full - 4)
    after = snippets[arch].run("used", v={1: same}, track=True, defined=defined)
    assert [(f["kind"], f["lane"]) for f in after.findings] == [("uninitialised-register", 2)]
    after = snippets[arch].run("unwaited", v={1: same}, track=True)
    assert [f["kind"] for f in after.findings] == ["missing-wait"]


def test_waves_of_64_on_rdna_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"ds_bpermute_b32.*64 lanes"):
        Snippets("gfx1201", tmp_path, {"wide": "ds_bpermute_b32 v3, v1, v2"}, wave64=True).run("wide")
