"""``--ab K K@DIR``: one kernel from two trees of sources, each with its own identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.emulation import Executed
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.counts import compared_counts
from fmha_cli.report.parts import SelectedBy
from fmha_cli.report.record import Record
from fmha_cli.run.records import repro_line
from fmha_cli.run.request import Command, NamedKernel, Request
from fmha_cli.run.run import Run
from tests.support.fakes import emulator as fake_emulator
from tests.support.fakes import tree_backend
from tests.support.fixtures.emulated import Told
from tests.support.fixtures.tree import tree

pytestmark = pytest.mark.promise(
    "An edited tree is built by the rules of its revision, marked, and compared with the old one."
)

__all__ = ["tree"]

PROBLEM = api.Problem.from_cli("-H 1 -s 8 -d 8 --dtype fp32")
K = tree_backend.KERNEL.name


def bench(a: str, b: str, **more: str | None) -> tuple[Record, Record]:
    request = Request(command=Command.BENCH, backend="tree", ab=(a, b), budget_s=0.02, **more)  # type: ignore[arg-type]
    first, second = Run((PROBLEM,), request, build_registry()).records()
    return first, second


@pytest.mark.parametrize(
    ("text", "kernel", "home"),
    [("K", "K", None), ("K@/a/b", "K", "/a/b"), ("12345678@a@b", "12345678", "a@b"), ("a:b:c:d:e@.", "a:b:c:d:e", ".")],
)
def test_a_side_is_a_kernel_and_perhaps_a_tree(text: str, kernel: str, home: str | None) -> None:
    assert NamedKernel.parse(text, "--ab") == NamedKernel(kernel, home)


@pytest.mark.parametrize("text", ["@", "@DIR", "K@", ""])
def test_half_a_side_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        NamedKernel.parse(text, "--ab")
    assert caught.value.code == "E002"


@pytest.mark.promise("An edited tree is built by the rules of its revision, marked, and compared with the old one.")
def test_the_old_and_the_edited_tree(tree: Path, tmp_path: Path) -> None:
    edited = tree_backend.make(tmp_path / "edited", kernel="wrong\n")
    old, new = bench(K, f"{K}@{edited}")
    assert (old.verdict, new.verdict) == (Verdict.PASSED, Verdict.WRONG)
    assert old.kernel == new.kernel
    assert (old.selected_by, new.selected_by) == (SelectedBy.PAIR, SelectedBy.PAIR)
    assert old.stages[0].artifact_sha256 != new.stages[0].artifact_sha256
    assert old.stages[0].edited is None
    assert new.stages[0].edited is not None
    assert (new.stages[0].edited.base, new.stages[0].edited.files) == ("first", 1)


@pytest.mark.slow
@pytest.mark.ci
def test_a_harmless_edit_is_timed_against_the_old_tree(tree: Path, tmp_path: Path) -> None:
    edited = tree_backend.make(tmp_path / "edited", kernel="another way\n")
    old, new = bench(f"{K}@{tree}", f"{K}@{edited}")
    assert (old.verdict, new.verdict) == (Verdict.PASSED, Verdict.PASSED)
    assert old.ab is not None
    assert new.ab is not None
    assert (old.ab.against, new.ab.against) == (f"{K}@{edited}", f"{K}@{tree}")
    assert old.stages[0].artifact_sha256 != new.stages[0].artifact_sha256


@pytest.mark.slow
@pytest.mark.ci
def test_an_unedited_tree_is_an_a_a_test(tree: Path) -> None:
    pinned, named = bench(K, f"{K}@{tree}")
    assert pinned.stages[0].artifact_sha256 == named.stages[0].artifact_sha256
    assert (named.verdict, named.stages[0].edited) == (Verdict.PASSED, None)
    assert named.ab is not None


@pytest.mark.slow
@pytest.mark.ci
def test_a_tree_that_does_not_compile_costs_its_own_row(tree: Path, tmp_path: Path) -> None:
    old, new = bench(K, f"{K}@{tree_backend.make(tmp_path / 'edited', kernel='broken')}")
    assert (old.verdict, new.verdict) == (Verdict.PASSED, Verdict.BUILD_FAILED)
    assert "kernel.h:1: error: broken" in new.notes[0]


def test_a_tree_that_is_not_there(tree: Path, tmp_path: Path) -> None:
    old, new = bench(K, f"{K}@{tmp_path / 'nowhere'}")
    assert (old.verdict, new.verdict) == (Verdict.PASSED, Verdict.NOT_RUN)


def test_a_backend_without_replaceable_sources(tree: Path, tmp_path: Path) -> None:
    honest = next(k for k in api.list_kernels("null", backend="null") if "dtype=fp32" in k.name).name
    request = Request(command=Command.BENCH, backend="null", ab=(honest, f"{honest}@{tree}"))
    with pytest.raises(UsageError) as caught:
        Run((PROBLEM,), request, build_registry()).finish()
    assert caught.value.code == "E016"
    assert "tree" in (caught.value.help or "")


@pytest.mark.slow
@pytest.mark.ci
def test_a_journal_knows_the_trees(tree: Path, tmp_path: Path) -> None:
    """Another folder, and the same folder with another content, are another invocation."""
    edited, journal = tree_backend.make(tmp_path / "edited", kernel="one\n"), str(tmp_path / "journal")
    bench(K, f"{K}@{edited}", journal=journal)
    first, second = bench(K, f"{K}@{edited}", resume=journal)
    assert (first.stages[0].edited is None, second.stages[0].edited is None) == (True, False)
    with pytest.raises(UsageError, match="--ab is"):
        bench(K, f"{K}@{tree_backend.make(tmp_path / 'other', kernel='one')}", resume=journal)
    with pytest.raises(UsageError, match="--ab is"):
        bench(f"{K}@{edited}", K, resume=journal)
    (edited / "kernel.h").write_text("two\n")
    with pytest.raises(UsageError, match=rf"kernel {tree_backend.KERNEL.digest[:8]}@{edited}.* other sources"):
        bench(K, f"{K}@{edited}", resume=journal)


@pytest.mark.promise("On an emulated device, a mistake in an edited copy is caught, and a harmless edit passes.")
@pytest.mark.slow
@pytest.mark.ci
def test_on_an_emulated_device_counts_are_compared(tree: Path, tmp_path: Path, emulator: Told) -> None:
    edited = tree_backend.make(tmp_path / "edited", kernel="one\n")
    old, new = bench(K, f"{K}@{edited}", device=fake_emulator.ID)
    digest = tree_backend.KERNEL.digest[:8]
    for row, against in ((old, f"{digest}@{edited}"), (new, digest)):
        assert (row.verdict, row.measurement, row.ab) == (Verdict.PASSED, None, None)
        assert [reason.id for reason in row.reasons] == ["Z003"]
        assert f"executed 100 instructions, every count the same as {against}" in row.notes


def test_counts_in_words() -> None:
    one = Executed(kernel="k", instructions=100, classes={"valu": 70, "lds": 30}, barriers=2, matrix_flops=8)
    two = Executed(kernel="k", instructions=103, classes={"valu": 75, "lds": 28}, barriers=2, matrix_flops=16)
    assert compared_counts((two,), (one,), "K") == (
        "executed 103 instructions, +3.00% against K (100): valu +5, lds -2, matrix FLOP +8"
    )
    assert compared_counts((one, one), (two,), "K@DIR") == (
        "executed 200 instructions, +94.17% against K@DIR (103): valu +65, lds +32, barriers +2"
    )
    assert compared_counts((one,), (one,), "K") == "executed 100 instructions, every count the same as K"
    assert compared_counts((), (one,), "K") is None


def test_the_line_that_repeats_a_row_names_the_tree() -> None:
    request = Request(options={"ck-home": "/edited", "ck-as": "baseline"})
    assert repro_line(PROBLEM, request).endswith("--ck-home /edited --ck-as baseline")


def test_the_line_that_repeats_a_row_measures_no_settings_either() -> None:
    assert "--no-probe" in repro_line(PROBLEM, Request(probe=False)).split()
    assert "--no-probe" not in repro_line(PROBLEM, Request())
