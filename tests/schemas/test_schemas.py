"""The JSON schemas: valid, strict, self-contained, and consistent with the code that fills them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from fmha_cli.domain import signature
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Signature
from fmha_cli.report import schemas
from fmha_cli.report.document import document, names
from fmha_cli.report.documents.parity import ParityOutcome
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.record import Record
from tests.support.generators.report.random_records import records
from tests.support.generators.report.sample_documents import json_documents
from tests.support.generators.report.samples import ENVIRONMENT, record
from tests.support.generators.strategies import problems
from tests.support.schema_checks import validator

GOLDEN = [(name, i) for name, found in json_documents().items() for i in range(len(found))]

VERSIONS = {"cache": 3, "explain": 3, "journal": 2, "record": 3, "sources": 2}


def errors(name: str, document: Any) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in validator(name).iter_errors(document)]


@cache
def check(schema: str) -> None:
    """Check a schema against the schema of schemas, once for each text, because most schemas hold the same definitions."""
    Draft202012Validator.check_schema(json.loads(schema))


def test_there_is_a_schema_for_every_document() -> None:
    assert set(names()) >= set(json_documents()) >= {name for name in names() if document(name).rows}


@pytest.mark.sampled(8, ci="all")
@pytest.mark.parametrize("name", names())
def test_schemas_are_valid_and_say_what_they_are(name: str) -> None:
    document = schemas.schema(name)
    for part in ({**document, "$defs": {}}, *document.get("$defs", {}).values()):
        check(json.dumps(part))
    assert document["title"] == f"fmha.{name}/{VERSIONS.get(name, 1)}"
    assert document["description"].endswith(".")
    assert document["$id"] == f"urn:fmha:schema:{name}"


PUBLISHED = Path(__file__).parent / "published"


@pytest.mark.parametrize("name", ["common", *names()])
def test_a_published_schema_changes_with_its_version_only(name: str) -> None:
    """Each schema equals its published text exactly, because users keep and compare the output of ``fmha schema``."""
    published = json.loads((PUBLISHED / f"{name}.json").read_text("utf-8"))
    assert json.dumps(schemas.load(name), indent=1) == json.dumps(published, indent=1)


def test_every_published_schema_is_generated() -> None:
    assert {path.stem for path in PUBLISHED.glob("*.json")} == {"common", *names()}


def test_an_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="reprot") as caught:
        schemas.text("reprot")
    assert "report" in str(caught.value.help)
    with pytest.raises(UsageError):
        schemas.text("common")


@pytest.mark.parametrize(("name", "index"), GOLDEN)
def test_golden_documents_validate(name: str, index: int) -> None:
    assert errors(name, json_documents()[name][index]) == []


@settings(max_examples=40)
@given(records())
@pytest.mark.slow
@pytest.mark.ci
def test_drawn_records_validate(row: Record) -> None:
    assert errors("record", row.to_dict()) == []
    assert errors("report", to_json(report_document([row], ENVIRONMENT))) == []


@settings(max_examples=40)
@given(problems())
def test_drawn_problems_validate(problem: Problem) -> None:
    assert errors("record", record(problem=problem.to_dict()).to_dict()) == []


OPEN = (
    "parts",
    "kernels",
    "classes",
    "algorithm",
    "details",
    "detail",
    "facts",
    "files",
    "backends",
    "instructions",
    "registers",
    "lanes",
    "settings",
    "spills",
    "trees",
    "values",
    "verdicts",
)
"""Members with arbitrary keys."""

SIMILAR = 3
"""Elements of an array that are tried; one schema describes them all."""


def closed_objects(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path and path[-1] == "details":
        return  # its content is up to the backend
    if isinstance(tree, dict):
        if not path or path[-1] not in OPEN:
            yield path
        for key, value in tree.items():
            yield from closed_objects(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree[:SIMILAR]):
            yield from closed_objects(value, (*path, i))


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def kinds_of_objects(tree: Any) -> Iterator[tuple[Any, ...]]:
    """One of the closed objects at each place with each set of keys, and nothing inside a record in another document.

    The schema of records is tried by the documents of records.
    """
    seen = set()
    for path in closed_objects(tree):
        above = [at(tree, path[:length]) for length in range(1, len(path))]
        if any(isinstance(one, dict) and "schema" in one for one in above):
            continue
        kind = (tuple("*" if isinstance(part, int) else part for part in path), frozenset(at(tree, path)))
        if kind not in seen:
            seen.add(kind)
            yield path


def try_keys(name: str, index: int, objects: Callable[[Any], Iterator[tuple[Any, ...]]]) -> None:
    """Fail if the schema takes one of these objects of a golden document with a key too many or too few."""
    document = copy.deepcopy(json_documents()[name][index])
    valid = validator(name).is_valid
    optional = {f.name for f in fields(Problem)} - set(schemas.load("common")["$defs"]["problem"]["required"])
    for path in list(objects(document)):
        here = at(document, path)
        members = dict(here)
        here["surprise"] = None
        assert not valid(document), f"{path}: an unknown key passes"
        for key in members:
            if "problem" in path and key in optional:
                continue
            here.clear()
            here.update((k, v) for k, v in members.items() if k != key)
            assert not valid(document), f"{path}: {key} may be missing"
        here.clear()
        here.update(members)
    assert valid(document)


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("name", "index"), GOLDEN)
def test_a_key_too_many_or_too_few_fails(name: str, index: int) -> None:
    try_keys(name, index, kinds_of_objects)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "index"), GOLDEN)
def test_a_key_too_many_or_too_few_fails_in_every_object(name: str, index: int) -> None:
    """The same in all objects, which validates large documents a thousand times."""
    try_keys(name, index, closed_objects)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "FINE"),
        (("measurement", "median_ns"), 1.5),
        (("measurement", "samples_ns"), []),
        (("measurement", "ci95_ns"), [1]),
        (("kernel", "digest"), "abc"),
        (("kernel", "family"), "forward"),
        (("problem", "dropout"), 1),
        (("problem", "mask"), "b"),
        (("problem", "dtype"), "fp17"),
        (("schema",), "fmha.record/1"),
        (("stages",), None),
        (("repro",), None),
    ],
)
def test_wrong_values_fail(path: tuple[str, ...], value: Any) -> None:
    row = record().to_dict()
    at(row, path[:-1])[path[-1]] = value
    assert errors("record", row)


COMMON = schemas.load("common")["$defs"]


def test_members_of_problem_and_signature_are_the_fields() -> None:
    composed = {"dtype_out", "layout_out", "storage"}
    assert set(COMMON["problem"]["properties"]) == {f.name for f in fields(Problem)} - composed | {"mode"}
    assert set(COMMON["signature"]["properties"]) == {f.name for f in fields(Signature)}
    kinds = {f.name: getattr(signature, str(f.type), None) for f in fields(Signature)}
    for name, kind in kinds.items():
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            assert set(COMMON["signature"]["properties"][name]["enum"]) == {m.value for m in kind}


def test_the_report_knows_the_outcomes_of_parity() -> None:
    counts = schemas.load("parity")["properties"]["counts"]
    assert list(counts["properties"]) == [outcome.value for outcome in ParityOutcome]
