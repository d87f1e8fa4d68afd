"""Reading what ``--json`` and ``--jsonl`` wrote: the records, and the environment in which they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fmha_cli.domain.codec import DecodeError, from_json
from fmha_cli.domain.reading import NotJson, parsed
from fmha_cli.report.documents.pages import EnvironmentLine
from fmha_cli.report.documents.report import Report
from fmha_cli.report.parts import Environment
from fmha_cli.report.record import Record


@dataclass(frozen=True)
class ReportContent:
    """The content of a file of results.

    Attributes:
        environment: None where the file does not state it.
    """

    records: tuple[Record, ...]
    environment: Environment | None = None


def content_of(data: bytes) -> ReportContent:
    """The content of a report, of one row, or of lines with a row each, the first of which may be the environment.

    Raises:
        DecodeError: none of them.
    """
    if not data.strip():
        raise DecodeError("it is empty")
    lines = {number: line for number, line in enumerate(data.splitlines(), 1) if line.strip()}
    try:
        document = parsed(data)
    except DecodeError:
        if len(lines) < 2:
            raise
        return _of_lines(lines, ended=data.endswith(b"\n"))
    if not isinstance(document, dict) or document.get("schema") != Report.schema:
        return _of_lines({1: data}, "the document")
    rows = document.get("records")
    if not isinstance(rows, list):
        raise DecodeError("not a list", "records")
    records = tuple(Record.from_dict(row, f"records[{index}]") for index, row in enumerate(rows))
    return ReportContent(records, _environment(document, ""))


def _of_lines(lines: Mapping[int, bytes], where: str | None = None, *, ended: bool = True) -> ReportContent:
    records: list[Record] = []
    environment = None
    for number, line in lines.items():
        place = where or f"line {number}"
        try:
            value = parsed(line)
            if isinstance(value, dict) and value.get("schema") == EnvironmentLine.schema:
                environment = _environment(value, place)
            else:
                records.append(Record.from_dict(value, place))
        except DecodeError as fault:
            if number == max(lines) > 1 and not ended and isinstance(fault, NotJson):
                raise DecodeError("the last line is cut short, as by a command that was killed", place) from fault
            raise fault if fault.path else fault.within(place) from fault
    return ReportContent(tuple(records), environment)


def _environment(holder: Mapping[str, Any], where: str) -> Environment | None:
    found = holder.get("environment")
    return None if found is None else from_json(Environment, found, f"{where}.environment".lstrip("."))
