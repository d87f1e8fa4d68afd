"""Edited trees on the command line: what is built from which tree, and where it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Fmha
from tests.cli.test_commands import faults_of
from tests.support.fakes import tree_backend
from tests.support.fixtures.tree import tree

__all__ = ["tree"]

K = tree_backend.KERNEL.name
SMALL = ("--backend", "tree", "-H", "1", "-s", "8", "-d", "8", "--dtype", "fp32", "--budget", "0.02")
EDITED = "first, edited (1 file differs)"


def test_two_trees_are_benched_side_by_side(fmha: Fmha, tree: Path, tmp_path: Path) -> None:
    edited = tree_backend.make(tmp_path / "edited", kernel="another way\n")
    argv = ("bench", *SMALL, "--ab", K, f"{K}@{edited}")
    done = fmha(*argv, "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    stages = [row["stages"][0] for row in done.document["records"]]
    assert [stage["edited"] and stage["edited"]["files"] for stage in stages] == [None, 1]
    assert stages[0]["artifact_sha256"] != stages[1]["artifact_sha256"]
    assert f"2: source: {EDITED}" in fmha(*argv).out


def test_a_mistake_in_the_tree_is_exit_1(fmha: Fmha, tree: Path, tmp_path: Path) -> None:
    edited = tree_backend.make(tmp_path / "edited", kernel="wrong\n")
    assert fmha("bench", *SMALL, "--ab", K, f"{K}@{edited}").code == 1


@pytest.mark.promise("An edited tree is built by the rules of its revision, marked, and compared with the old one.")
@pytest.mark.slow
@pytest.mark.ci
def test_inspect_compares_two_trees(fmha: Fmha, tree: Path, tmp_path: Path) -> None:
    edited = tree_backend.make(tmp_path / "edited", kernel="another way\n")
    done = fmha("inspect", "--arch", "null", "--diff", K, f"{K}@{edited}", "--json")
    assert done.code == 0, done.err
    assert faults_of(done.document) == []
    refused = fmha("inspect", "--arch", "null", "--diff", K, f"{K}@")
    assert (refused.code, "--diff" in refused.err) == (2, True)
    others = fmha("list-kernels", "--backend", "cpu", "--arch", "generic", "--json").document["kernels"]
    name = others[0]["name"]
    none = fmha("inspect", "--diff", name, f"{name}@{edited}")
    assert (none.code, "E016" in none.err, "--diff" in none.err) == (2, True, True)


def test_a_revision_without_a_tree_is_refused(fmha: Fmha, tree: Path) -> None:
    done = fmha("run", "-s", "8", "--backend", "cpu", "--ck-as", "baseline")
    assert (done.code, "--ck-as" in done.err, "--ck-home" in done.err) == (2, True, True)
    by_variable = fmha("run", "-s", "8", "--backend", "cpu", "--dry-run", FMHA_CK_AS="baseline")
    assert by_variable.code == 0
