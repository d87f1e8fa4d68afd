"""Operands other than whole registers: DPP, DPP8, SDWA, op_sel, halves, and the other half of a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.harness import Snippets
from fmha_amdgpu_emu_tests.support.integer_cases import ALL, CDNA, EXEC, RDNA, words

Lanes = npt.NDArray[np.uint32]
M32 = 2**32 - 1

Source = Callable[[int, int], int]
"""Maps a lane and the number of lanes to the lane that is read; -1 means none."""


def within(step: int) -> Source:
    """row_shl (positive) and row_shr (negative), limited to the row of 16."""
    return lambda lane, n: lane + step if 0 <= lane % 16 + step < 16 else -1


def turned(by: int) -> Source:
    """row_ror: a rotation within the row."""
    return lambda lane, n: lane - lane % 16 + (lane - by) % 16


CONTROLS: dict[str, tuple[tuple[str, ...], Source]] = {
    "quad_perm:[3,1,0,2]": (ALL, lambda lane, n: lane - lane % 4 + (3, 1, 0, 2)[lane % 4]),
    "row_shl:1": (ALL, within(1)),
    "row_shl:15": (ALL, within(15)),
    "row_shr:3": (ALL, within(-3)),
    "row_ror:5": (ALL, turned(5)),
    "row_mirror": (ALL, lambda lane, n: lane - lane % 16 + 15 - lane % 16),
    "row_half_mirror": (ALL, lambda lane, n: lane - lane % 8 + 7 - lane % 8),
    "wave_shl:1": (CDNA, lambda lane, n: lane + 1 if lane + 1 < n else -1),
    "wave_rol:1": (CDNA, lambda lane, n: (lane + 1) % n),
    "wave_shr:1": (CDNA, lambda lane, n: lane - 1),
    "wave_ror:1": (CDNA, lambda lane, n: (lane - 1) % n),
    "row_bcast:15": (CDNA, lambda lane, n: lane - lane % 16 - 1),
    "row_bcast:31": (CDNA, lambda lane, n: 31 if lane >= 32 else -1),
    "row_newbcast:6": (CDNA, lambda lane, n: lane - lane % 16 + 6),
    "row_share:9": (RDNA, lambda lane, n: lane - lane % 16 + 9),
    "row_xmask:6": (RDNA, lambda lane, n: lane ^ 6),
    "dpp8:[7,0,2,2,5,1,6,3]": (RDNA, lambda lane, n: lane - lane % 8 + (7, 0, 2, 2, 5, 1, 6, 3)[lane % 8]),
}


def fetched(
    data: Lanes, exec_: int, lanes: int, source: Source, *, zero: bool, fi: bool, rows: int = 15, banks: int = 15
) -> tuple[Lanes, npt.NDArray[np.bool_]]:
    """The value that each lane reads, and whether the lane is written."""
    out, written = np.zeros(64, np.uint32), np.zeros(64, bool)
    for lane in range(lanes):
        at = source(lane, lanes)
        there = at >= 0 and (fi or bool(exec_ >> at & 1))
        out[lane] = data[at] if there else 0
        allowed = rows >> lane // 16 & 1 and banks >> lane // 4 % 4 & 1
        written[lane] = bool(exec_ >> lane & 1 and allowed and (there or zero))
    return out, written


@pytest.fixture(params=[*((a, False) for a in ALL), *((a, True) for a in RDNA)], ids=lambda p: f"{p[0]}-{p[1]}")
def wave(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """The architecture, and whether gfx11 and gfx12 run 64 lanes."""
    return request.param  # type: ignore[no-any-return]


def test_dpp_controls(wave: tuple[str, bool], tmp_path: Path) -> None:
    """Every control with row and bank masks, bound_ctrl and fi; the second source stays in its lane."""
    arch, wave64 = wave
    add = "v_add_u32" if arch in CDNA else "v_add_nc_u32"
    forms: dict[str, dict[str, Any]] = {"": {}, "bound_ctrl:1": {"zero": True}}
    forms["row_mask:0x5 bank_mask:0x6"] = {"rows": 5, "banks": 6}
    if arch in RDNA:
        forms |= {"fi:1": {"fi": True}, "bound_ctrl:1 fi:1": {"zero": True, "fi": True}}
    texts, wants = {}, {}
    for k, (control, (archs, source)) in enumerate(CONTROLS.items()):
        if arch not in archs:
            continue
        for j, (form, options) in enumerate(forms.items()):
            eight = control.startswith("dpp8")
            if eight and ("bound" in form or "mask" in form):
                continue
            masks = "" if eight or "mask" in form else "row_mask:0xf bank_mask:0xf"
            texts[f"c{k}_{j}"] = f"{add}_dpp v1, v2, v3 {control} {masks} {form}"
            wants[f"c{k}_{j}"] = (source, {"zero": eight, "fi": False} | options, f"{control} {form}")
    run = Snippets(arch, tmp_path, texts, wave64=wave64)
    v = words(21, 4, 64)
    for exec_ in (M32 << 32 | M32, EXEC):
        exec_ &= (1 << run.lanes) - 1
        for name, (source, options, shown) in wants.items():
            values, written = fetched(v[2], exec_, run.lanes, source, **options)
            got = run.run(name, v=dict(enumerate(v)), exec=exec_).v[1]
            assert np.array_equal(got, np.where(written, values + v[3], v[1])), f"{arch} {shown} EXEC {exec_:#x}"


@pytest.mark.parametrize("arch", ALL)
def test_dpp_of_moves_and_comparisons(arch: str, tmp_path: Path) -> None:
    texts = {"move": "v_mov_b32_dpp v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf"}
    if arch in ("gfx942", "gfx950"):
        texts["wide"] = "v_mov_b64_dpp v[4:5], v[6:7] row_newbcast:3 row_mask:0xf bank_mask:0xf"
    if arch in RDNA:
        texts["compare"] = "v_cmp_lt_u32_e64_dpp s4, v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf"
        texts["half"] = (
            "v_mov_b16_dpp v1.h, v2.l row_shr:1 row_mask:0xf bank_mask:0xf" if arch == "gfx1100" else "s_nop 0"
        )
    run = Snippets(arch, tmp_path, texts)
    full = (1 << run.lanes) - 1
    v = words(22, 8, 64)
    values, written = fetched(v[1], full, run.lanes, within(-1), zero=False, fi=False)
    assert np.array_equal(run.run("move", v=dict(enumerate(v))).v[1], np.where(written, values, v[1]))
    if "wide" in texts:
        after = run.run("wide", v=dict(enumerate(v)))
        for k in range(2):
            assert np.array_equal(after.v[4 + k], np.repeat(v[6 + k].reshape(4, 16)[:, 3], 16))
    if "compare" in texts:
        values, written = fetched(v[2], full, run.lanes, within(-1), zero=False, fi=False)
        want = sum(1 << int(k) for k in np.flatnonzero((values < v[3]) & written))
        assert run.run("compare", v=dict(enumerate(v))).mask(4) == want
    if arch == "gfx1100":
        values, written = fetched(v[2], full, run.lanes, within(-1), zero=False, fi=False)
        want16 = np.where(written, v[1] & np.uint32(0xFFFF) | values << np.uint32(16), v[1])
        assert np.array_equal(run.run("half", v=dict(enumerate(v))).v[1], want16)


SELECTS: dict[str, tuple[int, int]] = {
    "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
    "DWORD": (0, 32),
}  # fmt: skip


def selected(x: int, select: str, sext: bool) -> int:
    """An SDWA source after its selection."""
    at, size = SELECTS[select]
    value = x >> at & ((1 << size) - 1)
    return (value - (1 << size) if sext and value >> (size - 1) else value) & M32


def placed(old: int, value: int, select: str, unused: str) -> int:
    """The register after an SDWA destination is written."""
    at, size = SELECTS[select]
    mask = ((1 << size) - 1) << at
    if unused == "UNUSED_PRESERVE":
        return old & ~mask | value << at & mask
    ones = (M32 << (at + size)) & M32 if unused == "UNUSED_SEXT" and value >> (size - 1) & 1 else 0
    return value << at & mask | ones


def test_sdwa(tmp_path: Path) -> None:
    """Every selection of sources and destinations on gfx90a and gfx942 (gfx950 has none)."""
    for arch in ("gfx90a", "gfx942"):
        texts, wants = {}, {}
        names = list(SELECTS)
        for k, dst in enumerate(names):
            for j, unused in enumerate(("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")):
                a, b = names[(k + j) % 7], names[(2 * k + 3 * j + 1) % 7]
                first, second = (k + j) % 2 == 0, j == 1
                operands = f"{'sext(v2)' if first else 'v2'}, {'sext(v3)' if second else 'v3'}"
                texts[f"s{k}_{j}"] = (
                    f"v_add_u32_sdwa v1, {operands} dst_sel:{dst} dst_unused:{unused} src0_sel:{a} src1_sel:{b}"
                )
                wants[f"s{k}_{j}"] = (dst, unused, (a, first), (b, second))
        texts["half"] = "v_add_u16_sdwa v1, v2, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_2"
        texts["half_up"] = (
            "v_add_u16_sdwa v1, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:DWORD"
        )
        texts["move"] = "v_mov_b32_sdwa v1, sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1"
        texts["scalar"] = "v_and_b32_sdwa v1, s4, v3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD"
        texts["compare"] = "v_cmp_eq_u32_sdwa s[4:5], v2, v3 src0_sel:BYTE_0 src1_sel:BYTE_3"
        run = Snippets(arch, tmp_path, texts)
        v = words(23, 4, 64)
        state: dict[str, Any] = {"v": dict(enumerate(v)), "exec": EXEC, "s": {4: 0xABCD1234}}

        def expect(
            name: str, formula: Callable[[int, int, int], int], run: Snippets = run, v: Lanes = v, state: Any = state
        ) -> None:
            got = run.run(name, **state).v[1]
            for lane in range(64):
                old, a, b = (int(row[lane]) for row in v[1:4])
                want = formula(old, a, b) & M32 if EXEC >> lane & 1 else old
                assert int(got[lane]) == want, f"{texts[name]}: lane {lane} {int(got[lane]):#x}, not {want:#x}"  # noqa: B023

        for name, (dst, unused, first_, second_) in wants.items():
            expect(
                name,
                lambda o, a, b, d=dst, u=unused, f=first_, s=second_: placed(
                    o, selected(a, *f) + selected(b, *s) & M32, d, u
                ),
            )
        expect("half", lambda o, a, b: (a >> 16) + (b >> 16 & 0xFF) & 0xFFFF)
        expect("half_up", lambda o, a, b: o & 0xFFFF | ((a >> 16) + b & 0xFFFF) << 16)
        expect("move", lambda o, a, b: selected(a, "BYTE_1", True))
        expect("scalar", lambda o, a, b: 0xABCD & b)
        after = run.run("compare", **state)
        assert after.mask(4) == sum(1 << int(k) for k in np.flatnonzero((v[2] & 0xFF) == v[3] >> 24)) & EXEC


@pytest.mark.parametrize("arch", ALL)
def test_op_sel(arch: str, tmp_path: Path) -> None:
    """op_sel selects halves of the sources and of the destination, whose other half is kept."""
    texts, wants = {}, {}
    add = "v_add_i16" if arch in CDNA else "v_add_nc_i16"
    for bits in range(8):
        chosen = [bits & 1, bits >> 1 & 1, bits >> 2 & 1]
        if arch == "gfx1100":
            names = [f"v{n}.{'lh'[h]}" for n, h in zip((1, 2, 3), (chosen[2], *chosen[:2]), strict=True)]
            texts[f"add{bits}"] = f"{add} {', '.join(names)}"
        else:
            texts[f"add{bits}"] = f"{add} v1, v2, v3 op_sel:[{chosen[0]},{chosen[1]},{chosen[2]}]"
        wants[f"add{bits}"] = chosen
    for bits in range(4):
        chosen = [bits & 1, bits >> 1, 0, 0]
        if arch == "gfx1100":
            texts[f"mad{bits}"] = f"v_mad_u32_u16 v1, v2.{'lh'[chosen[0]]}, v3.{'lh'[chosen[1]]}, v4"
        else:
            texts[f"mad{bits}"] = f"v_mad_u32_u16 v1, v2, v3, v4 op_sel:[{chosen[0]},{chosen[1]},0,0]"
    if arch in RDNA:
        texts["scalar"] = f"{add} v1{'.h' if arch == 'gfx1100' else ''}, s4, s4 op_sel:[1,0,1]"
    run = Snippets(arch, tmp_path, texts)
    v = words(24, 5, 64)
    on = np.array([EXEC >> k & 1 for k in range(64)], bool) & (np.arange(64) < run.lanes)
    state: dict[str, Any] = {"v": dict(enumerate(v)), "exec": EXEC & ((1 << run.lanes) - 1), "s": {4: 0x00050007}}
    low, sixteen = np.uint32(0xFFFF), np.uint32(16)

    def half(row: Lanes, upper: int) -> Lanes:
        return row >> sixteen if upper else row & low

    def put(value: Any, upper: int) -> Lanes:
        value = np.asarray(value).astype(np.uint32)
        return v[1] & low | value << sixteen if upper else v[1] & ~low | value & low  # type: ignore[no-any-return]

    for name, chosen in wants.items():
        want = put(half(v[2], chosen[0]) + half(v[3], chosen[1]), chosen[2])
        assert np.array_equal(run.run(name, **state).v[1], np.where(on, want, v[1])), texts[name]
    for bits in range(4):
        want = half(v[2], bits & 1) * half(v[3], bits >> 1) + v[4]
        assert np.array_equal(run.run(f"mad{bits}", **state).v[1], np.where(on, want, v[1])), texts[f"mad{bits}"]
    if arch in RDNA:
        assert np.array_equal(run.run("scalar", **state).v[1], np.where(on, put(12, 1), v[1]))


def test_cdna_is_not_true16(tmp_path: Path) -> None:
    """16-bit VOP1, VOP2 and VOPC on CDNA read the lower halves of whole registers and clear the upper halves."""
    for arch in CDNA:
        texts = {
            "add": "v_add_u16_e32 v1, v2, v200", "long": "v_add_u16_e64 v1, v2, v200",
            "shift": "v_lshlrev_b16_e32 v1, 4, v200", "keep": "v_add_i16 v1, v2, v200",
            "compare": "v_cmp_lt_u16_e32 vcc, v2, v200",
            "dpp": "v_add_u16_dpp v1, v2, v200 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
        }  # fmt: skip
        run = Snippets(arch, tmp_path, texts)
        v = words(25, 3, 64)
        rows = {1: v[0], 2: v[1], 200: v[2]}
        total = v[1] + v[2] & np.uint32(0xFFFF)
        assert np.array_equal(run.run("add", v=rows).v[1], total)
        assert np.array_equal(run.run("long", v=rows).v[1], total)
        assert np.array_equal(run.run("dpp", v=rows).v[1], total)
        assert np.array_equal(run.run("shift", v=rows).v[1], v[2] << np.uint32(4) & np.uint32(0xFFFF))
        assert np.array_equal(run.run("keep", v=rows).v[1], v[0] & np.uint32(0xFFFF0000) | total)
        want = np.flatnonzero((v[1] & 0xFFFF) < (v[2] & 0xFFFF))
        assert run.run("compare", v=rows).vcc == sum(1 << int(k) for k in want)


@pytest.mark.parametrize("arch", ALL)
def test_scalars_and_constants_as_sources(arch: str, tmp_path: Path) -> None:
    """Integers keep their bits, reals take the operand's format; VCC, EXEC, M0 and SCC are readable."""
    add = "v_add_u32" if arch in CDNA else "v_add_nc_u32"
    texts = {
        "sgpr": f"{add} v1, s4, v2", "negative": f"{add} v1, -16, v2", "real": f"{add} v1, 4.0, v2",
        "literal": f"{add} v1, 0xdeadbeef, v2", "m0": f"{add} v1, m0, v2", "exec": f"{add} v1, exec_lo, v2",
        "shift": "v_lshlrev_b64 v[4:5], 4, s[6:7]", "three": "v_add3_u32 v1, v2, v2, 64",
        "wide": "v_lshlrev_b64 v[4:5], 4, 1.0",
    }  # fmt: skip
    if arch in RDNA:
        texts |= {"two": "v_add3_u32 v1, s4, s5, v2", "null": f"{add} v1, null, v2"}
        texts |= {"three_literal": "v_bfe_u32 v1, 0x12345678, 8, 16"}
    run = Snippets(arch, tmp_path, texts)
    v = words(26, 3, 64)
    state: dict[str, Any] = {"v": dict(enumerate(v)), "s": {4: 1000, 5: 7, 6: 0x89ABCDEF, 7: 0x01234567}, "m0": 77}
    full = (1 << run.lanes) - 1
    on = np.arange(64) < run.lanes
    for name, value in {"sgpr": 1000, "negative": M32 - 15, "real": 0x40800000, "literal": 0xDEADBEEF, "m0": 77,
                        "exec": full & M32, "two": 1007, "null": 0}.items():  # fmt: skip
        if name in texts:
            want = v[2] + np.uint32(value)
            assert np.array_equal(run.run(name, **state).v[1][on], want[on]), texts[name]
    assert np.array_equal(run.run("three", **state).v[1][on], (v[2] * np.uint32(2) + np.uint32(64))[on])
    after = run.run("shift", **state)
    assert (int(after.v[4][0]), int(after.v[5][0])) == (0x9ABCDEF0, 0x12345678)
    after = run.run("wide", **state)
    assert (int(after.v[4][0]), int(after.v[5][0])) == (0, 0xFF000000), "1.0 of a 64-bit operand is a double"
    if arch in RDNA:
        assert int(run.run("three_literal", **state).v[1][0]) == 0x3456
