"""Trees of sources that the user names: what counts, what differs, and when a file is read again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from fmha_cli.domain.wording import listed
from fmha_cli.sources import homes
from fmha_cli.sources.homes import Home, Known, home_files, look_at
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root

pytestmark = pytest.mark.promise("Kernels are built from pinned sources, and NVRTC needs no GPU.")

FILES = {"a.hpp": "int a;\n", "deep/b.inc": "int b;\n", "deep/c.h": "int c;\n"}
KNOWN = Known("base", {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in FILES.items()})
HOUR_AGO = 1_700_000_000


@pytest.fixture
def layout(tmp_path: Path) -> CacheLayout:
    return open_root(tmp_path / "cache")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, text in FILES.items():
        written(root / name, text)
    return root


def written(path: Path, text: str, when: int = HOUR_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (when, when))


def seen(layout: CacheLayout, tree: Path) -> Home:
    return look_at(layout, {"": tree}, KNOWN)


def test_the_known_state(layout: CacheLayout, tree: Path) -> None:
    found = seen(layout, tree)
    assert (found.differing, found.edited, found.near, found.lines) == (0, None, True, ())


def test_every_way_to_differ(layout: CacheLayout, tree: Path) -> None:
    written(tree / "a.hpp", "int a = 1;\n")
    written(tree / "new.cuh", "")
    (tree / "deep/c.h").unlink()
    found = seen(layout, tree)
    assert found.lines == ("a.hpp", "new.cuh (new)", "deep/c.h (missing)")
    assert found.edited is not None
    assert (found.edited.base, found.edited.tree, found.edited.files) == ("base", found.digest, 3)
    assert not found.near
    assert listed(found.lines, 2) == "a.hpp, new.cuh (new) and 1 more"


@pytest.mark.parametrize(
    ("unchanged", "near"), [(20, True), (18, True), (17, False), (8, False)], ids=["all", "two edited", "three", "far"]
)
def test_near_is_nine_tenths_of_the_known_files(unchanged: int, near: bool) -> None:
    known = Known("base", {str(number): "" for number in range(20)})
    changed = tuple(str(number) for number in range(20 - unchanged))
    assert Home("0" * 64, {}, known, changed, ("any", "new"), ()).near is near


@pytest.mark.promise("A compile during which the user's tree changes is not kept.")
@pytest.mark.parametrize("name", ["README.md", "a.hpp~", ".#a.hpp", ".git/x.h", "a.hpp.orig", "build/a.o", "tool.py"])
def test_what_no_kernel_includes_does_not_count(layout: CacheLayout, tree: Path, name: str) -> None:
    written(tree / name, "x")
    assert seen(layout, tree).differing == 0


@pytest.mark.promise("A compile during which the user's tree changes is not kept.")
def test_line_endings_do_not_count(layout: CacheLayout, tree: Path) -> None:
    before = seen(layout, tree).digest
    (tree / "a.hpp").write_bytes(b"int a;\r\n")
    assert seen(layout, tree).digest == before


def test_links_count_as_what_they_lead_to(layout: CacheLayout, tree: Path, tmp_path: Path) -> None:
    """A compiler follows them, so an edit behind one is an edit of the tree."""
    (tree / "deep").rename(tmp_path / "elsewhere")
    (tree / "deep").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tree)
    (tree / "dangling.h").symlink_to(tmp_path / "nothing")
    assert seen(layout, tree).differing == 0
    written(tmp_path / "elsewhere" / "b.inc", "int b = 2;\n")
    assert seen(layout, tree).lines == ("deep/b.inc",)


@pytest.mark.promise("A compile during which the user's tree changes is not kept.")
def test_files_are_read_again_only_after_a_change(
    layout: CacheLayout, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = homes._text_sha256
    monkeypatch.setattr(homes, "_text_sha256", lambda path: (read.append(path.name), real(path))[1])
    first = seen(layout, tree)
    assert len(read) == 3
    assert seen(layout, tree) == first
    assert len(read) == 3
    written(tree / "a.hpp", "int A;\n", HOUR_AGO + 1)
    assert seen(layout, tree).digest != first.digest
    assert len(read) == 6
    assert look_at(layout, {"": tree}, Known("other", {})).differing == 3
    assert len(read) == 9


@pytest.mark.promise("A compile during which the user's tree changes is not kept.")
def test_a_file_that_changed_just_now_is_read_again(layout: CacheLayout, tree: Path) -> None:
    """It could change once more without a new time, as in a loop that edits and builds."""
    path = tree / "a.hpp"
    path.write_text("int x;\n")
    stamp = path.stat()
    before = seen(layout, tree).digest
    path.write_text("int y;\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert seen(layout, tree).digest != before


def test_a_cache_that_cannot_be_written_costs_only_time(
    layout: CacheLayout, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*of: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(homes, "remember", full)
    assert seen(layout, tree).differing == 0


def test_parts_give_names_their_beginnings(tree: Path) -> None:
    assert sorted(home_files({"x": tree, "y": tree / "deep"})) == [
        *("x/a.hpp", "x/deep/b.inc", "x/deep/c.h", "y/b.inc", "y/c.h")
    ]
    with pytest.raises(OSError):
        home_files({"": tree / "nothing"})
