"""What an emulated device loads: the PTX beside a cubin."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.cuda.loaded import ptx_beside
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.toolchain.cache.layout import PTX


def test_the_ptx_ends_as_the_driver_expects(tmp_path: Path) -> None:
    (tmp_path / PTX).write_text(".version 9.0\n", "utf-8")
    assert ptx_beside(tmp_path / "artifact") == b".version 9.0\n\0"


def test_a_cubin_without_ptx_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KernelFailure) as raised:
        ptx_beside(tmp_path / "artifact")
    assert raised.value.code == "N010"
    assert "NVRTC" in (raised.value.help or "")
