"""Suites: the content of the files, which follow upstream's own scripts."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from fmha_cli.backends.ck_tile.parity.case import DEFAULTS
from fmha_cli.backends.ck_tile.parity.counterpart import CkCounterpart
from fmha_cli.discovery.builtins import compared
from fmha_cli.domain.counterpart import Program
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.parity.suite import Suite
from fmha_cli.parity.suite import load_suite as load
from tests.support.generators.ck_tile.cases import ck_case

Settings = frozenset[tuple[str, str]]

COUNTS = {
    "basic": 14,
    "smoke": 4416,
    "smoke_bwd": 840,
    "smoke_fwd": 3576,
    "smoke_fwd_appendkv": 2304,
    "smoke_fwd_splitkv": 41592,
}
"""The number of cases in each suite; the tests of the scripts check the suites that come from them."""


def load_suite(text: str) -> Suite:
    return load(text, CkCounterpart())


def test_help_names_every_suite_and_program() -> None:
    """``--help`` lists the suites and programs without importing the backend."""
    known = compared()[1]
    assert sorted(known.suites) == list(CkCounterpart().suites()) == sorted(COUNTS)
    assert known.binaries == tuple(CkCounterpart.binaries[program] for program in Program)


@pytest.mark.promise("`parity` compares with upstream's programs, and says why a case cannot be compared.")
@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    assert sum(1 for _ in load_suite(name).cases()) == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_names_tell_cases_apart_and_files_say_where_they_come_from(name: str) -> None:
    suite = load_suite(name)
    cases = list(itertools.islice(suite.cases(), 5000))
    assert len({case.name for case in cases}) == len(cases)
    assert suite.sources
    assert all(source.file and source.revision for source in suite.sources)
    assert not [k for case in cases for k in case.settings if k not in DEFAULTS[case.program]]


def test_expansion_is_lazy() -> None:
    cases = load_suite("smoke_fwd_splitkv").cases()
    assert next(cases).argv()[0] == "-prec=fp16"
    assert [c.name for c in itertools.islice(cases, 2)] == ["fp16_bf16_splitkv-2", "fp16_bf16_splitkv-3"]


def test_the_basic_cases_differ_from_the_defaults_as_upstream_says() -> None:
    """The cases match the table of upstream's parity test: their number, and what each one changes."""
    cases = {case.name: case for case in load_suite("basic").cases()}
    assert cases["basic_fp16"].argv()[:4] == ("-prec=fp16", "-mode=0", "-b=2", "-h=2")
    base = cases["basic_fp16"].settings
    changed = {name: dict(set(case.settings.items()) - set(base.items())) for name, case in cases.items()}
    assert changed["gqa_4_1"] == {"h": "8", "h_k": "2"}
    assert changed["asymmetric_seq"] == {"s": "64", "s_k": "256"}
    assert changed["single_query"] == {"b": "1", "h": "4", "s": "1"}
    assert [name for name, what in changed.items() if not what] == ["basic_fp16"]


@pytest.fixture(scope="session")
def scripts(shared_cache: Path) -> Path:
    """The folder of upstream's scripts, from the pinned sources."""
    from fmha_cli.backends.ck_tile.tree import pinned_tree

    try:
        tree = pinned_tree(shared_cache, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as error:
        pytest.skip(f"the pinned sources cannot be had: {error.what}")
    assert tree.example is not None
    folder = tree.example / "script"
    if not folder.is_dir():
        pytest.skip("the pinned sources were unpacked without upstream's scripts")
    return folder


def ran_by(script: Path, folder: Path, *options: str) -> list[Settings]:
    """The settings with which an upstream script runs its program. Of repeated options, the last counts."""
    program = "tile_example_fmha_bwd" if "bwd" in script.name else "tile_example_fmha_fwd"
    log = folder / "log"
    fake = folder / program
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$*" >> "$STANDIN_LOG"\n')
    fake.chmod(0o755)
    env = {**os.environ, "STANDIN_LOG": str(log), "GPU_arch": "none", "CURR_FAILS_FILE": str(folder / "fails")}
    subprocess.run(["bash", str(script), *options], cwd=folder, env=env, check=True, capture_output=True, timeout=900)
    return [as_read(line.split()) for line in log.read_text().splitlines()]


def as_read(argv: list[str]) -> Settings:
    return frozenset(dict(word[1:].split("=", 1) for word in argv).items())


def given_by(name: str, group: str = "") -> list[Settings]:
    cases = load_suite(name).cases()
    return [as_read(list(case.argv())) for case in cases if case.group.startswith(group)]


@pytest.fixture(scope="session")
def backward(scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Settings]:
    """What upstream's script of backward runs: 840 processes, so once."""
    return ran_by(scripts / "smoke_test_bwd.sh", tmp_path_factory.mktemp("backward"))


@pytest.mark.promise("`parity` compares with upstream's programs, and says why a case cannot be compared.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_scripts_run_the_same_programs(backward: list[Settings]) -> None:
    """Upstream's script, run with a program that records its arguments, gives the same cases in the same order."""
    assert backward == given_by("smoke_bwd")


@pytest.mark.slow
def test_the_script_of_forward_runs_the_same_programs(scripts: Path, tmp_path: Path) -> None:
    """3576 processes; the default suite has the script of backward."""
    assert ran_by(scripts / "smoke_test_fwd.sh", tmp_path) == given_by("smoke_fwd")


@pytest.mark.slow
def test_the_script_with_its_options_runs_the_same_programs(scripts: Path, tmp_path: Path) -> None:
    ran = ran_by(scripts / "smoke_test_fwd.sh", tmp_path, "-s", "-a")
    assert len(ran) == COUNTS["smoke_fwd_splitkv"] + COUNTS["smoke_fwd_appendkv"]
    assert Counter(ran) == Counter([*given_by("smoke_fwd_splitkv"), *given_by("smoke_fwd_appendkv")])


@pytest.mark.slow
@pytest.mark.ci
def test_a_changed_suite_is_noticed(backward: list[Settings]) -> None:
    """The comparison detects a change of one value in one case."""
    given = given_by("smoke_bwd")
    given[17] = frozenset({**dict(given[17]), "h_k": "3"}.items())
    assert Counter(backward) != Counter(given)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    matrix = {
        "program": "bwd",
        "group": "g",
        "axes": [["d", [32, 64]], ["v", ["$d"]]],
        "lines": [{"d": "$d", "d_v": "$v"}],
    }
    path.write_text(json.dumps({"title": "mine", "matrices": [matrix]}))
    suite = load_suite(str(path))
    assert [case.argv() for case in suite.cases()] == [("-d=32", "-d_v=32"), ("-d=64", "-d_v=64")]
    assert suite.sources == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "an object"),
        ('{"matrices": []}', "no matrices"),
        ('{"matrices": [{"program": "fwd", "lines": []}], "cases": 1}', "an object"),
        ('{"matrices": [{"program": "sideways", "lines": []}]}', "program"),
        ('{"matrices": [{"program": "fwd"}]}', "either lines or cases"),
        ('{"matrices": [{"program": "fwd", "lines": [{"presc": 1}]}]}', "'presc'"),
        ('{"matrices": [{"program": "bwd", "lines": [{"lse": 1}]}]}', "'lse'"),
        ('{"matrices": [{"program": "fwd", "lines": [{"d": "$hdim"}]}]}', "no axis \\$hdim"),
        ('{"matrices": [{"program": "fwd", "axes": [["d", []]], "lines": [{"d": 1}]}]}', "an axis is"),
        ('{"matrices": [{"program": "fwd", "lines": 3}]}', "lines"),
        ('{"include": ["smoke2"], "matrices": []}', "no such suite"),
        ('{"sources": [{"file": "x"}], "matrices": [{"program": "fwd", "lines": []}]}', "revision"),
    ],
)
def test_a_file_that_is_no_suite(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a suite") as caught:
        load_suite(str(path))
    assert caught.value.code == "Y002"
    assert why.replace("\\", "") in str(caught.value.why)


def test_no_such_suite() -> None:
    with pytest.raises(UsageError) as caught:
        load_suite("smokey")
    assert caught.value.code == "Y001"
    assert "smoke" in str(caught.value.help)
    with pytest.raises(UsageError, match="cannot be read"):
        load_suite("nowhere/at/all.json")


def test_options_are_read_as_the_programs_read_them() -> None:
    case = ck_case("x", Program.FWD, {"b": "3x", "h": "x", "s": "1,2,z", "p_drop": "0.2", "iperm": "f", "lse": "true"})
    assert (case.number("b"), case.number("h"), case.numbers("s")) == (3, 0, (1, 2, 0))
    assert (case.real("p_drop"), case.on("iperm"), case.on("lse"), case.on("operm")) == (0.2, False, True, True)
    assert case.number("d") == 128
    assert case.value("dbias") == ""
    assert case.argv(b="4", v="1")[-1] == "-v=1"
