"""Moves, selects by masks, sums with carry masks, and transfers between lanes, scalars and registers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.support.integer_cases import ALL, CDNA, EXEC, RDNA, signed, words

M32, M64 = 2**32 - 1, 2**64 - 1
Lanes = npt.NDArray[np.uint32]


def mask_name(arch: str, number: int) -> str:
    """The register that holds a lane mask, in the assembler's spelling."""
    return f"s[{number}:{number + 1}]" if arch in CDNA else f"s{number}"


def vcc(arch: str) -> str:
    """VCC in the assembler's spelling."""
    return "vcc" if arch in CDNA else "vcc_lo"


def on(mask: int) -> npt.NDArray[np.bool_]:
    """The mask as booleans, lane by lane."""
    return np.array([mask >> lane & 1 for lane in range(64)], bool)


def bits(lanes: Any) -> int:
    """The mask of the lanes that are true."""
    return sum(1 << k for k, x in enumerate(lanes) if x)


def same(got: Any, want: Any, what: str = "") -> None:
    """Assert that all 64 lanes have the wanted values."""
    expected = np.broadcast_to(np.asarray(want), 64).astype(np.uint64)
    wrong = np.flatnonzero(np.asarray(got, np.uint64) != expected)
    assert not len(wrong), f"{what} lane {wrong[0]}: {int(got[wrong[0]]):#x}, not {int(expected[wrong[0]]):#x}"


@pytest.mark.parametrize("arch", ALL)
def test_moves(arch: str, tmp_path: Path) -> None:
    texts = {
        "register": "v_mov_b32 v1, v2",
        "scalar": "v_mov_b32 v1, s3",
        "literal": "v_mov_b32 v1, 0x12345678",
        "inline": "v_mov_b32 v1, -5",
        "real": "v_mov_b32 v1, 2.0",
        "mask": f"v_mov_b32 v1, {vcc(arch) if arch in RDNA else 'vcc_lo'}",
        "nop": "v_nop\n" + ("v_clrexcp" if arch in CDNA else "v_pipeflush"),
        "swap": "v_swap_b32 v1, v2",
    }
    if arch in ("gfx942", "gfx950"):
        texts |= {"wide": "v_mov_b64 v[4:5], v[6:7]", "wide_scalar": "v_mov_b64 v[4:5], s[6:7]"}
        texts |= {"overlap": "v_mov_b64 v[4:5], -2"}
    if arch in CDNA:
        texts |= {"acc": "v_accvgpr_write_b32 a3, v2\nv_accvgpr_mov_b32 a9, a3\nv_accvgpr_read_b32 v1, a9"}
        texts |= {"acc_constant": "v_accvgpr_write_b32 a3, 7"}
    run = Snippets(arch, tmp_path, texts)
    exec_ = EXEC & ((1 << run.lanes) - 1)
    v = words(1, 12, 64)
    state: dict[str, Any] = {"v": dict(enumerate(v)), "s": {3: 99, 6: 0xAAAA, 7: 0xBBBB}, "exec": exec_, "vcc": 0x1234}

    def moved(value: Any, old: Any) -> Any:
        return np.where(on(exec_), value, old)

    for name, value in {"register": v[2], "scalar": 99, "literal": 0x12345678, "inline": M32 - 4, "real": 0x40000000,
                        "mask": 0x1234}.items():  # fmt: skip
        same(run.run(name, **state).v[1], moved(value, v[1]), name)
    same(run.run("nop", **state).v[1], v[1])
    after = run.run("swap", **state)
    same(after.v[1], moved(v[2], v[1]))
    same(after.v[2], moved(v[1], v[2]))
    if arch in ("gfx942", "gfx950"):
        for name, (low, high) in {
            "wide": (v[6], v[7]),
            "wide_scalar": (0xAAAA, 0xBBBB),
            "overlap": (M32 - 1, M32),
        }.items():
            after = run.run(name, **state)
            same(after.v[4], moved(low, v[4]), name)
            same(after.v[5], moved(high, v[5]), name)
    if arch in CDNA:
        after = run.run(
            "acc",
            **state,
        )
        same(after.v[259], moved(v[2], 0))
        same(after.v[1], moved(v[2], v[1]))
        same(run.run("acc_constant", **state).v[259], moved(7, 0))


def test_true16_moves(tmp_path: Path) -> None:
    """RDNA3's moves between register halves keep the other half."""
    texts = {"ll": "v_mov_b16 v1.l, v2.l", "hl": "v_mov_b16 v1.h, v2.l", "lh": "v_mov_b16 v1.l, v2.h",
             "scalar": "v_mov_b16 v1.h, s3", "one": "v_mov_b16 v1.l, 1.0", "swap": "v_swap_b16 v1.h, v2.l",
             "within": "v_swap_b16 v1.h, v1.l"}  # fmt: skip
    run = Snippets("gfx1100", tmp_path, texts)
    v = words(2, 4, 64)
    a, b = v[1], v[2]
    low, high = np.uint32(0xFFFF), np.uint32(16)
    want = {
        "ll": a & ~low | b & low, "hl": a & low | b << high, "lh": a & ~low | b >> high, "scalar": a & low | 0xBEEF0000,
        "one": a & ~low | 0x3C00, "swap": a & low | b << high, "within": a << high | a >> high,
    }  # fmt: skip
    for name, value in want.items():
        after = run.run(name, v=dict(enumerate(v)), s={3: 0xDEADBEEF}, exec=0xFF00FF0F)
        same(after.v[1], np.where(on(0xFF00FF0F), value, a), name)
    same(run.run("swap", v=dict(enumerate(v))).v[2], np.where(on(M32), b & ~low | a >> high, b))


CARRIES: dict[str, tuple[tuple[str, ...], bool, Callable[[int, int, int], int]]] = {
    "v_add_co_u32": (ALL, False, lambda a, b, c: a + b),
    "v_sub_co_u32": (ALL, False, lambda a, b, c: a - b),
    "v_subrev_co_u32": (ALL, False, lambda a, b, c: b - a),
    "v_addc_co_u32": (CDNA, True, lambda a, b, c: a + b + c),
    "v_subb_co_u32": (CDNA, True, lambda a, b, c: a - b - c),
    "v_subbrev_co_u32": (CDNA, True, lambda a, b, c: b - a - c),
    "v_add_co_ci_u32": (RDNA, True, lambda a, b, c: a + b + c),
    "v_sub_co_ci_u32": (RDNA, True, lambda a, b, c: a - b - c),
    "v_subrev_co_ci_u32": (RDNA, True, lambda a, b, c: b - a - c),
}


@pytest.mark.parametrize("arch", ALL)
def test_sums_with_carry(arch: str, tmp_path: Path) -> None:
    """The carry out is zero in disabled lanes. The carry in is a lane mask, and both may use the same register."""
    texts = {}
    for name, (archs, takes, _) in CARRIES.items():
        if arch in archs:
            into = f", {mask_name(arch, 20)}" if takes else ""
            texts[name] = f"{name}_e64 v1, {mask_name(arch, 10)}, v2, v3{into}"
            if takes:
                texts[name + "_e32"] = f"{name}_e32 v1, {vcc(arch)}, v2, v3, {vcc(arch)}"
    run = Snippets(arch, tmp_path, texts)
    full = (1 << run.lanes) - 1
    rng = random.Random(4)
    v = words(5, 4, 64)
    v[3] = np.where(on(rng.getrandbits(64)), v[2], v[3])
    for name in texts:
        short = name.endswith("_e32")
        formula = CARRIES[name.removesuffix("_e32")][2]
        into, exec_ = rng.getrandbits(64) & full, EXEC & full
        after = run.run(
            name, v=dict(enumerate(v)), s={20: into & M32, 21: into >> 32, 10: M32, 11: M32}, exec=exec_, vcc=into
        )
        exact = [formula(int(a), int(b), into >> k & 1) for k, (a, b) in enumerate(zip(v[2], v[3], strict=True))]
        same(after.v[1], np.where(on(exec_), [x & M32 for x in exact], v[1]), name)
        want = bits(not 0 <= x <= M32 for x in exact) & exec_
        assert (after.vcc if short else after.mask(10)) == want, name


@pytest.mark.parametrize("arch", ALL)
def test_products_of_64_bits(arch: str, tmp_path: Path) -> None:
    names = ("v_mad_co_u64_u32", "v_mad_co_i64_i32") if arch == "gfx1201" else ("v_mad_u64_u32", "v_mad_i64_i32")
    texts = {name: f"{name} v[4:5], {mask_name(arch, 10)}, v2, v3, v[6:7]" for name in names}
    texts["in_place"] = f"{names[0]} v[6:7], {mask_name(arch, 10)}, v2, v3, v[6:7]"
    if arch in RDNA:
        texts["null"] = f"{names[0]} v[4:5], null, v2, v3, v[6:7]"
    run = Snippets(arch, tmp_path, texts)
    exec_ = EXEC & ((1 << run.lanes) - 1)
    for seed in range(3):
        v = words(seed + 30, 8, 64)
        for name in texts:
            sign = "i64" in name
            after = run.run(name, v=dict(enumerate(v)), exec=exec_)
            low = 6 if name == "in_place" else 4
            got = after.v[low].astype(np.uint64) | after.v[low + 1].astype(np.uint64) << np.uint64(32)
            want, carry = [], []
            for lane in range(64):
                a, b, c = int(v[2][lane]), int(v[3][lane]), int(v[6][lane]) | int(v[7][lane]) << 32
                total = signed(a, 32) * signed(b, 32) + signed(c, 64) if sign else a * b + c
                on_ = exec_ >> lane & 1
                want.append(total & M64 if on_ else int(v[low][lane]) | int(v[low + 1][lane]) << 32)
                carry.append(on_ and total >> 64 & 1)
            same(got, np.array(want, np.uint64), name)
            if name != "null":
                assert after.mask(10) == bits(carry), name


@pytest.mark.parametrize("arch", ALL)
def test_selects(arch: str, tmp_path: Path) -> None:
    texts = {
        "short": f"v_cndmask_b32_e32 v1, v2, v3, {vcc(arch)}",
        "long": f"v_cndmask_b32_e64 v1, v2, v3, {mask_name(arch, 10)}",
        "constant": f"v_cndmask_b32_e64 v1, 0, 1.0, {mask_name(arch, 10)}",
        "modified": f"v_cndmask_b32_e64 v1, -v2, |v3|, {mask_name(arch, 10)}",
        "both": f"v_cndmask_b32_e64 v1, -|v2|, v3, {mask_name(arch, 10)}",
    }
    if arch == "gfx1100":
        texts["half"] = "v_cndmask_b16 v1.h, v2.l, v3.h, s10"
    if arch == "gfx1201":
        texts["half_fake"] = "v_cndmask_b16 v1, v2, v3, s10"
    run = Snippets(arch, tmp_path, texts)
    exec_, mask = EXEC & ((1 << run.lanes) - 1), 0x1357_9BDF_0246_8ACE & ((1 << run.lanes) - 1)
    v = words(8, 4, 64)
    sign, low = np.uint32(0x80000000), np.uint32(0xFFFF)
    chosen = on(mask)
    want = {
        "short": np.where(chosen, v[3], v[2]), "long": np.where(chosen, v[3], v[2]),
        "constant": np.where(chosen, 0x3F800000, 0), "modified": np.where(chosen, v[3] & ~sign, v[2] ^ sign),
        "both": np.where(chosen, v[3], v[2] | sign),
        "half": v[1] & low | np.where(chosen, v[3] >> np.uint32(16), v[2] & low) << np.uint32(16),
        "half_fake": v[1] & ~low | np.where(chosen, v[3], v[2]) & low,
    }  # fmt: skip
    for name in texts:
        after = run.run(name, v=dict(enumerate(v)), s={10: mask & M32, 11: mask >> 32}, exec=exec_, vcc=mask)
        same(after.v[1], np.where(on(exec_), want[name], v[1]), name)


@pytest.mark.parametrize("arch", ALL)
def test_lanes_and_scalars(arch: str, tmp_path: Path) -> None:
    texts = {
        "first": "v_readfirstlane_b32 s5, v2",
        "read": "v_readlane_b32 s5, v2, s6",
        "read_constant": "v_readlane_b32 s5, v2, 9",
        "write": f"v_writelane_b32 v1, {43 if arch in CDNA else 's7'}, s6",
        "write_constant": "v_writelane_b32 v1, 17, 3",
        "write_m0": "v_writelane_b32 v1, s7, m0",
    }
    run = Snippets(arch, tmp_path, texts)
    v = words(9, 3, 64)
    state: dict[str, Any] = {"v": dict(enumerate(v)), "m0": 21}
    assert run.run("first", **state, exec=0xFF000).s[5] == v[2][12]
    assert run.run("first", **state, exec=0).s[5] == v[2][0], "no lane is on: lane 0"
    for index in (0, 5, 31, 63, 64, 70, 0xFFFFFFFF):
        at = index % run.lanes
        assert run.run("read", **state, s={6: index}, exec=0).s[5] == v[2][at], "EXEC does not matter"
        after = run.run("write", **state, s={6: index, 7: 43}, exec=0)
        same(after.v[1], np.where(np.arange(64) == at, 43, v[1]))
    assert run.run("read_constant", **state).s[5] == v[2][9]
    same(run.run("write_constant", **state).v[1], np.where(np.arange(64) == 3, 17, v[1]))
    same(run.run("write_m0", **state, s={7: 5}).v[1], np.where(np.arange(64) == 21, 5, v[1]))


@pytest.mark.parametrize(("arch", "wave64"), [(a, False) for a in ALL] + [(a, True) for a in RDNA])
def test_lanes_before_this_one(arch: str, wave64: bool, tmp_path: Path) -> None:
    """v_mbcnt with scalar masks, with a register's bits, and with a start value."""
    texts = {
        "all": "v_mbcnt_lo_u32_b32 v1, -1, 0\nv_mbcnt_hi_u32_b32 v1, -1, v1",
        "mask": "v_mbcnt_lo_u32_b32 v1, s4, 0\nv_mbcnt_hi_u32_b32 v1, s5, v1",
        "lanes": "v_mbcnt_lo_u32_b32 v1, v2, v3",
    }
    run = Snippets(arch, tmp_path, texts, wave64=wave64)
    lanes = np.arange(64)
    live = lanes < run.lanes
    same(np.where(live, run.run("all").v[1], 0), np.where(live, lanes, 0))
    mask = 0x8421_F00F_A5A5_1234
    want = [(mask & ((1 << lane) - 1)).bit_count() for lane in range(64)]
    after = run.run("mask", s={4: mask & M32, 5: mask >> 32})
    same(np.where(live, after.v[1], 0), np.where(live, want, 0))
    v = words(11, 4, 64)
    own = [(int(v[2][lane]) & ((1 << min(lane, 32)) - 1)).bit_count() + int(v[3][lane]) & M32 for lane in range(64)]
    same(np.where(live, run.run("lanes", v=dict(enumerate(v))).v[1], 0), np.where(live, own, 0))


def gathered(
    data: Lanes, old: Lanes, exec_: int, lanes: int, fetch: bool, zero: bool, source: Callable[[int], int]
) -> Lanes:
    """D[l] = data[source(l)], with the rules for disabled lanes."""
    out = old.copy()
    for lane in range(lanes):
        if exec_ >> lane & 1:
            at = source(lane)
            if fetch or exec_ >> at & 1:
                out[lane] = data[at]
            elif zero:
                out[lane] = 0
    return out


@pytest.mark.parametrize("arch", RDNA)
@pytest.mark.parametrize("wave64", [False, True])
def test_permutes_in_rows(arch: str, wave64: bool, tmp_path: Path) -> None:
    texts = {}
    for name in ("v_permlane16_b32", "v_permlanex16_b32"):
        for bits_ in range(4):
            texts[f"{name}_{bits_}"] = f"{name} v1, v2, s4, s5 op_sel:[{bits_ & 1},{bits_ >> 1}]"
    if arch == "gfx1201":
        texts |= {"v_permlane16_var_b32_0": "v_permlane16_var_b32 v1, v2, v3"}
        texts |= {"v_permlanex16_var_b32_1": "v_permlanex16_var_b32 v1, v2, v3 op_sel:[1,0]"}
    texts["v_permlane64_b32"] = "v_permlane64_b32 v1, v2"
    run = Snippets(arch, tmp_path, texts, wave64=wave64)
    v = words(12, 4, 64)
    chosen = 0xFEDC_0123_89AB_5566
    exec_ = EXEC & ((1 << run.lanes) - 1)
    for name in texts:
        after = run.run(name, v=dict(enumerate(v)), s={4: chosen & M32, 5: chosen >> 32}, exec=exec_)
        if name == "v_permlane64_b32":
            want = gathered(v[2], v[1], exec_, run.lanes, True, False, lambda lane: lane ^ 32) if wave64 else v[1]
            same(after.v[1], want, name)
            continue
        option, cross = int(name[-1]), 16 if "x16" in name else 0

        def source(lane: int, cross: int = cross, name: str = name) -> int:
            which = int(v[3][lane]) & 15 if "var" in name else chosen >> 4 * (lane % 16) & 15
            return (lane - lane % 16 ^ cross) + which

        same(after.v[1], gathered(v[2], v[1], exec_, run.lanes, bool(option & 1), bool(option & 2), source), name)


@pytest.mark.parametrize("options", ["", "bound_ctrl:1", "fi:1", "bound_ctrl:1 fi:1"])
def test_swaps_of_rows(options: str, tmp_path: Path) -> None:
    """CDNA4: rows 1 and 3 of the first register swap with rows 0 and 2 of the second, or halves of the wave swap."""
    suffix = "_e64" if options else ""
    texts = {f"r{row}": f"v_permlane{row}_swap_b32{suffix} v1, v2 {options}" for row in (16, 32)}
    run = Snippets("gfx950", tmp_path, texts)
    v = words(13, 3, 64)
    for row in (16, 32):
        for exec_ in (M64, EXEC):
            after = run.run(f"r{row}", v=dict(enumerate(v)), exec=exec_)
            want = [x.copy() for x in v]
            for lane in range(64):
                mine, register = (1, v[2]) if lane & row else (2, v[1])
                there = "fi" in options or exec_ >> (lane ^ row) & 1
                if exec_ >> lane & 1 and (there or "bound_ctrl" in options):
                    want[mine][lane] = register[lane ^ row] if there else 0
            same(after.v[1], want[1], f"{row} {options}")
            same(after.v[2], want[2], f"{row} {options}")


@pytest.mark.parametrize("arch", RDNA)
def test_registers_through_m0(arch: str, tmp_path: Path) -> None:
    texts = {
        "movrels": "v_movrels_b32 v1, v8",
        "movreld": "v_movreld_b32 v1, v8",
        "movreld_scalar": "v_movreld_b32 v1, s3",
        "movrelsd": "v_movrelsd_b32 v1, v8",
        "movrelsd_2": "v_movrelsd_2_b32 v1, v8",
        "swaprel": "v_swaprel_b32 v1, v8",
    }
    run = Snippets(arch, tmp_path, texts)
    v = words(14, 20, 64)
    exec_ = 0xF0F0FF35
    state: dict[str, Any] = {"v": dict(enumerate(v)), "exec": exec_, "s": {3: 77}}
    for name, m0, to, value in (
        ("movrels", 3, 1, v[11]), ("movreld", 3, 4, v[8]), ("movreld_scalar", 5, 6, 77), ("movrelsd", 3, 4, v[11]),
        ("movrelsd_2", 2 << 16 | 6, 3, v[14]), ("swaprel", 2 << 16 | 6, 3, v[14]), ("swaprel", 2 << 16 | 6, 14, v[3]),
    ):  # fmt: skip
        same(run.run(name, **state, m0=m0).v[to], np.where(on(exec_), value, v[to]), name)
    with pytest.raises(Fault, match="M0 leads beyond"):
        run.run("movrels", **state, m0=250)
    defined = np.full(512, M32, np.uint64)
    defined[4] = 0
    tracked = run.run("movreld", **state, m0=3, track=True, defined=defined)
    assert int(tracked.defined[4]) & M32 == exec_, "the register that was written is defined"
