"""A run as a file: lines of records, CSV, or Parquet for data frames and DuckDB."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.report.documents.pages import EnvironmentLine
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.form import Format
from fmha_cli.report.formats import columns, jsonl_lines, render
from fmha_cli.report.ordering import at
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.results.run import KeptRun


def as_jsonl(run: KeptRun) -> bytes:
    """What ``--jsonl`` prints: the environment if it is known, then a record in each line."""
    first = [] if run.environment is None else [EnvironmentLine(environment=run.environment)]
    return "".join(f"{line}\n" for line in jsonl_lines([*first, *run.records])).encode()


def as_csv(run: KeptRun) -> bytes:
    """What ``--csv`` prints."""
    document = report_document(run.records, run.environment or NO_ENVIRONMENT)
    return f"{render(document, Format.CSV)}\n".encode()


def as_parquet(run: KeptRun) -> bytes:
    """A Parquet file with the columns of CSV; lists of numbers stay lists, other lists and open objects are JSON text.

    Raises:
        EnvironmentProblem: X052, pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as fault:
        what, help = "Parquet files need pyarrow", 'pip install "fmha[parquet]"; --jsonl and --csv need nothing'
        raise EnvironmentProblem(what, code="X052", where="--parquet", why=str(fault), help=help) from fault
    rows = [record.to_dict() for record in run.records]
    names = {".".join(path): _column([at(row, path) for row in rows]) for path in columns("report")}
    out = io.BytesIO()
    parquet.write_table(pa.table(names), out, compression="zstd")
    return out.getvalue()


def _column(values: Sequence[Any]) -> Sequence[Any]:
    """The values of a column, as JSON text if one of them is an object or a list of other things than numbers."""
    if all(_plain(value) for value in values):
        return values
    return [None if value is None else canonical_json(value) for value in values]


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(type(item) in (int, float) for item in value)
    return not isinstance(value, dict)


EXPORTS: Mapping[str, Callable[[KeptRun], bytes]] = {"parquet": as_parquet, "jsonl": as_jsonl, "csv": as_csv}
"""What ``results export`` writes, by the name of its option."""
