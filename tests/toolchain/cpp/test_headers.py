"""Digests of header trees, and the dependency rules that compilers print."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.toolchain.cpp.headers import files_digest, listing_source, parse_dependencies, tree_digest


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("a.o: a.cpp /usr/include/x.h\n", ["a.cpp", "/usr/include/x.h"]),
        ("a.o: a.cpp \\\n /usr/include/x.h \\\n  y.h\n", ["a.cpp", "/usr/include/x.h", "y.h"]),
        ("a.o: with\\ space.h da$$h.h ha\\#sh.h\n", ["with space.h", "da$h.h", "ha#sh.h"]),
        ("a.o:\n", []),
    ],
)
def test_parse_dependencies(rule: str, found: list[str]) -> None:
    assert parse_dependencies(rule) == found


def make_tree(root: Path) -> Path:
    (root / "sub").mkdir(parents=True)
    (root / "a.hpp").write_text("a")
    (root / "sub" / "b.h").write_text("b")
    (root / "notes.txt").write_text("no header")
    return root


def test_a_tree_has_one_digest_wherever_it_lies(tmp_path: Path) -> None:
    one, two = make_tree(tmp_path / "one"), make_tree(tmp_path / "two")
    assert tree_digest(one) == tree_digest(two)
    (two / "notes.txt").write_text("changed")
    assert tree_digest(one) == tree_digest(two)


@pytest.mark.parametrize("change", ["content", "name", "more", "less", "moved"])
def test_every_change_of_a_header_changes_the_digest(tmp_path: Path, change: str) -> None:
    root = make_tree(tmp_path / "one")
    before = tree_digest(root)
    if change == "content":
        (root / "sub" / "b.h").write_text("c")
    elif change == "name":
        (root / "sub" / "b.h").rename(root / "sub" / "c.h")
    elif change == "more":
        (root / "c.h").write_text("")
    elif change == "less":
        (root / "a.hpp").unlink()
    else:
        (root / "a.hpp").rename(root / "sub" / "a.hpp")
    assert tree_digest(root) != before


def test_files_digest_ignores_order_and_repetition(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "one")
    a, b = root / "a.hpp", root / "sub" / "b.h"
    assert files_digest([a, b]) == files_digest([b, a, b])
    before = files_digest([a, b])
    b.write_text("x")
    assert files_digest([a, b]) != before


def test_optional_headers_are_guarded() -> None:
    lines = listing_source().splitlines()
    assert lines.index("#include <omp.h>") == lines.index("#if __has_include(<omp.h>)") + 1
    assert lines.count("#endif") == 3
