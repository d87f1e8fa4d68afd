"""Which Composable Kernel is used: named, installed or pinned; known, unknown, or known but unsuitable."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile import tree as ck
from fmha_cli.backends.ck_tile.revisions import BASELINE, TreeRevision, known_revisions
from fmha_cli.backends.ck_tile.tree import (
    CkTree,
    ck_tree,
    include_below,
)
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.plan import Edited
from fmha_cli.sources.homes import Known, home_files
from fmha_cli.sources.trees import text_digest
from fmha_cli.toolchain.cache.root import open_root
from tests.sources.conftest import Notices

TEXT = "#pragma once\n#define CK 1\n"


def make_tree(folder: Path, text: str = TEXT, *, example: bool = True, newline: str = "\n", others: int = 19) -> Path:
    """Make a tree that looks like Composable Kernel and return its include folder."""
    tile = folder / "include" / "ck_tile"
    (tile / "core").mkdir(parents=True)
    (tile / "core.hpp").write_text(text, newline=newline)
    (tile / "core" / "config.hpp").write_text(TEXT, newline=newline)
    for number in range(others):
        (tile / "core" / f"{number}.hpp").write_text(TEXT, newline=newline)
    (tile / "README.md").write_text("words")
    if example:
        home = folder / "example" / "ck_tile" / "01_fmha"
        home.mkdir(parents=True)
        (home / "generate.py").write_text("print()\n")
    return folder / "include"


def headers_digest(include: Path) -> str:
    return text_digest(include / "ck_tile", (".hpp",))


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TreeRevision:
    """Make the small tree the only known revision, apart from one that is known to be unsuitable."""
    include = make_tree(tmp_path / "known")
    texts = {name: path.read_bytes() for name, path in home_files({"": include / "ck_tile"}).items()}
    files = {name: hashlib.sha256(text).hexdigest()[:16] for name, text in texts.items()}
    monkeypatch.setattr(ck, "load_known", lambda: Known(BASELINE, files))
    example = ck.example_digest(include.parent / "example" / "ck_tile" / "01_fmha")
    digests = headers_digest(include), example
    base = TreeRevision(BASELINE, "a small CK", "2020-01", "made here", True, True, *digests)
    old = make_tree(tmp_path / "old", "#pragma once\n#define CK 0\n")
    unfit = replace(base, name="old", title="an older CK", headers=headers_digest(old), buildable=False)
    monkeypatch.setattr(ck, "known_revisions", lambda: (base, unfit))
    return base


@pytest.fixture
def notices() -> Notices:
    return Notices()


@pytest.fixture(autouse=True)
def _no_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ck, "_find_installed", lambda environ: [Path(p) for p in environ.get("TREES", "").split(":") if p]
    )


def found(
    tmp_path: Path, notices: Notices, home: Path | None = None, trees: str = "", taken_as: str | None = None
) -> CkTree:
    return ck_tree(
        tmp_path / "cache",
        home=str(home) if home else None,
        taken_as=taken_as,
        offline=True,
        notify=notices,
        environ={"TREES": trees},
    )


@pytest.mark.parametrize(
    "below", [".", "projects/composablekernel", "3rdparty/composable_kernel", "aiter_meta/3rdparty/composable_kernel"]
)
def test_checkouts(tmp_path: Path, notices: Notices, known: TreeRevision, below: str) -> None:
    home = tmp_path / "checkout"
    include = make_tree(home / below)
    tree = found(tmp_path, notices, home)
    assert tree.include == include
    assert tree.revision == BASELINE
    assert tree.digest == known.headers
    assert tree.generator == include.parent / "example" / "ck_tile" / "01_fmha"
    assert tree.notes == ()
    assert str(home) in tree.origin
    assert include_below(include) == include


def test_a_folder_of_headers(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    include = make_tree(tmp_path / "x", example=False)
    tree = found(tmp_path, notices, include)
    assert (tree.include, tree.example, tree.generator) == (include, None, None)


def test_line_endings_do_not_count(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    make_tree(tmp_path / "dos", newline="\r\n")
    assert found(tmp_path, notices, tmp_path / "dos").digest == known.headers


def test_what_is_no_header_does_not_count(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    include = make_tree(tmp_path / "x")
    (include / "ck_tile" / "README.md").unlink()
    assert found(tmp_path, notices, include).revision == BASELINE


def test_another_generator_is_noted(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    include = make_tree(tmp_path / "x")
    (include.parent / "example" / "ck_tile" / "01_fmha" / "generate.py").write_text("print(1)\n")
    tree = found(tmp_path, notices, include.parent)
    assert "generator" in tree.notes[0]


def test_a_named_tree_that_is_unknown_is_refused(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    make_tree(tmp_path / "x", TEXT + "// changed\n", others=17)
    with pytest.raises(EnvironmentProblem) as caught:
        found(tmp_path, notices, tmp_path / "x")
    error = caught.value
    assert (error.code, int(error.exit_code)) == ("S106", 4)
    for part in (BASELINE, known.date, known.headers[:12], "old", "3 files differ from the 21"):
        assert part in (error.why or "")
    assert "--ck-as baseline" in (error.help or "")


def test_a_named_tree_that_is_unfit_is_refused(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        found(tmp_path, notices, tmp_path / "old")
    assert caught.value.code == "S106"
    assert "an older CK" in caught.value.what


def test_a_named_folder_without_ck_is_refused(tmp_path: Path, notices: Notices) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        found(tmp_path, notices, tmp_path)
    assert caught.value.code == "S105"


def test_a_changed_tree_is_seen_again(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    include = make_tree(tmp_path / "x")
    before = found(tmp_path, notices, include)
    assert (before.revision, before.edited) == (BASELINE, None)
    (include / "ck_tile" / "new.hpp").write_text("")
    after = found(tmp_path, notices, include)
    assert after.edited == Edited(base=BASELINE, tree=after.digest, files=1)
    assert after.digest != before.digest


@pytest.mark.promise("An edited tree is built by the rules of its revision, marked, and compared with the old one.")
def test_an_edited_copy_of_the_baseline_is_built_by_its_rules(
    tmp_path: Path, notices: Notices, known: TreeRevision
) -> None:
    make_tree(tmp_path / "x", TEXT + "// changed\n", others=18)
    tree = found(tmp_path, notices, tmp_path / "x")
    assert tree.edited == Edited(base=BASELINE, tree=tree.digest, files=2)
    assert tree.revision == BASELINE
    assert tree.digest != known.headers
    assert "baseline, edited (2 files differ): core.hpp, core/18.hpp (missing)" in notices.text


@pytest.mark.parametrize("home", ["far", "old"])
def test_a_tree_is_built_by_the_rules_that_the_user_names(
    tmp_path: Path, notices: Notices, known: TreeRevision, home: str
) -> None:
    """Also a tree that is far from every revision, and one of a revision that cannot be built by its own rules."""
    make_tree(tmp_path / "far", TEXT + "// changed\n", others=3)
    tree = found(tmp_path, notices, tmp_path / home, taken_as="baseline")
    assert tree.edited is not None
    assert (tree.revision, tree.edited.files) == (BASELINE, {"far": 17, "old": 1}[home])
    make_tree(tmp_path / "same")
    same = found(tmp_path, notices, tmp_path / "same", taken_as="baseline")
    assert (same.digest, same.edited) == (known.headers, None)


def test_the_revision_that_the_user_names_must_be_one_that_is_built(
    tmp_path: Path, notices: Notices, known: TreeRevision
) -> None:
    with pytest.raises(UsageError, match="--ck-as nonsense") as usage:
        found(tmp_path, notices, tmp_path / "known", taken_as="nonsense")
    assert usage.value.code == "F007"
    with pytest.raises(EnvironmentProblem) as caught:
        found(tmp_path, notices, tmp_path / "known", taken_as="2026-08")
    assert caught.value.code == "S106"


def test_what_changes_during_a_compile_is_refused(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    include = make_tree(tmp_path / "x")
    tree = found(tmp_path, notices, include)
    layout = open_root(tmp_path / "cache")
    assert tree.home is not None
    tree.home.require_same(layout, str(include))
    (include / "ck_tile" / "core.hpp").write_text(TEXT + "// saved now\n")
    with pytest.raises(EnvironmentProblem) as caught:
        tree.home.require_same(layout, str(include))
    assert caught.value.code == "S107"


def test_the_list_of_the_baselines_headers() -> None:
    """It agrees with the digest that identifies the revision, which covers the whole digests of the same files."""
    assert ck.Known.load(ck._FILES).name == BASELINE
    assert len(ck.load_known().files) == 421


@pytest.mark.slow
def test_the_pinned_tree_is_the_listed_one(tmp_path: Path, shared_cache: Path) -> None:
    pinned = ck.pinned_tree(shared_cache, offline=False, notify=Notices())
    tree = ck_tree(shared_cache, home=str(pinned.include), offline=True, notify=Notices())
    assert (tree.digest, tree.edited, tree.home and tree.home.differing) == (pinned.digest, None, 0)
    assert tree.revision == BASELINE


def test_an_installed_tree_is_taken_when_known(tmp_path: Path, notices: Notices, known: TreeRevision) -> None:
    include = make_tree(tmp_path / "rocm", example=False)
    tree = found(tmp_path, notices, trees=str(include))
    assert tree.include == include
    assert "installed ROCm" in tree.origin
    assert notices.said == []


def test_an_installed_tree_that_is_unknown_is_passed_over(
    tmp_path: Path, notices: Notices, known: TreeRevision
) -> None:
    include = make_tree(tmp_path / "rocm", "// other\n")
    with pytest.raises(EnvironmentProblem) as caught:
        found(tmp_path, notices, trees=str(include))
    assert caught.value.code == "S101"  # the pinned source comes next and is missing here
    assert str(include) in notices.text
    assert "unknown" in notices.text


def test_installed_trees_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    make_tree(tmp_path / "rocm")
    assert tmp_path / "rocm" / "include" in ck._find_installed({"ROCM_PATH": str(tmp_path / "rocm")})
    assert tmp_path / "rocm" / "include" not in ck._find_installed({})


def test_the_file_of_revisions() -> None:
    found = known_revisions()
    assert [r.name for r in found if r.buildable] == [BASELINE]
    seen = [r for r in found if r.headers]
    assert len({r.headers for r in seen}) == len(seen) == 2
