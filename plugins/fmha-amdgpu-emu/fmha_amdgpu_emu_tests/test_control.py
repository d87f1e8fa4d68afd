"""SOPP and related instructions on one wave: branches, MODE, counters, relative registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import ARCHS, Snippets

CDNA = ("gfx90a", "gfx942", "gfx950")
BRANCHES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "scc0": ("s_cbranch_scc0", {"scc": 0}, {"scc": 1}),
    "scc1": ("s_cbranch_scc1", {"scc": 1}, {"scc": 0}),
    "vccz": ("s_cbranch_vccz", {"vcc": 0}, {"vcc": 1 << 20}),
    "vccnz": ("s_cbranch_vccnz", {"vcc": 1 << 31}, {"vcc": 0}),
    "execz": ("s_cbranch_execz", {"exec": 0}, {"exec": 2}),
    "execnz": ("s_cbranch_execnz", {"exec": 1}, {"exec": 0}),
}


@pytest.mark.parametrize("arch", ARCHS)
def test_conditional_branches(arch: str, tmp_path: Path) -> None:
    texts = {
        name: f"s_mov_b32 s4, 1\n{branch} .Lover_{name}\ns_mov_b32 s4, 2\n.Lover_{name}: s_mov_b32 s5, 3"
        for name, (branch, _, _) in BRANCHES.items()
    }
    snippets = Snippets(arch, tmp_path, {**texts, "loop": LOOP})
    for name, (_, taken, not_taken) in BRANCHES.items():
        assert [int(x) for x in snippets.run(name, **taken).s[4:6]] == [1, 3], name
        assert [int(x) for x in snippets.run(name, **not_taken).s[4:6]] == [2, 3], name
    after = snippets.run("loop", s={4: 17})
    assert [int(x) for x in after.s[4:6]] == [0, 17 * 18 // 2]
    assert after.executed == 1 + 17 * 4 + 1


LOOP = """
s_mov_b32 s5, 0
.Lagain: s_add_u32 s5, s5, s4
s_sub_u32 s4, s4, 1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 .Lagain
"""


@pytest.mark.parametrize("arch", ARCHS)
def test_calls_return_behind_themselves(arch: str, tmp_path: Path) -> None:
    """s_getpc and s_call return the address of the next instruction."""
    text = "s_getpc_b64 s[2:3]\ns_call_b64 s[4:5], .Lthere\ns_mov_b32 s6, 1\n.Lthere: s_nop 0"
    after = Snippets(arch, tmp_path, {"first": "s_nop 0", "call": text}).run("call")
    start = after.s[2] - 4
    assert int(after.s[4]) == start + 8
    assert int(after.s[6]) == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_mode_fields(arch: str, tmp_path: Path) -> None:
    """s_setreg writes only the named bits of MODE; s_getreg reads any field, shifted down."""
    mode = "HW_REG_WAVE_MODE" if arch == "gfx1201" else "HW_REG_MODE"
    texts = {
        "imm": f"s_setreg_imm32_b32 hwreg({mode}, 2, 2), 3",
        "reg": f"s_setreg_b32 hwreg({mode}, 4, 4), s9",
        "all": f"s_setreg_b32 hwreg({mode}), s9",
        "get": f"s_getreg_b32 s3, hwreg({mode}, 1, 5)",
    }
    if arch.startswith("gfx1"):
        texts |= {"round": "s_round_mode 0x6", "denorm": "s_denorm_mode 9"}
    snippets = Snippets(arch, tmp_path, texts)
    assert snippets.run("imm", mode=0xF0).mode == 0xFC
    assert snippets.run("reg", mode=0x3FF, s={9: 0xFFFFFFF5}).mode == 0x35F
    assert snippets.run("get", mode=0x2A).s[3] == 0x15
    if arch == "gfx1201":  # it has no DX10_CLAMP and IEEE bits
        assert snippets.run("all", mode=0x3FF, s={9: 0x0F}).mode == 0x30F
    else:
        assert snippets.run("all", mode=0x3FF, s={9: 0x0F}).mode == 0x00F
    if arch.startswith("gfx1"):
        assert snippets.run("round", mode=0x3FF).mode == 0x3F6
        assert snippets.run("denorm", mode=0x3FF).mode == 0x39F


@pytest.mark.parametrize("arch", ARCHS)
def test_status_and_apertures(arch: str, tmp_path: Path) -> None:
    """The bases of the flat apertures are the ones that flat accesses use."""
    texts = {"base": "s_mov_b64 s[2:3], src_shared_base\ns_mov_b64 s[4:5], src_private_base"}
    if arch != "gfx1201":
        texts["status"] = "s_getreg_b32 s2, hwreg(HW_REG_STATUS, 0, 11)"
    snippets = Snippets(arch, tmp_path, texts)
    after = snippets.run("base")
    assert [int(x) for x in after.s[2:6]] == [0, 0x10000, 0, 0x20000]
    if "status" in texts:
        assert snippets.run("status", scc=1, exec=0, vcc=0).s[2] == 0x601
        assert snippets.run("status", scc=0, exec=1, vcc=1).s[2] == 0


@pytest.mark.parametrize("arch", CDNA)
def test_relative_vector_registers(arch: str, tmp_path: Path) -> None:
    """Between s_set_gpr_idx_on and _off, the index shifts the named operands of vector instructions."""
    texts = {
        "source": "s_set_gpr_idx_on s2, gpr_idx(SRC0)\nv_mov_b32 v10, v1\ns_set_gpr_idx_off\nv_mov_b32 v11, v1",
        "target": "s_set_gpr_idx_on s2, gpr_idx(DST)\nv_mov_b32 v10, v1\ns_set_gpr_idx_off\nv_mov_b32 v11, v1",
        "both": "s_set_gpr_idx_on s2, gpr_idx(SRC0,SRC1,DST)\nv_add_u32 v10, v1, v2\ns_nop 0\ns_set_gpr_idx_off",
        "jump": "s_set_gpr_idx_on s2, gpr_idx(DST)\ns_cbranch_scc0 .Lout\n.Lout: s_set_gpr_idx_off",
        "open": "s_set_gpr_idx_on s2, gpr_idx(DST)\nv_mov_b32 v10, v1",
    }
    snippets = Snippets(arch, tmp_path, texts)
    rows = {r: np.arange(64, dtype=np.uint32) + 100 * r for r in range(1, 16)}
    after = snippets.run("source", v=rows, s={2: 4})
    assert (after.v[10] == rows[5]).all()
    assert (after.v[11] == rows[1]).all()
    after = snippets.run("target", v=rows, s={2: 4}, exec=0xFF)
    assert (after.v[14] == np.where(np.arange(64) < 8, rows[1], rows[14])).all()
    assert (after.v[10] == rows[10]).all()
    assert (snippets.run("both", v=rows, s={2: 3}).v[13] == rows[4] + rows[5]).all()
    with pytest.raises(Fault, match="control flow while registers are indexed"):
        snippets.run("jump", s={2: 1})
    with pytest.raises(Fault, match="outside the vector registers"):
        snippets.run("target", s={2: 250})
    with pytest.raises(Fault):
        snippets.run("open", s={2: 1})


WAITS = {
    # name: (load twice, wait, register that the wait makes safe, register that it does not)
    "gfx90a": ("buffer_load_dword v{0}, off, s[8:11], 0", "s_waitcnt vmcnt({0})"),
    "gfx942": ("global_load_dword v{0}, v[2:3], off", "s_waitcnt vmcnt({0})"),
    "gfx1100": ("global_load_b32 v{0}, v[2:3], off", "s_waitcnt vmcnt({0}) lgkmcnt(0)"),
    "gfx1201": ("global_load_b32 v{0}, v[2:3], off", "s_wait_loadcnt {0}"),
}


@pytest.mark.parametrize("arch", sorted(WAITS))
def test_counters_of_vector_loads(arch: str, tmp_path: Path) -> None:
    """Loads complete in order, so vmcnt(1) after two of them makes the first safe, but not the second."""
    load, wait = WAITS[arch]
    both = load.format(10) + "\n" + load.format(11) + "\n"
    texts = {
        "none": both + "v_mov_b32 v12, v10",
        "one": both + wait.format(1) + "\nv_mov_b32 v12, v10",
        "less": both + wait.format(1) + "\nv_mov_b32 v12, v11",
        "all": both + wait.format(0) + "\nv_mov_b32 v12, v11",
    }
    if arch == "gfx1201":
        texts["pair"] = both + "s_wait_loadcnt_dscnt 0x100\nv_mov_b32 v12, v10"
        texts["idle"] = both + "s_wait_idle\nv_mov_b32 v12, v11"
        texts["store"] = both + "s_wait_storecnt_dscnt 0\nv_mov_b32 v12, v10"
        texts["other"] = both + "s_wait_dscnt 0\ns_wait_kmcnt 0\ns_wait_expcnt 0\nv_mov_b32 v12, v10"
    if arch == "gfx1100":
        texts["store"] = both + "s_waitcnt_vscnt null, 0x0\nv_mov_b32 v12, v10"
        texts["other"] = both + "s_waitcnt lgkmcnt(0)\nv_mov_b32 v12, v10"
    late = {"none", "less", "store", "other"}
    snippets = Snippets(arch, tmp_path, texts)
    for name in texts:
        seen = {f["kind"] for f in snippets.run(name, track=True, s={8: 0, 9: 0, 10: 0, 11: 0}).findings}
        assert ("missing-wait" in seen) == (name in late), name


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_counters_that_lds_and_scalar_memory_share(arch: str, tmp_path: Path) -> None:
    """lgkmcnt(1) after two LDS reads makes the first safe. Scalar loads may overtake, so they need lgkmcnt(0)."""
    read = "ds_read_b32 v{0}, v1" if arch == "gfx942" else "ds_load_b32 v{0}, v1"
    scalar = "s_load_dword s{0}, s[2:3], 0x0" if arch == "gfx942" else "s_load_b32 s{0}, s[2:3], 0x0"
    texts = {
        "lds": f"{read.format(10)}\n{read.format(11)}\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v12, v10",
        "late": f"{read.format(10)}\n{read.format(11)}\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v12, v11",
        "scalar": f"{scalar.format(10)}\n{scalar.format(11)}\ns_waitcnt lgkmcnt(1)\ns_mov_b32 s12, s10",
        "zero": f"{scalar.format(10)}\n{scalar.format(11)}\ns_waitcnt lgkmcnt(0)\ns_mov_b32 s12, s10",
        "vector": f"{read.format(10)}\ns_waitcnt vmcnt(0)\nv_mov_b32 v12, v10",
    }
    snippets = Snippets(arch, tmp_path, texts)
    for name in texts:
        seen = {f["kind"] for f in snippets.run(name, track=True, lds=np.zeros(64, np.uint8)).findings}
        assert ("missing-wait" in seen) == (name in {"late", "scalar", "vector"}), (name, seen)


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_not_known_is_refused(arch: str, tmp_path: Path) -> None:
    texts = {"msg": "s_sendmsg sendmsg(MSG_GS_ALLOC_REQ)", "reg": "s_getreg_b32 s2, hwreg(HW_REG_GPR_ALLOC)"}
    if arch == "gfx1201":
        texts["reg"] = "s_getreg_b32 s2, hwreg(HW_REG_WAVE_GPR_ALLOC)"
    if arch.startswith("gfx9"):
        texts["msg"] = "s_sendmsg sendmsg(MSG_SAVEWAVE)"
        texts["index"] = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 1"
    snippets = Snippets(arch, tmp_path, texts)
    for name in texts:
        with pytest.raises(Fault, match="implemented"):
            snippets.run(name)
