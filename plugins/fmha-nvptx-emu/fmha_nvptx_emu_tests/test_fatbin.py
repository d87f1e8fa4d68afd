"""Fatbins that NVIDIA's own ``fatbinary`` made: the driver takes the best text for its device, compressed or not."""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import library

pytest.importorskip("cuda.bindings")

MODES = ("none", "size", "speed", "balance", "default")
TEXT = """.version 8.7
.target {target}
.address_size 64
.visible .entry add(.param .u64 p0, .param .u32 p1) {{
.reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [p0]; ld.param.u32 %r1, [p1]; mov.u32 %r0, %tid.x;
add.s32 %r1, %r1, {number}; mad.wide.u32 %rd1, %r0, 4, %rd0;
st.global.u32 [%rd1], %r1; ret; }}
"""


def tool() -> Path:
    """``fatbinary`` of the wheel ``nvidia-cuda-nvcc``."""
    found = importlib.util.find_spec("nvidia")
    for place in (found.submodule_search_locations or ()) if found else ():
        for path in Path(place).glob("*/bin/fatbinary"):
            return path
    pytest.skip("nvidia-cuda-nvcc is not installed")


def fatbin(folder: Path, name: str, *targets: str, mode: str = "none", kind: str = "ptx") -> Path:
    """A container with one text for each target; the kernel of ``sm_80`` adds 80."""
    images, made = [], folder / name
    for target in targets:
        number = int("".join(filter(str.isdigit, target))) + 1000 * target.endswith("a")
        (folder / target).write_text(TEXT.format(target=target, number=number), "utf-8")
        images.append(f"--image3=kind={kind},sm={target[3:]},file={folder / target}")
    command = [str(tool()), f"--create={made}", f"--compress-mode={mode}", "--64", *images]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def loaded(arch: str, *files: Path) -> list[str]:
    """What ``fatbin_child`` prints."""
    child = Path(__file__).with_name("support") / "fatbin_child.py"
    command = [sys.executable, str(child), library()._name, arch, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.promise("A device loads PTX of its own suffix and of its family's, and the best text of a fatbin.")
def test_every_compression(tmp_path: Path) -> None:
    files = [fatbin(tmp_path, mode, "sm_75", "sm_80", mode=mode) for mode in MODES]
    flags = {struct.unpack_from("<Q", file.read_bytes(), 16 + 40)[0] & 0xA000 for file in files}
    assert flags == {0, 0x2000, 0x8000}  # plain, LZ4 and zstd
    assert loaded("sm_80", *files) == ["80"] * len(MODES)


@pytest.mark.promise("A device loads PTX of its own suffix and of its family's, and the best text of a fatbin.")
def test_the_best_text_for_the_device(tmp_path: Path) -> None:
    files = [
        fatbin(tmp_path, "many", "sm_75", "sm_90", "sm_86", "sm_80"),
        fatbin(tmp_path, "own", "sm_90a", "sm_80"),
        fatbin(tmp_path, "high.wrapped", "sm_120", "sm_75"),
    ]
    assert loaded("sm_89", *files) == ["86", "80", "75"]
    assert loaded("sm_75", *files)[0] == "75"


@pytest.mark.promise("A device loads PTX of its own suffix and of its family's, and the best text of a fatbin.")
def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    whole = fatbin(tmp_path, "whole", "sm_80", mode="size").read_bytes()
    at = 16 + struct.unpack_from("<I", whole, 16 + 4)[0]
    damaged, short, newer = (tmp_path / name for name in ("damaged", "short", "newer"))
    damaged.write_bytes(whole[: at + 20] + bytes(40) + whole[at + 60 :])
    short.write_bytes(whole[:24] + struct.pack("<Q", 1 << 40) + whole[32:])
    newer.write_bytes(whole[:4] + b"\2\0" + whole[6:])
    above = fatbin(tmp_path, "above", "sm_90", "sm_120")
    told = loaded("sm_80", damaged, short, newer, above)
    assert [line[:4] for line in told] == ["200 "] * 3 + ["209 "]
    for line, words in zip(
        told,
        (
            "a compressed text is damaged",
            "a damaged fatbin",
            "a fatbin of an unknown version",
            "no PTX for sm_80: it has PTX for sm_90, PTX for sm_120",
        ),
        strict=True,
    ):
        assert words in line
