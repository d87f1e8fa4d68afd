"""LDS bank conflicts: extra cycles for patterns whose number follows from the documents' rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS, WAVE32
from fmha_amdgpu_emu_tests.support.machine import Program, kernel_text, link_assembly

CDNA, WIDE, RDNA = ("gfx90a", "gfx942"), ("gfx950",), WAVE32
"""32 banks and 64 lanes, 64 banks and 64 lanes, 32 banks and 32 lanes."""

STRIDE = "v_mov_b32 v2, {0}\nv_mul_lo_u32 v1, v2, v0\n"
# Pieces of 16 bytes: lanes 0-15 in the lower four of a 128-byte row, lanes 16-31 in the upper; one row per lane.
PAIRED = (
    "v_and_b32 v1, 3, v0\nv_lshlrev_b32 v1, 4, v1\nv_lshlrev_b32 v2, 2, v0\nv_and_b32 v2, 64, v2\n"
    "v_or_b32 v1, v1, v2\nv_lshlrev_b32 v2, 7, v0\nv_or_b32 v1, v1, v2\n"
)
# name: addresses in v1, operation, cycles on CDNA, gfx950, RDNA
PATTERNS = {
    "dwords": (STRIDE.format(4), "{read}_b32 v4, v1", (0, 0, 0)),
    "one_dword": (STRIDE.format(0), "{read}_b32 v4, v1", (0, 0, 0)),
    "every_other": (STRIDE.format(8), "{read}_b32 v4, v1", (2, 1, 1)),
    "one_bank": (STRIDE.format(128), "{read}_b32 v4, v1", (62, 31, 31)),
    "padded": (STRIDE.format(132), "{read}_b32 v4, v1", (0, 0, 0)),
    "bytes": (STRIDE.format(1), "{read}_u8 v4, v1", (0, 0, 0)),
    "pairs": (STRIDE.format(8), "{read}_b64 v[4:5], v1", (0, 0, 0)),
    "pairs_apart": (STRIDE.format(16), "{read}_b64 v[4:5], v1", (4, 2, 2)),
    "quads": (STRIDE.format(16), "{write}_b128 v1, v[4:7]", (0, 0, 0)),
    "quads_one_bank": (STRIDE.format(128), "{write}_b128 v1, v[4:7]", (56, 28, 28)),
    "paired_read": (PAIRED, "{read}_b128 v[4:7], v1", (0, 12, 4)),
    "paired_write": (PAIRED, "{write}_b128 v1, v[4:7]", (8, 12, 4)),
    "atomic": (STRIDE.format(0), "ds_add_u32 v1, v4", (62, 63, 31)),
    "some_lanes": (STRIDE.format(128), "{three_lanes}\n{read}_b32 v4, v1", (2, 1, 2)),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    made = {}
    for arch in ARCHS:
        names = {"read": "ds_read", "write": "ds_write", "three_lanes": "s_mov_b64 exec, 7"}
        if arch in WAVE32:
            names = {"read": "ds_load", "write": "ds_store", "three_lanes": "s_mov_b32 exec_lo, 7"}
        text = "".join(
            kernel_text(name, addresses + operation.format(**names) + "\ns_endpgm", arch=arch, lds=16384)
            for name, (addresses, operation, _) in PATTERNS.items()
        )
        made[arch] = Program(link_assembly(arch, text, Path(tmp_path_factory.mktemp(arch))))
    return made


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PATTERNS)
def test_conflicts(arch: str, name: str, programs: dict[str, Program]) -> None:
    lanes = 32 if arch in WAVE32 else 64
    which = 0 if arch in CDNA else 1 if arch in WIDE else 2
    observed = programs[arch].launch(name, (1, 1, 1), (lanes, 1, 1), track=False)
    (counts,) = observed["executed"]
    assert counts["lds_accesses"] == 1
    assert counts["lds_conflict_cycles"] == PATTERNS[name][2][which]


def test_bytes_are_counted(programs: dict[str, Program]) -> None:
    """Reads and writes of active lanes count; an atomic counts as both."""
    moved = {}
    for name in ("pairs", "quads", "atomic", "some_lanes"):
        (counts,) = programs["gfx942"].launch(name, (1, 1, 1), (64, 1, 1), track=False)["executed"]
        moved[name] = (counts["lds_read_bytes"], counts["lds_written_bytes"])
    assert moved == {"pairs": (512, 0), "quads": (0, 1024), "atomic": (256, 256), "some_lanes": (12, 0)}


def test_matrix_operations_are_counted(tmp_path: Path) -> None:
    """A multiply-add counts twice: 2 x 32 x 32 x 8, for two waves."""
    body = "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], 0\ns_endpgm"
    text = kernel_text("product", body, arch="gfx942", vgprs=32)
    program = Program(link_assembly("gfx942", text, tmp_path))
    (counts,) = program.launch("product", (1, 1, 1), (128, 1, 1), track=False)["executed"]
    assert counts["matrix_flops"] == 2 * 2 * 32 * 32 * 8
    assert counts["classes"]["matrix"] == 2


LOOP = """
v_and_b32 v2, 63, v0
v_lshrrev_b32 v3, 6, v0
v_mul_u32_u24 v3, {wave}, v3
v_add_u32 v3, 4, v3
v_mul_lo_u32 v1, v2, v3
s_mov_b32 s6, 3
again:
ds_read_b32 v4, v1
{change}
s_sub_u32 s6, s6, 1
s_cmp_lg_u32 s6, 0
s_cbranch_scc1 again
s_endpgm
"""


@pytest.mark.parametrize(
    ("change", "wave", "cycles"),
    [("v_lshlrev_b32 v1, 1, v1", 124, 0 + 2 + 6 + 3 * 62), ("v_xor_b32 v1, 2, v1", 0, 2 * (0 + 2 + 0))],
    ids=["distances", "alignment"],
)
def test_one_instruction_with_several_patterns(change: str, wave: int, cycles: int, tmp_path: Path) -> None:
    """What an instruction's last access cost is only reused for the same distances and alignment; two waves differ."""
    text = kernel_text("loop", LOOP.format(change=change, wave=wave), arch="gfx942", lds=32768)
    program = Program(link_assembly("gfx942", text, tmp_path))
    (counts,) = program.launch("loop", (1, 1, 1), (128, 1, 1), track=False)["executed"]
    assert counts["lds_accesses"] == 2 * 3
    assert counts["lds_conflict_cycles"] == cycles
