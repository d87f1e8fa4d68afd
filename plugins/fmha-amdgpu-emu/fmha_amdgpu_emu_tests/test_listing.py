"""The disassembler's text as instructions: operands, constants, modifiers, registers read and written, branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS, FEATURES, WAVE32, Snippets, assemble, core, disassemble

GFX9 = ("gfx90a", "gfx942", "gfx950")


def reg(kind: str, first: int, count: int = 1, **rest: Any) -> dict[str, Any]:
    return {"kind": kind, "reg": first, "count": count, **rest}


def v(first: int, count: int = 1, **rest: Any) -> dict[str, Any]:
    return reg("vgpr", first, count, **rest)


def a(first: int, count: int = 1) -> dict[str, Any]:
    return reg("vgpr", 256 + first, count)


def s(first: int, count: int = 1, **rest: Any) -> dict[str, Any]:
    return reg("sgpr", first, count, **rest)


def number(value: int, **rest: Any) -> dict[str, Any]:
    return {"kind": "constant", "value": hex(value), **rest}


def literal(value: int) -> dict[str, Any]:
    return number(value, literal=True)


VCC, EXEC, M0 = s(106, 2), s(126, 2), s(124)
TEXT, OFF, NULL = {"kind": "text"}, {"kind": "off"}, {"kind": "null"}

OPERANDS: tuple[tuple[tuple[str, ...], str, list[dict[str, Any]]], ...] = (
    (ARCHS, "v_mov_b32 v1, v255", [v(1), v(255)]),
    (WAVE32, "v_mov_b32 v1, s105", [v(1), s(105)]),
    (ARCHS, "v_add_f32 v0, -|v1|, v2", [v(0), v(1, neg=True, abs=True), v(2)]),
    (ARCHS, "v_fma_f64 v[0:1], |v[2:3]|, -v[4:5], v[6:7]", [v(0, 2), v(2, 2, abs=True), v(4, 2, neg=True), v(6, 2)]),
    (ARCHS, "s_mov_b32 ttmp5, m0", [s(113), M0]),
    (ARCHS, "s_mov_b64 exec, ttmp[4:5]", [EXEC, s(112, 2)]),
    (ARCHS, "s_mov_b64 vcc, exec", [VCC, EXEC]),
    (ARCHS, "s_mov_b32 vcc_lo, vcc_hi", [s(106), s(107)]),
    (ARCHS, "s_mov_b32 exec_lo, exec_hi", [s(126), s(127)]),
    (ARCHS, "s_mov_b64 s[0:1], src_shared_base", [s(0, 2), {"kind": "aperture", "value": "0x0"}]),
    (ARCHS, "s_mov_b64 s[0:1], src_private_limit", [s(0, 2), {"kind": "aperture", "value": "0x3"}]),
    (ARCHS, "s_mov_b32 s0, src_scc", [s(0), {"kind": "scc"}]),
    (GFX9, "s_mov_b32 s0, src_vccz", [s(0), {"kind": "vccz"}]),
    (GFX9, "s_mov_b32 s0, src_execz", [s(0), {"kind": "execz"}]),
    (("gfx90a",), "s_mov_b32 flat_scratch_hi, s1", [s(103), s(1)]),
    (GFX9, "s_mov_b64 xnack_mask, s[2:3]", [s(104, 2), s(2, 2)]),
    (WAVE32, "s_and_b32 null, s1, s2", [NULL, s(1), s(2)]),
    (GFX9, "v_accvgpr_write_b32 a7, v2", [a(7), v(2)]),
    (GFX9, "v_accvgpr_read_b32 v2, a255", [v(2), a(255)]),
    (GFX9, "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], a[2:3], a[0:15]", [a(0, 16), v(0, 2), a(2, 2), a(0, 16)]),
    (ARCHS, "global_load_dword v1, v[2:3], off", [v(1), v(2, 2), OFF]),
    (WAVE32, "v_add_co_ci_u32 v0, vcc_lo, v1, v2, vcc_lo", [v(0), s(106), v(1), v(2), s(106)]),
    (GFX9, "v_addc_co_u32 v0, vcc, v1, v2, vcc", [v(0), VCC, v(1), v(2), VCC]),
    (GFX9, "v_cndmask_b32 v0, v1, v2, vcc", [v(0), v(1), v(2), VCC]),
    (GFX9, "v_cmp_lt_f32 s[4:5], v1, v2", [s(4, 2), v(1), v(2)]),
    (WAVE32, "v_cmp_lt_f32 s4, v1, v2", [s(4), v(1), v(2)]),
    (WAVE32, "v_cmpx_lt_f32 v1, v2", [v(1), v(2)]),
    (WAVE32, "v_add_f16 v0.h, v1.l, v2.h", [v(0, half=2), v(1, half=1), v(2, half=2)]),
    (GFX9, "v_cvt_f32_i32_sdwa v0, sext(v1) dst_sel:DWORD src0_sel:WORD_1", [v(0), v(1, sext=True)]),
    (GFX9, "s_waitcnt vmcnt(0) lgkmcnt(1)", [TEXT, TEXT]),
)  # fmt: skip

CONSTANTS: tuple[tuple[tuple[str, ...], str, int, dict[str, Any]], ...] = (
    (ARCHS, "v_mov_b32 v0, 64", 1, number(64)),
    (ARCHS, "v_mov_b32 v0, -16", 1, number(0xFFFFFFF0)),
    (ARCHS, "v_mov_b32 v0, 65", 1, literal(65)),
    (ARCHS, "v_mov_b32 v0, 0xdeadbeef", 1, literal(0xDEADBEEF)),
    (ARCHS, "v_mov_b32 v0, 0.5", 1, number(0x3F000000)),
    (ARCHS, "v_add_f32 v0, -4.0, v1", 1, number(0xC0800000)),
    (ARCHS, "v_add_f32 v0, 0.15915494, v1", 1, number(0x3E22F983)),
    (ARCHS, "v_add_f32 v0, 2, v1", 1, number(2)),
    (ARCHS, "v_add_f32 v0, 3.0, v1", 1, literal(0x40400000)),
    (ARCHS, "v_add_f16 v0, 1.0, v1", 1, number(0x3C00)),
    (ARCHS, "v_add_f16 v0, -0.5, v1", 1, number(0xB800)),
    (ARCHS, "v_add_f16 v0, 0.15915494, v1", 1, number(0x3118)),
    (ARCHS, "v_add_f64 v[0:1], 1.0, v[2:3]", 1, number(0x3FF0000000000000)),
    (ARCHS, "v_add_f64 v[0:1], 0.15915494309189532, v[2:3]", 1, number(0x3FC45F306DC9C882)),
    (ARCHS, "v_add_f64 v[0:1], -1, v[2:3]", 1, number(2**64 - 1)),
    (WAVE32, "v_add_f64 v[0:1], 0x40590000, v[2:3]", 1, literal(0x4059000000000000)),
    (ARCHS, "v_pk_add_f16 v0, 2.0, v1", 1, number(0x4000)),
    (ARCHS, "s_mov_b64 s[0:1], -1", 1, number(2**64 - 1)),
    (ARCHS, "s_mov_b64 s[0:1], 1.0", 1, number(0x3FF0000000000000)),
    (ARCHS, "s_and_b64 s[0:1], s[2:3], 0x80000000", 2, literal(0x80000000)),
    (WAVE32, "v_cmp_lt_i64 s0, v[0:1], 0x80000000", 2, literal(0xFFFFFFFF80000000)),
    (ARCHS, "s_add_i32 s0, s1, 0x1ffff", 2, literal(0x1FFFF)),
    (ARCHS, "s_mul_i32 s0, s1, -3", 2, number(0xFFFFFFFD)),
)  # fmt: skip

MODIFIERS: tuple[tuple[tuple[str, ...], str, dict[str, int]], ...] = (
    (ARCHS, "v_add_f32 v0, v1, v2 clamp", {"clamp": 1}),
    (ARCHS, "v_add_f32 v0, v1, v2 mul:2", {"omod": 1}),
    (ARCHS, "v_add_f32 v0, v1, v2 mul:4", {"omod": 2}),
    (ARCHS, "v_add_f32 v0, v1, v2 clamp div:2", {"omod": 3, "clamp": 1}),
    (ARCHS, "v_pk_fma_f16 v0, v1, v2, v3 op_sel:[1,0,1] op_sel_hi:[0,1,1] neg_lo:[1,1,0] neg_hi:[0,0,1]",
     {"op_sel": 5, "op_sel_hi": 6, "neg_lo": 3, "neg_hi": 4}),
    (("gfx942", "gfx950"), "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,1]", {"op_sel_hi": 6}),
    (ARCHS, "v_fma_mix_f32 v0, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,1]", {"op_sel": 1, "op_sel_hi": 5}),
    (ARCHS, "v_fma_mix_f32 v0, v1, v2, v3", {"op_sel_hi": 0}),
    (GFX9, "v_mad_u16 v0, v1, v2, v3 op_sel:[0,1,0,1]", {"op_sel": 10}),
    (ARCHS, "v_mov_b32_dpp v0, v1 quad_perm:[3,1,0,2] row_mask:0x3 bank_mask:0xc", {"dpp": 1, "dpp_arg": 0x87, "row_mask": 3, "bank_mask": 12}),
    (ARCHS, "v_mov_b32_dpp v0, v1 row_shl:7 row_mask:0xf bank_mask:0xf bound_ctrl:1", {"dpp": 2, "dpp_arg": 7, "bound_ctrl": 1}),
    (ARCHS, "v_add_f32_dpp v0, v1, v2 row_ror:15 row_mask:0xf bank_mask:0xf", {"dpp": 4, "dpp_arg": 15}),
    (GFX9, "v_mov_b32_dpp v0, v1 wave_shr:1 row_mask:0xf bank_mask:0xf", {"dpp": 7, "dpp_arg": 1}),
    (ARCHS, "v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf bank_mask:0xf", {"dpp": 9}),
    (ARCHS, "v_mov_b32_dpp v0, v1 row_half_mirror row_mask:0xf bank_mask:0xf", {"dpp": 10}),
    (GFX9, "v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf", {"dpp": 11, "dpp_arg": 15, "row_mask": 10}),
    (GFX9, "v_mov_b32_dpp v0, v1 row_bcast:31 row_mask:0xf bank_mask:0xf", {"dpp": 12, "dpp_arg": 31}),
    (WAVE32, "v_mov_b32_dpp v0, v1 row_share:9 row_mask:0xf bank_mask:0xf", {"dpp": 13, "dpp_arg": 9}),
    (WAVE32, "v_mov_b32_dpp v0, v1 row_xmask:5 row_mask:0xf bank_mask:0xf fi:1", {"dpp": 14, "dpp_arg": 5, "fi": 1}),
    (("gfx90a", "gfx942", "gfx950"), "v_mov_b32_dpp v0, v1 row_newbcast:3 row_mask:0xf bank_mask:0xf", {"dpp": 15, "dpp_arg": 3}),
    (WAVE32, "v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]", {"dpp": 16, "dpp_arg": 0o01234567}),
    (WAVE32, "v_add_f32_e64_dpp v0, -v1, |v2| clamp row_shr:1 row_mask:0xf bank_mask:0xf", {"dpp": 3, "dpp_arg": 1, "clamp": 1}),
    (GFX9, "v_add_f32_sdwa v0, v1, v2 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:BYTE_3",
     {"sdwa": 1, "dst_sel": 2, "dst_unused": 2, "src0_sel": 5, "src1_sel": 3}),
    (GFX9, "v_mov_b32_sdwa v0, v1 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:DWORD", {"sdwa": 1, "dst_sel": 4, "dst_unused": 1}),
    (ARCHS, "global_load_dword v0, v1, s[2:3] offset:-16", {"offset": -16}),
    (ARCHS, "ds_read2st64_b32 v[0:1], v2 offset0:1 offset1:3", {"offset0": 1, "offset1": 3}),
    (ARCHS, "ds_read_b32 v0, v2 offset:65535", {"offset": 65535}),
    (ARCHS, "ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,3,2,1,0)", {"offset": 0x801B}),
    (ARCHS, "ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,\"01pip\")", {"offset": 0x0907}),
    (ARCHS, "ds_swizzle_b32 v0, v1 offset:swizzle(BROADCAST,8,3)", {"offset": 0x78}),
    (ARCHS, "ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)", {"offset": 0x401F}),
    (ARCHS, "ds_swizzle_b32 v0, v1 offset:swizzle(REVERSE,32)", {"offset": 0x7C1F}),
    (GFX9, "buffer_load_dword v1, v[2:3], s[0:3], s4 idxen offen offset:4095", {"idxen": 1, "offen": 1, "offset": 4095}),
    (WAVE32, "buffer_load_b32 v1, v[2:3], s[0:3], s4 idxen offen offset:4095", {"idxen": 1, "offen": 1, "offset": 4095}),
    (GFX9, "buffer_load_dword v1, s[0:3], 0 offen lds", {"offen": 1, "lds": 1}),
    (("gfx942", "gfx950"), "buffer_load_dword v1, off, s[0:3], 0 sc0 nt sc1", {"sc0": 1, "nt": 1, "sc1": 1}),
    (("gfx90a",), "buffer_load_dword v1, off, s[0:3], 0 glc slc scc", {"glc": 1, "slc": 1, "sc1": 1}),
    (("gfx1100",), "global_load_b32 v0, v1, s[2:3] glc slc dlc", {"glc": 1, "slc": 1, "dlc": 1}),
    (("gfx1201",), "global_atomic_add_u32 v0, v1, v2, s[2:3] th:TH_ATOMIC_RETURN scope:SCOPE_DEV", {"th_return": 1}),
    (("gfx1201",), "global_load_b32 v0, v1, s[2:3] th:TH_LOAD_NT_HT scope:SCOPE_SYS", {}),
    (GFX9, "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15] cbsz:2 abid:3 blgp:5", {"cbsz": 2, "abid": 3, "blgp": 5}),
    (("gfx942", "gfx950"), "v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7] neg:[1,0,1]", {"blgp": 5}),
    (("gfx950",), "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:15], v[0:3] blgp:4", {"blgp": 4}),
    (("gfx950",), "v_bitop3_b32 v0, v1, v2, v3 bitop3:0x96", {"bitop3": 0x96}),
    (("gfx1201",), "v_cvt_f32_fp8 v0, v1 byte_sel:2", {"byte_sel": 2}),
    (("gfx1201",), "v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[16:23], v24 index_key:1", {"index_key": 1}),
    (("gfx1201",), "v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[16:19], v[0:7] neg_lo:[1,0,0]", {"neg_lo": 1}),
)  # fmt: skip


def described(arch: str, texts: list[str], folder: Path) -> list[dict[str, Any]]:
    listing = disassemble(assemble(arch, ".text\n" + "\n".join(texts) + "\n", folder), FEATURES[arch])
    rows = core().describe(arch, listing)
    assert len(rows) == len(texts), listing
    return rows


@pytest.mark.parametrize("arch", ARCHS)
def test_operands(arch: str, tmp_path: Path) -> None:
    rows = [row for row in OPERANDS if arch in row[0]]
    for (_, text, operands), got in zip(rows, described(arch, [row[1] for row in rows], tmp_path), strict=True):
        assert got["operands"] == operands, (text, got["text"])


@pytest.mark.parametrize("arch", ARCHS)
def test_constants_as_their_operands_see_them(arch: str, tmp_path: Path) -> None:
    rows = [row for row in CONSTANTS if arch in row[0]]
    for (_, text, at, operand), got in zip(rows, described(arch, [row[1] for row in rows], tmp_path), strict=True):
        assert got["problem"] == "", (text, got)
        assert got["operands"][at] == operand, (text, got["text"])


@pytest.mark.parametrize("arch", ARCHS)
def test_modifiers(arch: str, tmp_path: Path) -> None:
    rows = [row for row in MODIFIERS if arch in row[0]]
    for (_, text, wanted), got in zip(rows, described(arch, [row[1] for row in rows], tmp_path), strict=True):
        assert got["modifiers"] == wanted, (text, got["text"])
        assert "modifier" not in got["problem"], got


READS_AND_WRITES: tuple[tuple[tuple[str, ...], str, dict[str, list[int]]], ...] = (
    (ARCHS, "v_fma_f64 v[0:1], v[2:3], v[4:5], s[6:7]", {"v_writes": [0, 1], "v_reads": [2, 3, 4, 5], "s_reads": [6, 7], "s_writes": []}),
    (ARCHS, "v_fmac_f32 v3, v4, v5", {"v_writes": [3], "v_reads": [3, 4, 5]}),
    (GFX9, "v_div_fmas_f32 v0, v1, v2, v3", {"s_reads": [106, 107]}),
    (GFX9, "v_addc_co_u32 v0, vcc, v1, v2, vcc", {"s_reads": [106, 107], "s_writes": [106, 107]}),
    (GFX9, "v_cmpx_eq_u32 vcc, v0, v1", {"s_writes": [106, 107, 126, 127], "v_reads": [0, 1], "v_writes": []}),
    (WAVE32, "v_cmpx_eq_u32 v0, v1", {"s_writes": [126, 127], "v_reads": [0, 1], "v_writes": []}),
    (GFX9, "v_mfma_f32_16x16x16f16 v[0:3], v[4:5], a[6:7], v[8:11]", {"v_writes": [0, 1, 2, 3], "v_reads": [4, 5, 8, 9, 10, 11, 262, 263]}),
    (GFX9, "v_mov_b32_sdwa v0, v1 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:DWORD", {"v_reads": [0, 1]}),
    (ARCHS, "s_and_saveexec_b64 s[0:1], vcc", {"s_reads": [106, 107, 126, 127], "s_writes": [0, 1, 126, 127]}),
    (ARCHS, "s_load_dwordx4 s[4:7], s[0:1], 0x10", {"s_reads": [0, 1], "s_writes": [4, 5, 6, 7]}),
    (ARCHS, "global_store_dwordx2 v0, v[2:3], s[4:5]", {"v_reads": [0, 2, 3], "s_reads": [4, 5], "v_writes": []}),
    (ARCHS, "ds_write_b64 v0, v[2:3]", {"v_reads": [0, 2, 3], "v_writes": []}),
    (ARCHS, "ds_read_b128 v[4:7], v0", {"v_reads": [0], "v_writes": [4, 5, 6, 7]}),
)  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS)
def test_registers_read_and_written(arch: str, tmp_path: Path) -> None:
    rows = [row for row in READS_AND_WRITES if arch in row[0]]
    for (_, text, wanted), got in zip(rows, described(arch, [row[1] for row in rows], tmp_path), strict=True):
        assert {name: got[name] for name in wanted} == wanted, (text, got)


def test_words_of_text_operands(tmp_path: Path) -> None:
    """Text operands other than registers and constants stay readable for the entry's own binder."""
    texts = [
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15",
        "s_waitcnt vmcnt(3) lgkmcnt(1)",
        "s_sendmsg sendmsg(MSG_INTERRUPT)",
    ]
    set_mode, wait, message = described("gfx942", texts, tmp_path)
    assert set_mode["words"][0] == "hwreg(HW_REG_MODE, 4, 4)"
    assert wait["words"] == ["vmcnt(3)", "lgkmcnt(1)"]
    assert message["words"] == ["sendmsg(MSG_INTERRUPT)"]
    (delay,) = described(
        "gfx1100", ["s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)"], tmp_path
    )
    assert delay["words"] == ["instid0(VALU_DEP_1)", "instskip(NEXT)", "instid1(VALU_DEP_2)"]


def test_dual_issue(tmp_path: Path) -> None:
    texts = [
        "v_dual_fmac_f32 v1, v2, v3 :: v_dual_mul_f32 v4, s5, v6",
        "v_dual_cndmask_b32 v0, v1, v2 :: v_dual_mov_b32 v5, 0x12345678",
    ]
    fmac, select = described("gfx1100", texts, tmp_path)
    assert fmac["operands"] == [v(1), v(2), v(3)]
    assert fmac["second"]["operands"] == [v(4), s(5), v(6)]
    assert (fmac["v_reads"], fmac["v_writes"], fmac["s_reads"]) == ([1, 2, 3, 6], [1, 4], [5])
    assert select["operands"][3] == s(106)
    assert select["second"]["operands"][1] == literal(0x12345678)


def test_both_halves_of_a_dual_issue_read_before_either_writes(tmp_path: Path) -> None:
    snippets = Snippets(
        "gfx1100",
        tmp_path,
        {
            "swap": "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0",
            "forward": "v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v3, v0, v2",
            "backward": "v_dual_add_f32 v3, v0, v2 :: v_dual_mov_b32 v0, v1",
        },
    )
    before = {0: 0x3F800000, 1: 0x40000000, 2: 0x40400000}
    after = snippets.run("swap", v=before)
    assert (after.v[0][0], after.v[1][0]) == (0x40000000, 0x3F800000)
    for name in ("forward", "backward"):
        after = snippets.run(name, v=before)
        assert (after.v[0][0], after.v[3][0]) == (0x40000000, 0x40800000), name


def test_branches_lead_where_the_code_says(tmp_path: Path) -> None:
    """Branches follow the code's own distance, forward and backward, whether the text has a label or a number."""
    text = "start:\ns_nop 0\ns_cbranch_scc1 end\ns_branch start\ns_nop 0\nend:\ns_endpgm"
    rows = {row["address"]: row for row in described_text("gfx942", text, tmp_path)}
    assert rows[4]["target"] == 16
    assert rows[8]["target"] == 0


def described_text(arch: str, text: str, folder: Path) -> list[dict[str, Any]]:
    return core().describe(arch, disassemble(assemble(arch, f".text\n{text}\n", folder), FEATURES[arch]))


def test_a_loop_runs_as_often_as_it_says(tmp_path: Path) -> None:
    loop = "s_mov_b32 s0, 0\n1:\ns_add_u32 s0, s0, 3\ns_cmp_lt_u32 s0, 30\ns_cbranch_scc1 1b"
    after = Snippets("gfx942", tmp_path, {"loop": loop}).run("loop")
    assert (after.s[0], after.executed) == (30, 1 + 10 * 3 + 1)


def test_unknown_modifiers_and_undecodable_words_stop_only_when_reached() -> None:
    listing = (
        "0000000000000000 <k>:\n"
        "\tv_mov_b32_e32 v0, v1 // 000000000000: 7E000301\n"
        "\tv_mov_b32_e32 v0, v1 odd:1 // 000000000004: 7E000301\n"
        "\t.long 0x12345678 // 000000000008: 12345678\n"
        "\t\t...\n"
        "\tv_mov_b32_e32 v0, v1 // 000000000020: 7E000301\n"
    )
    good, odd, raw, last = core().describe("gfx942", listing)
    assert (good["problem"], last["problem"]) == ("", "")
    assert '"odd:1"' in odd["problem"]
    assert "not implemented" in raw["problem"]
    assert core().unexecutable("gfx942", listing).keys() == {
        f"v_mov_b32_e32: {odd['problem']}",
        f".long: {raw['problem']}",
    }


def test_literals_of_two_dwords_count_in_size(tmp_path: Path) -> None:
    rows = described("gfx942", ["v_mov_b32 v0, 0x12345678", "v_mov_b32 v0, 1"], tmp_path)
    assert [(row["address"], row["size"]) for row in rows] == [(0, 8), (8, 4)]
