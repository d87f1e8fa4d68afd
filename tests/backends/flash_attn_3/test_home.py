"""A user's own tree: its known files are those of the pinned source, and an edited header has another digest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fmha_cli.backends.cuda.homes import own_tree
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.domain.errors import UsageError
from fmha_cli.sources.homes import Known
from tests.support.referees.flash_attn_3.program import sources_or_skip


@pytest.mark.slow
@pytest.mark.ci
def test_the_known_files_are_those_of_the_pinned_source(shared_cache: Path, tmp_path: Path) -> None:
    tree = sources_or_skip(shared_cache)
    own = own_tree(UPSTREAM, {"fa3-home": str(tree)}, shared_cache, lambda notice: None)
    assert own is not None
    assert own.edited is None
    edited = tmp_path / "tree"
    shutil.copytree(tree, edited)
    with (edited / UPSTREAM.folders["hopper"] / "softmax.h").open("a") as header:
        header.write("// edited\n")
    own = own_tree(UPSTREAM, {"fa3-home": str(edited)}, shared_cache, lambda notice: None)
    assert own is not None
    assert own.edited is not None
    assert (own.edited.base, own.edited.files) == ("0.0.34", 1)


def test_another_revision_is_not_known(tmp_path: Path) -> None:
    assert len(Known.load("_flash_attn_3_files.json").files) == 836
    with pytest.raises(UsageError, match="--fa3-as 2: no such revision"):
        own_tree(UPSTREAM, {"fa3-home": str(tmp_path), "fa3-as": "2"}, tmp_path, lambda notice: None)
