"""A row that cannot fit is refused before the system has to kill for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fmha_cli.execution import memory
from fmha_cli.execution.arena import Arena
from fmha_cli.execution.free_memory import available_bytes
from fmha_cli.execution.layout import layout_of
from fmha_cli.execution.memory import map_shared, shared_file
from fmha_cli.problem import Problem


def machine(folder: Path, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    return folder / "proc", folder / "cgroup"


MEMINFO = {"proc/meminfo": "MemTotal: 200 kB\nMemAvailable:      100 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (MEMINFO, 102400),
        ({**MEMINFO, "proc/self/cgroup": "0::/\n", "cgroup/memory.max": "max\n"}, 102400),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "1:cpu:/\n0::/job\n",
                "cgroup/job/memory.max": "5000\n",
                "cgroup/job/memory.current": "4000\n",
                "cgroup/job/memory.stat": "anon 1\ninactive_file 500\n",
            },
            1500,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "4:memory:/not/seen/from/inside\n",
                "cgroup/memory/memory.limit_in_bytes": "9000\n",
                "cgroup/memory/memory.usage_in_bytes": "9500\n",
            },
            0,
        ),
    ],
)
def test_the_narrowest_limit_counts(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    assert available_bytes(*machine(tmp_path, files)) == expected


def test_an_arena_that_cannot_fit_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(Problem.from_cli("-b 1 -H 1 -s 64 -d 64"))
    monkeypatch.setattr(memory, "available_bytes", lambda: layout.size)
    with pytest.raises(MemoryError, match="are available"):  # the inputs are held twice
        Arena(layout)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    Arena(layout).close()


def test_a_system_that_refuses_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("fmha_cli.execution.memory.os.ftruncate", refuse)
    with pytest.raises(MemoryError, match="No space left"):
        shared_file(4096)
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_there_is_no_memfd_a_nameless_file_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr("fmha_cli.execution.memory.os.memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fd = shared_file(8192)
    first, second = map_shared(fd, 8192), map_shared(fd, 8192)
    os.close(fd)
    first[5000] = 7
    assert second[5000] == 7
    assert list(tmp_path.iterdir()) == []
