"""The argument block: libraries are compiled with the host's layout, and a different layout is detected."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path

import pytest

from fmha_cli.codegen import struct
from fmha_cli.codegen.abi import PREFIX, VERSION, FmhaCpuArgs
from fmha_cli.codegen.struct import ArgumentBlock, Float32, Int32, Int64, UInt64


@dataclass(frozen=True, kw_only=True)
class Block:
    """A small block with padding inside."""

    small: Int32 = 0
    large: Int64 = 0
    seed: UInt64 = 0
    scale: Float32 = 0.0


def library(text: str, folder: Path) -> ctypes.CDLL:
    source, out = folder / "abi.cpp", folder / "abi.so"
    head = "#include <stddef.h>\n#include <stdint.h>\n#define EXPORT\n"
    source.write_text(head + text)
    subprocess.run(["c++", "-shared", "-fPIC", str(source), "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def text_of(block: type, version: int = 1) -> str:
    return struct.struct_text(block) + struct.table_text(block, "t", version)


@pytest.mark.parametrize("block", [Block, FmhaCpuArgs])
def test_compiled_layout_is_the_hosts(block: type, tmp_path: Path) -> None:
    assert struct.layout_faults(library(text_of(block), tmp_path), block, "t", 1) == []


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("  int32_t small;", "  int64_t small;", "small"),
        ("  int64_t large;\n  uint64_t seed;", "  uint64_t seed;\n  int64_t large;", "large"),
        ("  float scale;", "  double scale;", "scale"),
        ("  float scale;", "  float scale;\n  double added;", "sizeof"),
    ],
)
def test_a_drifted_layout_is_named(old: str, new: str, names: str, tmp_path: Path) -> None:
    text = text_of(Block)
    assert old in text
    faults = struct.layout_faults(library(text.replace(old, new), tmp_path), Block, "t", 1)
    assert any(names in fault for fault in faults), faults


def test_another_version_is_named(tmp_path: Path) -> None:
    faults = struct.layout_faults(library(text_of(Block, version=2), tmp_path), Block, "t", 1)
    assert faults == ["ABI version 2, the host expects 1"]


def test_two_fields_that_changed_names_are_told_apart(tmp_path: Path) -> None:
    text = text_of(FmhaCpuArgs).replace("q_len k_start", "k_start q_len")
    assert len(struct.layout_faults(library(text, tmp_path), FmhaCpuArgs, "t", 1)) == 2


def test_a_library_without_a_table(tmp_path: Path) -> None:
    faults = struct.layout_faults(library("int nothing;", tmp_path), FmhaCpuArgs, PREFIX, VERSION)
    assert len(faults) == 1
    assert "no ABI table" in faults[0]


def test_values_reach_their_fields() -> None:
    packed = struct.pack(Block(small=-3, large=1 << 40, seed=2**64 - 1, scale=0.5))
    assert (packed.small, packed.large, packed.seed, packed.scale) == (-3, 1 << 40, 2**64 - 1, 0.5)  # type: ignore[attr-defined]


def test_a_field_without_c_type_is_refused() -> None:
    @dataclass
    class Bare:
        x: int

    with pytest.raises(TypeError, match="no C type"):
        struct.c_fields(Bare)


class Sizes(ArgumentBlock):
    """A base with a required and an optional field."""

    rows = ((Int64, "batch"), (Int32, "left", -1))


class Scaled(Sizes):
    """A block that adds two fields of one type."""

    rows = ((Float32, "scale softcap", 0.0),)


def test_rows_are_the_fields_of_a_dataclass() -> None:
    assert [name for name, _ in struct.c_fields(Scaled)] == ["batch", "left", "scale", "softcap"]
    assert vars(Scaled(batch=2, softcap=1.5)) == {"batch": 2, "left": -1, "scale": 0.0, "softcap": 1.5}
    assert Scaled(batch=1) == Scaled(batch=1) != Scaled(batch=2)
    with pytest.raises(TypeError, match="batch"):
        Scaled()
    with pytest.raises(TypeError, match="nothing"):
        Scaled(batch=1, nothing=0)
    with pytest.raises(FrozenInstanceError):
        Scaled(batch=1).left = 0
