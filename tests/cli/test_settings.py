"""Precedence of flags, variables and files; switches; and how a higher-precedence setting removes a lower one."""

from __future__ import annotations

from dataclasses import fields

import pytest

from fmha_cli.cli.commands import TALK
from fmha_cli.cli.commands.run import AB
from fmha_cli.cli.invoke import merge
from fmha_cli.cli.options import (
    ALL_KERNELS,
    CHOOSING,
    EXCLUDES,
    FORMATS,
    JOURNAL,
    KEPT,
    MODELS,
    PROBLEM,
    RESUME,
    ROWS,
    SELECT,
    WORKLOAD,
)
from fmha_cli.cli.settings import FLAG, Layer, OptionValues, Text, Value, layer_of_variables, switch_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.fields import FIELDS
from fmha_cli.domain.flags import Flag
from fmha_cli.report.form import Format


def layer(source: str, **values: Text) -> Layer:
    return {key: Value(value, source) for key, value in values.items()}


@pytest.mark.promise("A flag overrides a variable, a variable the project's file, and that the user's file.")
@pytest.mark.parametrize(
    ("given", "winner"),
    [
        (("flag", "variable", "project", "user"), "flag"),
        (("variable", "project", "user"), "variable"),
        (("project", "user"), "project"),
        (("user",), "user"),
    ],
)
def test_precedence(given: tuple[str, ...], winner: str) -> None:
    layers = [layer(name, seqlen=name) if name in given else {} for name in ("flag", "variable", "project", "user")]
    assert merge(layers).text("seqlen") == winner


@pytest.mark.promise("A flag overrides a variable, a variable the project's file, and that the user's file.")
@pytest.mark.parametrize(
    ("strong", "weak", "left"),
    [
        ({"causal": True}, {"mask": "none"}, {"causal"}),
        ({"mask": "none"}, {"causal": True}, {"mask"}),
        ({"seqlens_q": "1,2"}, {"seqlen": "64", "batch": "4", "hdim": "64"}, {"seqlens_q", "hdim"}),
        ({"seqlen": "64"}, {"seqlens_q": "1,2", "seqlens_k": "3,4"}, {"seqlen"}),
        ({"alibi": True}, {"bias": "elementwise"}, {"alibi"}),
        ({"q": "q.npy"}, {"heads": "4", "seqlen": "9", "lse": True}, {"q", "lse"}),
        ({"csv": True}, {"json": True}, {"csv"}),
        ({"causal": False}, {"mask": "window:1,1"}, {"causal", "mask"}),
    ],
)
def test_a_stronger_place_drops_what_contradicts_it(
    strong: dict[str, Text], weak: dict[str, Text], left: set[str]
) -> None:
    assert set(merge([layer(FLAG, **strong), layer("file", **weak)]).values) == left


def test_within_one_place_nothing_is_dropped() -> None:
    assert set(merge([layer(FLAG, mask="none", causal=True)]).values) == {"mask", "causal"}


@pytest.mark.promise("A flag overrides a variable, a variable the project's file, and that the user's file.")
def test_a_switch_is_taken_back_by_a_stronger_place() -> None:
    settings = merge([layer(FLAG, lse=False), layer("file", lse=True)])
    assert not settings.on("lse")


def test_variables() -> None:
    environ = {"FMHA_SEQLEN": "64", "FMHA_KV_HEADS": "2", "FMHA_LSE": "yes", "FMHA_CAUSAL": "0", "FMHA_MASK": "t b"}
    found = layer_of_variables(PROBLEM, {**environ, "FMHA_HEADS": "", "SEQLEN": "1"})
    assert {key: value.value for key, value in found.items()} == {
        "seqlen": "64",
        "kv_heads": "2",
        "lse": True,
        "causal": False,
        "mask": ("t", "b"),
    }
    assert found["lse"].source == "FMHA_LSE"


@pytest.mark.parametrize(("text", "on"), [("1", True), ("TRUE", True), ("on", True), ("0", False), ("No", False)])
def test_switches(text: str, on: bool) -> None:
    assert switch_of(text, "FMHA_LSE") is on


def test_a_switch_that_is_neither() -> None:
    with pytest.raises(UsageError, match="FMHA_LSE=maybe"):
        switch_of("maybe", "FMHA_LSE")


def test_where_names_the_source() -> None:
    settings = OptionValues({"seqlen": Value("x", "FMHA_SEQLEN"), "hdim": Value("y", FLAG)})
    assert settings.where("seqlen") == "--seqlen (from FMHA_SEQLEN)"
    assert settings.where("hdim") == settings.where("hdim") == "--hdim"
    with pytest.raises(UsageError) as caught:
        settings.size("seqlen", 1)
    assert "FMHA_SEQLEN" in caught.value.what


def test_every_problem_flag_is_an_option() -> None:
    names = [f.name for f in fields(Flag)]
    assert [[getattr(one, n) for n in names] for one in PROBLEM] == [[getattr(one, n) for n in names] for one in FIELDS]


def test_exclusions_name_options_that_exist() -> None:
    known = {
        o.key
        for o in (*PROBLEM, *MODELS, *ROWS, *KEPT, *TALK, RESUME, JOURNAL, AB, ALL_KERNELS, SELECT, WORKLOAD, *CHOOSING)
    } | {"q", "k", "v"}
    assert {name for names in EXCLUDES.values() for name in names} | set(EXCLUDES) <= known
    assert set(FORMATS) <= known


def test_every_format_but_the_table_is_an_option_of_its_name() -> None:
    assert {form: option.name for form, option in FORMATS.items()} == {
        form: form.value for form in Format if form is not Format.TABLE
    }
