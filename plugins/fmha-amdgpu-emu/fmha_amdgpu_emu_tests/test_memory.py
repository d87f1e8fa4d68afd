"""Live allocations, regions inside them, and the report of an outside address."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.machine import Program, compile_hip, device, place, regions

SOURCE = """
KERNEL void copy(u32* out, const u32* in, u32 shift) { out[TX] = in[TX + shift]; }
"""


def test_places_and_words() -> None:
    with device(np.zeros(4096, np.uint8), "arena") as arena:
        base = arena.ctypes.data
        assert place(base, 4096)[0] == "inside"
        assert place(base + 4093, 4)[0] == "outside"
        assert place(base - 1, 1)[0] == "outside"
        assert place(base - 8, 4)[1].startswith("8 bytes before the start of arena (0x")
        regions(arena, [("k", 1024, 2048), ("q", 128, 512)])
        assert place(base + 128, 384)[0] == "inside"
        assert place(base + 508, 4)[0] == "inside"
        assert place(base + 510, 4)[0] == "guard"
        assert place(base + 512, 1)[0] == "guard"
        assert place(base + 1023, 2)[0] == "guard"
        assert place(base, 4)[0] == "guard"
        assert place(base + 512, 1)[1].startswith("at the end of q (0x")
        assert place(base + 528, 1)[1].startswith("16 bytes behind the end of q (0x")
        assert place(base + 1000, 4)[1].startswith("24 bytes before the start of k (0x")
        assert place(base + 1030, 4)[1].startswith("6 bytes into k (0x")
    where, words = place(base + 128, 4)
    assert where == "outside"
    assert "; arena (0x" in words
    assert "was there until it was freed" in words


def test_read_only_memory() -> None:
    with device(np.zeros(64, np.uint8), "weights", writable=False) as array:
        assert place(array.ctypes.data, 8)[0] == "inside"
        assert place(array.ctypes.data, 8, write=True)[0] == "read-only"


def test_what_a_thread_remembers_dies_with_the_region() -> None:
    """A place that was inside is looked up again after any memory is freed, allocated or named."""
    with device(np.zeros(256, np.uint8), "a") as array:
        base = array.ctypes.data
        assert place(base + 100, 4)[0] == "inside"
        regions(array, [("front", 0, 64)])
        assert place(base + 100, 4)[0] == "guard"
        regions(array, [])
        assert place(base + 100, 4)[0] == "inside"
    assert place(base + 100, 4)[0] == "outside"


def test_an_address_that_wraps() -> None:
    assert place(2**64 - 4, 8)[0] == "outside"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """One kernel that copies 64 words from an offset."""
    return Program(compile_hip("gfx942", SOURCE, tmp_path_factory.mktemp("memory")))


@pytest.mark.parametrize(
    ("shift", "lane", "words"),
    [(32, 32, "at the end of in"), (60, 4, "at the end of in"), (68, 0, "16 bytes behind the end of in")],
)
def test_a_kernel_that_reads_beyond_its_input(program: Program, shift: int, lane: int, words: str) -> None:
    """The finding names the first lane outside and the nearest region; the lane reads zero."""
    room = np.zeros(256, np.uint32)
    data = room[64:128]
    data[:] = np.arange(1, 65)
    with device(np.full(64, 7, np.uint32)) as out, device(data, "in"):
        seen = program.launch("copy", (1, 1, 1), (64, 1, 1), out, data, shift)
    expected = np.zeros(64, np.uint32)
    expected[: max(0, 64 - shift)] = np.arange(1 + shift, 65)
    np.testing.assert_array_equal(out, expected)
    (finding,) = seen["findings"]
    assert (finding["kind"], finding["lane"], finding["kernel"]) == ("out-of-bounds", lane, "copy")
    assert words in finding["text"]
    assert "global_load_dword" in finding["instruction"]


def test_a_kernel_that_writes_into_a_guard(program: Program) -> None:
    """A write to a guard between tensors gives one finding with a count, however often it happens."""
    arena = np.zeros(512, np.uint32)
    with device(arena, "arena"), device(np.arange(64, dtype=np.uint32), "in") as data:
        regions(arena, [("o", 0, 128), ("lse", 1024, 2048)])
        seen = program.launch("copy", (3, 1, 1), (64, 1, 1), arena, data, 0)
    (finding,) = seen["findings"]
    assert finding["kind"] == "out-of-bounds"
    assert "at the end of o" in finding["text"]
    assert finding["lane"] == 32
    assert finding["count"] >= 3
    assert finding["group"] == [0, 0, 0]


def test_a_kernel_that_writes_what_is_read_only(program: Program) -> None:
    with (
        device(np.full(64, 9, np.uint32), "weights", writable=False) as out,
        device(np.zeros(64, np.uint32), "in") as data,
    ):
        seen = program.launch("copy", (1, 1, 1), (64, 1, 1), out, data, 0)
    assert [f["kind"] for f in seen["findings"]] == ["out-of-bounds"]
    assert (out == 9).all()


def test_memory_is_forgotten_between_tests(tmp_path: Path) -> None:
    """Kernel arguments, packets and images of ended launches are no longer device memory."""
    loaded = Program(compile_hip("gfx1201", SOURCE, tmp_path))
    with device(np.zeros(64, np.uint32)) as out, device(np.zeros(64, np.uint32), "in") as data:
        assert loaded.launch("copy", (1, 1, 1), (64, 1, 1), out, data, 0)["findings"] == []
    code = loaded.symbol("copy")
    loaded.close()
    assert place(code, 4)[0] == "outside"
