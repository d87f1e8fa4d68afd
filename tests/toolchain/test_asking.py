"""Questions to programs whose answers have no room."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fmha_cli.toolchain.asking import ask


def test_a_program_that_fails_has_an_answer(tmp_path: Path) -> None:
    assert not ask(("sh", "-c", "exit 3"), tmp_path).ok
    assert ask(("sh", "-c", "echo 1.2"), tmp_path).text == "1.2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"]


@pytest.mark.parametrize("command", ["exit 1", "true"])
def test_a_full_disk_is_not_the_programs_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device"):
        ask(("sh", "-c", command), tmp_path)
