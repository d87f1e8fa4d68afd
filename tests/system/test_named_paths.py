"""The path that a name of a user means: absolute, and short where that changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.system.files import named_path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``a/b`` and ``far/c``, with ``a/link`` to the latter; ``a`` is the working directory."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "far" / "c").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "far" / "c")
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("../ck/mine", "ck/mine"),
        ("b/../c", "a/c"),
        ("./b", "a/b"),
        ("link/x", "a/link/x"),
        ("link/../x", "a/link/../x"),  # far/x, not a/x
        ("~/ck", "home/ck"),
    ],
)
def test_the_path_of_a_name(tree: Path, given: str, path: str) -> None:
    assert str(named_path(given)) == f"{tree}/{path}"
    assert named_path(given).resolve() == Path(given).expanduser().resolve()
