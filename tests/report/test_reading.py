"""Files of results: what ``--json`` and ``--jsonl`` wrote gives its records and its environment again."""

from __future__ import annotations

import json

import pytest

from fmha_cli.domain.codec import DecodeError, to_json
from fmha_cli.report.documents.pages import EnvironmentLine
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.reading import content_of
from tests.support.generators.report.samples import ENVIRONMENT, bare, record

ROWS = (record(), bare())
LINES = [json.dumps(row.to_dict()) for row in ROWS]
ODD = {**to_json(ENVIRONMENT), "python": 3}
FIRST = json.dumps(to_json(EnvironmentLine(environment=ENVIRONMENT)))


def test_a_report_gives_its_records_and_environment() -> None:
    found = content_of(json.dumps(to_json(report_document(ROWS, ENVIRONMENT))).encode())
    assert found.records == ROWS
    assert found.environment == ENVIRONMENT


def test_lines_give_their_records_and_the_environment_of_their_first_line() -> None:
    found = content_of("\n".join([FIRST, *LINES, ""]).encode())
    assert found.records == ROWS
    assert found.environment == ENVIRONMENT


def test_lines_without_an_environment_and_a_single_row_are_read() -> None:
    assert content_of("\n".join(LINES).encode()).environment is None
    assert content_of(LINES[0].encode()).records == ROWS[:1]
    assert content_of(FIRST.encode()).records == ()


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ([FIRST, LINES[0], "{"], "line 3"),
        ([LINES[0], json.dumps({"schema": "fmha.plan/1"})], "line 2"),
        ([LINES[0], json.dumps({"schema": "fmha.environment/1", "environment": 3})], "line 2.environment"),
        (["{}"], "the document"),
        ([json.dumps({"schema": "fmha.report/1", "records": {}})], "records"),
        ([json.dumps({"schema": "fmha.report/1", "records": [], "environment": 3})], "environment"),
        ([json.dumps({"schema": "fmha.report/1", "records": [], "environment": {"fmha": "1"}})], "environment"),
        ([json.dumps({"schema": "fmha.environment/1", "environment": ODD})], "the document.environment.python"),
    ],
)
def test_the_error_names_the_place(lines: list[str], where: str) -> None:
    with pytest.raises(DecodeError) as fault:
        content_of("\n".join(lines).encode())
    assert str(fault.value).startswith(f"{where}: ")
