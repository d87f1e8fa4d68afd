"""The table of fields: what is derived from it covers every field, and few modules name one beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import cast

import pytest

from fmha_cli.cli.completion import completer
from fmha_cli.cli.options import EXCLUDES, PROBLEM
from fmha_cli.discovery.models import presets
from fmha_cli.discovery.nearest import change_text, distance
from fmha_cli.discovery.sweep import expand
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.fields import BY_KEY, BY_MEMBER, FIELDS, Field, flags_in, words_of
from fmha_cli.domain.flags import FlagKind
from fmha_cli.domain.layer import LayerPhase
from fmha_cli.domain.mask import SPELLINGS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.resolve import raw_from_text
from fmha_cli.report.schemas import load
from tools.reference.problem import json_members

ROOT = Path(__file__).resolve().parent.parent.parent
APART = ("backends", "codegen", "toolchain", "workloads")
EVERY = pytest.mark.parametrize("field", FIELDS, ids=lambda field: cast(Field, field).key)

NAMED = {
    "softcap": 8, "sink_logits": 15, "mla_rope": 10, "alibi_slopes": 10, "bias_file": 4, "cache_leftpad": 9, "cache_batch_idx": 11,
    "rotary_base": 7, "kv_dtype": 10, "fp8_encoding": 9, "qscale": 14,
}  # fmt: skip
"""Field with a name that means nothing else -> the most modules of the core that name it: the table, ``Problem``, the signature, and what
computes with it."""


ANY_NAMED = re.compile(rf"\b(?:{'|'.join(key.replace('_', '[-_]') for key in NAMED)})\b")


def named_in(text: str) -> set[str]:
    """The fields of ``NAMED`` that a module names, as a flag or in Python."""
    return {found.replace("-", "_") for found in ANY_NAMED.findall(text)}


@cache
def named_by_module() -> Mapping[str, set[str]]:
    """Module of the core -> the fields of ``NAMED`` that it names."""
    package = ROOT / "fmha_cli"
    names = (path.relative_to(package) for path in package.rglob("*.py"))
    return {str(name): named_in((package / name).read_text("utf-8")) for name in names if name.parts[0] not in APART}


def too_often(named: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Field -> the modules that name it, where they are more than may."""
    modules = {key: sorted(name for name, keys in named.items() if key in keys) for key in NAMED}
    return {key: found for key, found in modules.items() if len(found) > NAMED[key]}


def test_few_modules_name_a_field() -> None:
    assert too_often(named_by_module()) == {}


@pytest.mark.parametrize(("key", "line"), [("softcap", 'KEYS = ("softcap",)'), ("sink_logits", "--sink-logits filled")])
def test_a_further_mention_is_noticed(key: str, line: str) -> None:
    assert [*too_often({**named_by_module(), "cli/planted.py": named_in(line)})] == [key]


def without(field: Field) -> Problem:
    """The problem of a field's example, without the field."""
    raw = raw_from_text(field.example)
    both = ("rotary_cos", "rotary_sin")  # they come in pairs
    return Problem.of(
        **{key: text for key, text in raw.items() if key not in (both if field.key in both else (field.key,))}
    )


@EVERY
def test_an_example_has_its_field(field: Field) -> None:
    assert field.key in raw_from_text(field.example)
    Problem.from_cli(field.example)


@EVERY
def test_a_problem_has_a_shortest_command_line(field: Field) -> None:
    problem = Problem.from_cli(field.example)
    line = words_of(flags_in(problem))
    assert problem.repro() == " ".join(line)
    assert Problem.from_cli(line) == problem
    if without(field) != problem:
        assert flags_in(without(field)) != flags_in(problem)


def test_every_member_of_a_problem_belongs_to_a_field() -> None:
    assert {*BY_MEMBER} == {member.name for member in fields(Problem)} - {"storage"}
    known = load("common")["$defs"]["problem"]["properties"].keys()
    assert {*BY_MEMBER} - known == {"dtype_out", "layout_out"}  # written as IN:OUT


@EVERY
def test_the_reference_knows_the_member_of_a_field(field: Field) -> None:
    assert bool(json_members(field.name)) is (without(field) != Problem.from_cli(field.example))


def test_every_field_is_an_option_with_its_help() -> None:
    assert [(option.key, option.panel, option.help) for option in PROBLEM] == [(f.key, f.panel, f.help) for f in FIELDS]
    assert {option.key for option in PROBLEM if option.complete} == {field.key for field in FIELDS if field.values}


EXAMPLES = {spelling.partition(":")[0] + ":": re.sub("[A-Z]", "4", spelling) for spelling in SPELLINGS}
"""What the shell completes of a mask -> a mask."""


@EVERY
def test_what_the_shell_completes_is_read(field: Field) -> None:
    complete = completer(tuple(field.values), (), field.sweeps)
    for value in complete("") if complete is not None else ():
        assert field.parse(EXAMPLES.get(value, value)) is not None


@EVERY
def test_relations_name_fields(field: Field) -> None:
    assert {*field.excludes, *field.needs} <= {*BY_KEY}
    assert EXCLUDES.get(field.key, ()) == field.excludes
    assert field.key not in (*field.excludes, *field.needs)


@EVERY
def test_a_change_of_a_field_has_a_cost_and_a_text(field: Field) -> None:
    before, after = without(field), Problem.from_cli(field.example)
    if before == after:
        return
    flags, cost = distance(before, after)
    assert flags >= 1
    assert cost >= min(field.cost, field.near or field.cost, field.off or field.cost)
    assert change_text(before, after)


def test_no_two_fields_are_spared_at_once() -> None:
    turns = [field.spare for field in FIELDS if field.spare]
    assert sorted(turns) == [*range(1, len(turns) + 1)]
    assert all(field.tell is not None for field in FIELDS if field.spare)


def given_by_models() -> Iterator[str]:
    for model in presets().values():
        for phase in LayerPhase if model.causal else (LayerPhase.PREFILL,):
            for layers in model.layers:
                yield from model.flags(layers, phase)


def test_a_model_decides_fields_that_say_so() -> None:
    assert {*given_by_models()} <= {field.key for field in FIELDS if field.of_model}


def test_every_limit_has_a_page() -> None:
    codes = json.loads((ROOT / "fmha_cli" / "cli" / "codes.json").read_text("utf-8"))
    assert {limit.code for field in FIELDS for limit in field.limits} <= {*codes}


@pytest.mark.parametrize("field", [f for f in FIELDS if f.least is not None], ids=lambda field: cast(Field, field).key)
def test_a_field_keeps_its_least(field: Field) -> None:
    assert field.least is not None
    with pytest.raises(ImpossibleProblem) as caught:
        field.check((field.least - 1,) if field.kind is FlagKind.LIST else field.least - 1)
    assert caught.value.code == "P005"
    assert caught.value.where == f"--{field.name}"


@pytest.mark.parametrize("field", [f for f in FIELDS if f.sweeps], ids=lambda field: cast(Field, field).key)
def test_a_field_that_sweeps_keeps_its_values_in_order(field: Field) -> None:
    value = raw_from_text(field.example)[field.key]
    sweep = expand({**raw_from_text(field.example), field.key: f"{value},{value}"})
    assert list(map(Problem.from_raw, sweep.points())) == [Problem.from_cli(field.example)] * 2
