"""What an emulated device loads: the PTX next to a cubin, and the cubin."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.cuda.emulated_image import emulated_image
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.toolchain.cache.layout import PTX


def test_the_container_has_the_text_and_the_cubin(tmp_path: Path) -> None:
    (tmp_path / PTX).write_text(".version 9.0\n.target sm_90a\n", "utf-8")
    (tmp_path / "artifact").write_bytes(b"\x7fELF and so on")
    image = emulated_image(tmp_path / "artifact")
    word = lambda at, size=4: int.from_bytes(image[at : at + size], "little")  # noqa: E731
    assert (word(0), word(4, 2), word(6, 2), word(8, 8)) == (0xBA55ED50, 1, 16, len(image) - 16)
    text, cubin = 16, 16 + 64 + word(16 + 8, 8)
    assert (word(text, 2), word(text + 4), word(text + 28)) == (1, 64, 90)
    assert image[text + 64 :].startswith(b".version 9.0\n.target sm_90a\n\0")
    assert (word(cubin, 2), word(cubin + 28)) == (2, 90)
    assert image[cubin + 64 :].rstrip(b"\0") == b"\x7fELF and so on"


def test_a_cubin_without_ptx_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KernelFailure) as raised:
        emulated_image(tmp_path / "artifact")
    assert raised.value.code == "N010"
    assert "NVRTC" in (raised.value.help or "")
