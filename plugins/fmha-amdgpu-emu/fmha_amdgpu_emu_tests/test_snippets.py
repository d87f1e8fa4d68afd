"""The harness itself: state goes in and comes out, and an unimplemented instruction stops with its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fmha_amdgpu_emu.core import Fault

from fmha_amdgpu_emu_tests.support.harness import ARCHS, Snippets


@pytest.mark.parametrize("arch", ARCHS)
def test_state_round_trip(arch: str, tmp_path: Path) -> None:
    """v_mov reads and writes the lanes that EXEC enables; all other state is unchanged."""
    snippets = Snippets(arch, tmp_path, {"move": "v_mov_b32 v3, v4", "scalar": "s_mov_b32 s7, 0x12345678"})
    lanes = np.arange(64, dtype=np.uint32) * 3 + 1
    after = snippets.run("move", v={3: 0xABCDEF01, 4: lanes}, s={5: 77}, exec=0x0F0F0F0F, vcc=5, m0=9)
    on = (0x0F0F0F0F >> np.arange(64, dtype=np.uint64) & 1).astype(bool)
    assert np.array_equal(after.v[3], np.where(on, lanes, 0xABCDEF01).astype(np.uint32))
    assert np.array_equal(after.v[4], lanes)
    assert (after.s[5], after.vcc, after.s[124], after.exec_mask) == (77, 5, 9, 0x0F0F0F0F)
    assert snippets.run("scalar").s[7] == 0x12345678


@pytest.mark.promise("An instruction that an emulator lacks stops the launch by its name.")
def test_what_is_not_implemented_stops_with_its_name(tmp_path: Path) -> None:
    snippets = Snippets("gfx942", tmp_path, {"odd": "s_mov_b32 s0, 1\ns_rfe_b64 s[0:1]"})
    with pytest.raises(Fault, match=r"s_rfe_b64 at 0x4: .*not implemented"):
        snippets.run("odd")
