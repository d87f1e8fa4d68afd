"""Facts that are remembered until a file changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fmha_cli.toolchain.cache.memo import recall, remember, stamps


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    path = tmp_path / "watched"
    path.write_text("1")
    return path


def test_remember_and_recall(tmp_path: Path, watched: Path) -> None:
    memo = tmp_path / "memos" / "m.json"
    assert recall(memo, {"a": 1}) is None
    remember(memo, {"a": 1}, {"answer": [1, 2]}, stamps([str(watched), str(tmp_path / "missing")]))
    assert recall(memo, {"a": 1}) == {"answer": [1, 2]}
    assert recall(memo, {"a": 2}) is None
    assert [path.name for path in memo.parent.iterdir()] == ["m.json"]


@pytest.mark.parametrize("change", ["content", "time", "removal", "appearance"])
def test_a_change_of_a_watched_file_forgets(tmp_path: Path, watched: Path, change: str) -> None:
    memo, missing = tmp_path / "m.json", tmp_path / "missing"
    remember(memo, 0, True, stamps([str(watched), str(missing)]))
    assert recall(memo, 0) is True
    if change == "content":
        before = watched.stat()
        watched.write_text("22")
        os.utime(watched, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "time":
        os.utime(watched, ns=(1, 1))
    elif change == "removal":
        watched.unlink()
    else:
        missing.write_text("")
    assert recall(memo, 0) is None


def test_every_flipped_byte_forgets(tmp_path: Path, watched: Path) -> None:
    memo = tmp_path / "m.json"
    remember(memo, {"q": "question"}, {"path": "/usr/bin/g++"}, stamps([str(watched)]))
    sound = memo.read_bytes()
    for position in range(len(sound)):
        bad = bytearray(sound)
        bad[position] ^= 0x01
        memo.write_bytes(bytes(bad))
        assert recall(memo, {"q": "question"}) is None
    memo.write_bytes(sound)
    assert recall(memo, {"q": "question"}) is not None


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'"x"', b"[" * 100_000, b"\xff"])
def test_garbage_is_nothing(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "m.json").write_bytes(raw)
    assert recall(tmp_path / "m.json", 0) is None


def test_a_memo_that_others_may_write_is_nothing(tmp_path: Path) -> None:
    memo = tmp_path / "m.json"
    remember(memo, 0, True, {})
    memo.chmod(0o666)
    assert recall(memo, 0) is None
