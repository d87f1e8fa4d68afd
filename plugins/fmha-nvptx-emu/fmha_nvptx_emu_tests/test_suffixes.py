"""Which architectures' PTX a device loads: its own with the suffix "a", its family's with "f", and all lower ones without."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_nvptx_emu_tests.test_fatbin import TEXT, loaded

TAKEN = {
    "sm_103a": ("sm_103a", "sm_103f", "sm_100f", "sm_103", "sm_100", "sm_90"),
    "sm_100a": ("sm_100a", "sm_100f", "sm_100", "sm_90"),
    "sm_120": ("sm_120a", "sm_120f", "sm_120", "sm_100"),
}
REFUSED = {
    "sm_103a": ("sm_100a", "sm_90a", "sm_120", "sm_120f"),
    "sm_100a": ("sm_103a", "sm_103f", "sm_103", "sm_90a"),
    "sm_120": ("sm_100a", "sm_100f", "sm_121"),
}


@pytest.mark.promise("A device loads PTX of its own suffix and of its family's, and the best text of a fatbin.")
@pytest.mark.parametrize("arch", TAKEN)
def test_the_suffixes_that_a_device_takes(arch: str, tmp_path: Path) -> None:
    files = []
    for target in (*TAKEN[arch], *REFUSED[arch]):
        files.append(tmp_path / target)
        files[-1].write_text(TEXT.format(target=target, number=7), "utf-8")
    told = loaded(arch, *files)
    assert told[: len(TAKEN[arch])] == ["7"] * len(TAKEN[arch])
    for target, line in zip(REFUSED[arch], told[len(TAKEN[arch]) :], strict=True):
        assert line.startswith("209 ")
        assert f"the PTX is for {target}" in line
