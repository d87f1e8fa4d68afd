"""The real pins, from the package index. The tests are skipped if it cannot be reached; CI can reach it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.revisions import BASELINE, revisions
from fmha_cli.backends.ck_tile.tree import ck_tree, example_digest, load_known
from fmha_cli.backends.hip.rocm_parts import rocm_parts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.installation import SourceState
from fmha_cli.sources import store
from fmha_cli.sources.homes import look_at
from fmha_cli.sources.pins import pin_of
from fmha_cli.sources.store import fetch_source, standing
from fmha_cli.sources.web import RangedFile
from fmha_cli.toolchain.cache.root import open_root
from tests.sources.conftest import Notices


def fetch(name: str, root: Path, notices: Notices) -> Path:
    try:
        return fetch_source(name, root, offline=False, notify=notices)
    except EnvironmentProblem as error:
        if error.code != "S102":
            raise
        pytest.skip(f"the package index cannot be reached: {error.why}")


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", ["amd-aiter", "flash-attn", "triton-amd"])
def test_what_backends_need(shared_cache: Path, notices: Notices, name: str) -> None:
    folder = fetch(name, shared_cache, notices)
    pin = pin_of(name)
    assert standing(pin, open_root(shared_cache), deep=True).state is SourceState.PRESENT
    for notice in pin.notice:
        assert (folder / notice).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aiter-asm"])
def test_the_others(tmp_path: Path, notices: Notices, name: str) -> None:
    assert fetch(name, tmp_path / "cache", notices).is_dir()


def test_the_pinned_tree_is_the_baseline(shared_cache: Path, notices: Notices) -> None:
    fetch("amd-aiter", shared_cache, notices)
    tree = ck_tree(shared_cache, home=None, offline=True, notify=notices, environ={})
    (baseline,) = (r for r in revisions() if r.name == BASELINE)
    assert tree.revision == BASELINE
    found = look_at(open_root(shared_cache), {"": tree.include / "ck_tile"}, load_known())
    assert found.digest == baseline.headers == tree.digest
    assert found.differing == 0
    assert tree.generator is not None
    assert example_digest(tree.generator) == baseline.example
    named = ck_tree(shared_cache, home=str(tree.include.parent), offline=True, notify=notices)
    assert (named.include, named.revision, named.digest) == (tree.include, BASELINE, tree.digest)


def test_little_of_the_wheel_is_read(tmp_path: Path, notices: Notices, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the server supports ranges, only the needed parts are read: 3 MB of the 188 MB wheel."""
    opened: list[RangedFile] = []

    class Watched(RangedFile):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            opened.append(self)

    monkeypatch.setattr(store, "RangedFile", Watched)
    fetch("triton-amd", tmp_path / "cache", notices)
    if not opened or opened[-1].read_bytes < 100_000:
        pytest.skip("the package index gives whole files only")
    assert opened[-1].read_bytes < 8 << 20


def test_parts_of_rocm(shared_cache: Path, notices: Notices) -> None:
    fetch("triton-amd", shared_cache, notices)
    parts = rocm_parts(shared_cache, offline=True, notify=notices)
    assert parts.version == "7.1.25424"
    assert (parts.include / "hip" / "hip_runtime.h").is_file()
    for library in (parts.ocml, parts.ockl):
        assert library.read_bytes()[:2] == b"BC"
