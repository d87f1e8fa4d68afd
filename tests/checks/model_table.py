"""Compare the table of ``--model`` (``arch_specs/_model_types.json``) with the classes of the installed transformers, or make it from them.

Needs the extra ``models``. A case is a model_type: its class runs on a prompt, an image or sound, in many configurations, and its attention calls are
recorded. A row is good if the table says of the type what the recorded calls give, and no configuration differs. Every model_type of the release has a
row in the table: one with facts, one that names the member with the language model, or one that says why no row of a problem can stand for its
attention. A class whose calls could not be recorded, or whose facts were not found, is refused. ``--write`` makes the table, and
``tests/golden/model_calls.json``, instead of the data of a page. All classes take half an hour on two processors.
"""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import torch
import transformers

from fmha_cli.discovery.model_config import TypeRow, rows_of
from tests.checks.check import ROOT, Check, Row, code
from tests.support.model_classes import probe, rows, samples
from tests.support.model_classes.table import checked, counts, golden, inner_of, made, not_run, text_of, type_row

TABLE, GOLDEN = ROOT / "arch_specs" / "_model_types.json", ROOT / "tests" / "golden" / "model_calls.json"
LIMIT_S, LIMIT_BYTES = 120, 3 << 30
"""The most processor time and address space for one class: some have no small form."""


class _Late(BaseException):
    """A class took too long. The class's own error handlers must not mistake this for one of their errors."""


def record(kind: str) -> dict[str, Any]:
    """The samples of a type, the places of its attention, and what could not be run."""
    found: dict[str, Any] = {"rows": [], "err": ""}
    probe.places()

    def late(*_: object) -> None:
        raise _Late

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        if inner_of(kind) is None and kind not in rows.WHY:
            found["rows"] = list(samples.samples(kind))
    except _Late:
        found = {"rows": [], "err": "TimeoutError: takes too long"}
    except Exception as fault:  # noqa: BLE001 - a class may fail in any way
        found["err"] = f"{fault}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {**found, "places": probe.places()}


def packed(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded calls as JSON values: each call once."""
    calls = list(dict.fromkeys(call for _, _, made_ in recorded["rows"] for call in made_))
    number = {call: str(at) for at, call in enumerate(calls)}
    lines = [(what, members, [number[call] for call in made_]) for what, members, made_ in recorded["rows"]]
    return {**recorded, "rows": lines, "calls": {number[call]: asdict(call) for call in calls}}


def unpacked(row: Row) -> dict[str, Any]:
    """The recorded calls, from a row."""
    calls = {text: probe.Call(**{**one, "seen": tuple(one["seen"])}) for text, one in row["calls"].items()}
    return {**row, "rows": [(what, members, [calls[one] for one in made_]) for what, members, made_ in row["rows"]]}


@cache
def _table() -> Mapping[str, Any]:
    types: Mapping[str, Any] = json.loads(TABLE.read_text("utf-8"))
    return types


@cache
def _type_rows() -> Mapping[str, TypeRow]:
    return rows_of(_table())


def row_in_table(kind: str) -> Mapping[str, Any] | None:
    """A type's row, with the facts that it shares with another type."""
    row: Mapping[str, Any] | None = _table()["types"].get(kind)
    if row is None or "as" not in row:
        return row
    return {**{k: v for k, v in row.items() if k != "as"}, "facts": _table()["types"][row["as"]]["facts"]}


def row_of(kind: str) -> Row:
    """Record a class, and compare what it did with the table."""
    recorded = record(kind)
    row = type_row(kind, recorded)
    _, wrong = checked(_type_rows(), {kind: recorded}) if kind in _type_rows() else ("", {})
    differs = wrong.get(kind, "") or ("" if row == row_in_table(kind) else "its row is not what the class gives")
    return {"kind": kind, **packed(recorded), "row": row, "differs": differs}


def summary(found: Sequence[Row]) -> str:
    """How many types are of which kind, what could not be run, and what differs."""
    recorded = {row["kind"]: unpacked(row) for row in found if row["kind"] in _type_rows()}
    said, _ = checked(_type_rows(), recorded)
    lines = [f"{dict(counts({'types': {row['kind']: row['row'] for row in found}}))}; {said}"]
    lines += [
        f"- not run, {len(kinds)}: {fault}: {', '.join(kinds)}" for fault, kinds in sorted(not_run(recorded).items())
    ]
    return "\n".join([*lines, *(f"- {row['kind']}: {row['differs']}" for row in found if row["differs"])])


def keep(found: Sequence[Row]) -> None:
    """Write the table, and the recorded calls that the tests compare it with.

    Raises:
        ValueError: some types have not been recorded.
    """
    missing = set(probe.kinds()) - {row["kind"] for row in found}
    if missing:
        raise ValueError(f"{len(missing)} types have not been recorded: {', '.join(sorted(missing)[:5])}")
    table = made({row["kind"]: row["row"] for row in found})
    TABLE.write_text(text_of(table), "utf-8")
    lines = golden(rows_of(table), {row["kind"]: unpacked(row) for row in found})
    calls = ",\n ".join(f"{json.dumps(kind)}: {json.dumps(one)}" for kind, one in lines["calls"].items())
    text = f'{{"release": {json.dumps(lines["release"])}, "seqlen": {lines["seqlen"]}, "calls": {{\n {calls}\n}}}}\n'
    GOLDEN.write_text(text, "utf-8")


def limit() -> None:
    torch.set_num_threads(1)  # the models are too small for more
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def depends(kind: str) -> object:
    """The release, how it is recorded, and what the table says now."""
    return [transformers.__version__, torch.__version__, code("tests/support/model_classes"), row_in_table(kind)]


CHECK = Check(
    cases=probe.kinds,
    carry_out=row_of,
    depends=depends,
    good=lambda row: not row["differs"],
    by=(
        lambda row: "nested" if "text" in row["row"] else "facts" if row["row"].get("facts") else "refused",
        lambda row: bool(row["differs"]),
    ),
    summarise=summary,
    keep=keep,
    limit=limit,
)
