"""A row that cannot fit in memory is refused before the system has to kill a process."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from pathlib import Path

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.run import protocol
from fmha_cli.run.arena import Arena
from fmha_cli.run.layout import layout_of
from fmha_cli.run.protocol import HUGE, map_shared, shared_file


def test_an_arena_that_cannot_fit_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(Problem.from_cli("-b 1 -H 1 -s 64 -d 64"))
    monkeypatch.setattr(protocol, "available_bytes", lambda: layout.size)
    with pytest.raises(MemoryError, match="are available"):  # the inputs are stored twice
        Arena(layout)
    monkeypatch.setattr(protocol, "available_bytes", lambda: None)
    Arena(layout).close()


def test_a_system_that_refuses_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("fmha_cli.run.protocol.os.ftruncate", refuse)
    with pytest.raises(MemoryError, match="No space left"):
        shared_file(4096)
    assert len(os.listdir("/proc/self/fd")) == before


def _advice(mapping: mmap.mmap) -> set[str]:
    """The kernel's flags of a mapping; ``hg`` = it asked for huge pages."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    own, flags = False, set[str]()
    for line in Path("/proc/self/smaps").read_text("ascii").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            own = int(line.partition("-")[0], 16) == address
        elif own and line.startswith("VmFlags:"):
            flags = set(line.split()[1:])
    return flags


@pytest.mark.parametrize(("size", "asks"), [(HUGE, True), (HUGE // 2, False)])
def test_large_tensors_ask_for_huge_pages(size: int, asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = shared_file(size)
    mapping = map_shared(fd, size)
    os.close(fd)
    flags = _advice(mapping)
    if not flags:
        pytest.skip("this system does not tell")
    assert ("hg" in flags) is asks


def test_a_system_without_huge_pages_maps_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmha_cli.run.protocol.mmap.MADV_HUGEPAGE", 12345, raising=False)
    fd = shared_file(HUGE)
    mapping = map_shared(fd, HUGE)
    os.close(fd)
    mapping[HUGE - 1] = 7
    assert mapping[HUGE - 1] == 7


def test_where_there_is_no_memfd_a_nameless_file_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr("fmha_cli.run.protocol.os.memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fd = shared_file(8192)
    first, second = map_shared(fd, 8192), map_shared(fd, 8192)
    os.close(fd)
    first[5000] = 7
    assert second[5000] == 7
    assert list(tmp_path.iterdir()) == []
