"""Blocks with nested structs and aligned members, and where such a block is among a kernel's arguments."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from pathlib import Path
from typing import Annotated, Any

import pytest

from fmha_cli.backends.cuda.launch import argument_bytes
from fmha_cli.backends.cuda.tables import Expected, check_exports
from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.cuda.upstream_session import LoadedCubin
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.codegen.cuda import VERSION, exports_text
from fmha_cli.codegen.cudnn_oss.facts import kernels
from fmha_cli.codegen.struct import (
    ArgumentBlock,
    CType,
    Int32,
    Pointer,
    block_alignment,
    ctypes_structure,
    host_layout,
)
from fmha_cli.domain.errors import KernelFailure
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.fakes.played_maps import played_map

Descriptor = Annotated[Any, CType("Map", ctypes.c_uint64 * 16, 64)]


Behind = Annotated[int, CType("int32_t", ctypes.c_int32, 64)]
"""The first member of a struct behind one whose size is a multiple of 64."""


class Nested(ArgumentBlock):
    """The members of two structs inside a block, in order. ``__`` stands for a dot."""

    rows = ((Pointer, "main__q"), (Descriptor, "main__map"), (Int32, "main__n"), (Behind, "tail__splits"))


TEXT = """
#include <cstddef>
#include <cstdint>
struct alignas(64) Map { uint64_t words[16]; };
struct Main { void* q; Map map; int32_t n; };
struct Tail { int32_t splits; };
struct Params { Main main; Tail tail; };
#define FMHA_EXPORT
"""
MAP = TensorMap(address=64, element="FLOAT16", shape=(64, 8), strides=(128,), box=(64, 8))


SIZE = 320


def compiled(text: str, folder: Path) -> tuple[int, dict[str, tuple[int, int]]]:
    """The size of the block and its members' offsets and sizes for a C++ compiler, by the tables that a cubin exports."""
    source, out = folder / "block.cpp", folder / "block.so"
    source.write_text(text + exports_text("k", Nested, ["0"], "0"), "utf-8")
    subprocess.run(["c++", "-shared", "-fPIC", str(source), "-o", str(out)], check=True)
    names = [name for name, _, _ in host_layout(Nested)]
    words = (ctypes.c_uint32 * (3 + 2 * len(names))).in_dll(ctypes.CDLL(str(out)), "k_abi_table")
    return words[1], dict(zip(names, zip(words[3::2], words[4::2], strict=True), strict=True))


def test_the_compiler_lays_nested_and_aligned_members_out_as_the_host_does(tmp_path: Path) -> None:
    ours = {name: (offset, size) for name, offset, size in host_layout(Nested)}
    assert ours == {"main__q": (0, 8), "main__map": (64, 128), "main__n": (192, 4), "tail__splits": (256, 4)}
    assert compiled(TEXT, tmp_path) == (ctypes.sizeof(ctypes_structure(Nested)), ours) == (SIZE, ours)
    assert block_alignment(Nested) == 64


def test_another_alignment_in_the_kernel_moves_the_member(tmp_path: Path) -> None:
    size, found = compiled(TEXT.replace("alignas(64) ", ""), tmp_path)
    assert (size, found["main__map"]) == (152, (8, 128))


@pytest.mark.parametrize("lead", [48, 0])
def test_the_block_begins_where_the_compiler_aligned_it(lead: int) -> None:
    """48 bytes behind 0x210 of the constant bank are a multiple of 64."""
    found = check_exports(cubin(lead), KERNEL, EXPECTED)
    assert found.lead == lead
    block = Nested(main__q=1 << 40, main__map=MAP, main__n=-2, tail__splits=7)
    raw = argument_bytes(block, (), played_map, lead=found.lead)
    assert len(raw) == lead + SIZE
    assert raw[:lead] == bytes(lead)
    assert raw[lead + 64 : lead + 192] == played_map(MAP)
    assert raw[lead + 256 : lead + 260] == b"\7\0\0\0"


def test_a_place_that_no_alignment_explains_is_refused() -> None:
    with pytest.raises(KernelFailure, match="does not match the host") as caught:
        check_exports(cubin(64), KERNEL, EXPECTED)
    assert "its arguments" in (caught.value.why or "")


EXPECTED = Expected(symbol="k", block=Nested, threads=128, shared_bytes=0)
KERNEL = kernels("sm_90a")[0]


def cubin(lead: int) -> bytes:
    """A cubin of a kernel that takes the block, which the compiler has put at ``lead``."""
    rows = host_layout(Nested)
    numbers = (VERSION, SIZE, len(rows), *(number for _, offset, size in rows for number in (offset, size)))
    data = {
        "k_abi_table": struct.pack(f"<{len(numbers)}I", *numbers),
        "k_abi_names": " ".join(name for name, _, _ in rows).encode() + b"\0",
        "k_facts": bytes(4),
    }
    return tiny_cubin("k", (SIZE,), accelerated=True, data=data, lead=lead)


class Calls:
    """Stands for the driver and keeps its calls."""

    lost, arguments_end, driver = False, 0, None

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def call(self, *words: Any) -> str:
        self.made.append(words)
        return "made"


@pytest.mark.parametrize("lead", [48, 0])
def test_a_loaded_kernel_is_launched_with_the_block_at_its_place(lead: int, tmp_path: Path) -> None:
    path, cuda = tmp_path / "artifact", Calls()
    path.write_bytes(cubin(lead))
    loaded = LoadedCubin(cuda, KERNEL, path, EXPECTED)  # type: ignore[arg-type]
    block = Nested(main__q=7, main__map=(), main__n=0, tail__splits=9)
    prepared = loaded.prepare(block, Launch((1, 1, 1), (128, 1, 1)))
    prepared("stream")
    _, address, _, size, end = (ctypes.c_void_p * 5).from_address(cuda.made[-1][-1])
    assert end is None
    assert ctypes.c_size_t.from_address(size).value == lead + SIZE
    raw = ctypes.string_at(address, lead + SIZE)
    assert (raw[lead], raw[lead + 256], sum(raw)) == (7, 9, 16)
