"""``fmha inspect``: one kernel, all of an architecture, or two next to each other."""

from __future__ import annotations

import pytest
from fmha_null.kernels import null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from tests.cli.conftest import Fmha
from tests.cli.test_commands import HONEST, SPLIT, faults_of


@pytest.mark.slow
@pytest.mark.ci
def test_inspect_names_kernels_that_do_not_exist(fmha: Fmha) -> None:
    assert fmha("inspect", "00000000").code == 2
    assert fmha("inspect").code == 2
    assert fmha("inspect", "--diff", HONEST, "00000000", "--arch", "null").code == 2


@pytest.mark.parametrize(
    "argv",
    [
        (HONEST, "--all"),
        (HONEST, "--diff", HONEST, SPLIT),
        ("--all", "--diff", HONEST, SPLIT),
        (HONEST, "--compiler", "a", "--compiler", "b", "--compiler", "c"),
        ("--all", "--compiler", "a", "--compiler", "b"),
        (HONEST, "--profile", "forward"),
        (HONEST, "--filter", "dtype:fp16"),
    ],
)
def test_inspect_takes_one_kernel_or_all_or_two(fmha: Fmha, argv: tuple[str, ...]) -> None:
    done = fmha("inspect", "--arch", "null", *argv)
    assert done.code == 2
    assert "E002" in done.err


def test_inspect_all_keeps_a_row_for_what_does_not_build(fmha: Fmha) -> None:
    done = fmha("inspect", "--all", "--arch", "null", "--filter", "dtype:fp16,family:fwd", "--json")
    assert done.code == 6
    assert faults_of(done.document) == []
    rows = done.document["kernels"]
    failed = [row for row in rows if row["error"]]
    assert len(failed) == done.document["failed"] == 1 < done.document["count"] == len(rows)
    assert failed[0]["kernel"]["algorithm"]["behaviour"] == "build_error"
    assert set(failed[0]["figures"].values()) == {None}
    text = fmha("inspect", "--all", "--arch", "null", "--filter", "dtype:fp16,family:fwd").out
    assert "1 not built" in text


def test_two_kernels_side_by_side(fmha: Fmha) -> None:
    done = fmha("inspect", "--arch", "null", "--diff", HONEST, SPLIT, "--json").document
    rows = {(row["kind"], row["name"]): row for row in done["rows"]}
    family = rows["kernel", "family"]
    assert (family["left"], family["right"], family["differs"]) == ("fwd", "fwd_splitkv", True)
    assert ("kernel", "dtype") not in rows
    assert done["differing"] == sum(row["differs"] for row in done["rows"])
    same = fmha("inspect", "--arch", "null", HONEST, "--compiler", "a", "--compiler", "b", "--json").document
    assert same["differing"] == 0
    assert same["left"]["kernel"] == same["right"]["kernel"]


@pytest.mark.slow
@pytest.mark.ci
def test_kernels_of_two_backends_are_compared(fmha: Fmha) -> None:
    """Each side is built and inspected by its own backend; what one of them does not know is empty on its side."""
    listed = fmha(
        "list-kernels", "--backend", "cpu", "--arch", "generic", "--family", "fwd", "--limit", "1", "--json"
    ).document
    mine, other = null_kernel(DType.FP16, Family.FWD).name, listed["kernels"][0]["name"]
    done = fmha("inspect", "--diff", mine, other, "--json").document
    assert [done[side]["backend"] for side in ("left", "right")] == ["null", "cpu"]
    figures = {row["name"]: row for row in done["rows"] if row["kind"] == "figure"}
    assert figures["instruction_count"]["right"] > figures["instruction_count"]["left"]


def test_a_problem_names_the_kernel_that_run_takes(fmha: Fmha) -> None:
    flags = ("--backend", "null", "--seqlen", "32", "--hdim", "64")
    chosen = fmha("explain", *flags, "--json").document["chosen"]
    assert fmha("inspect", *flags, "--json").document["kernel"]["name"] == chosen
    done = fmha("inspect", "--backend", "null")
    assert done.code == 2
    assert "the flags of a problem" in done.err
    assert fmha("inspect", *flags, "--dropout", "0.1").code == 3


def test_a_problem_and_what_only_a_run_needs_contradict_each_other(fmha: Fmha) -> None:
    done = fmha("inspect", "--backend", "null", "--seqlen", "32", "--fill-seed", "3")
    assert done.code == 2
    assert "no kernel is named" in done.err
