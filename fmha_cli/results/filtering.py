"""``--filter KEY:GLOB[,KEY:GLOB...]`` over records, as over kernels: matching only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from fmha_cli.discovery.filters import Filter, fits, parse_terms
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.errors import EmptySelection
from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import told

_KEYS = (
    "backend",
    "device",
    "arch",
    "kernel",
    "digest",
    "family",
    "cache",
    "threads",
    "verdict",
    "selected_by",
    "model",
    "layer_kind",
)


def filtered(records: Sequence[Record], texts: Sequence[str]) -> tuple[Record, ...]:
    """The records that all texts of ``--filter`` let through; all without texts.

    A key is a member of the problem, or backend, device, arch, kernel (its name), digest, family, cache, threads, verdict, selected_by,
    model or layer_kind. What a record does not have is an empty text.

    Raises:
        UsageError: F001, an unknown key or a term without a colon.
        EmptySelection: F002, no record is left.
    """
    keys = (*_KEYS, *(field.name for field in fields(Problem)))
    parts = (part for text in texts for part in text.split(","))
    steps = list(Filter(parse_terms(parts, keys, example="dtype:bf16,-backend:cpu")).steps())
    kept = tuple(record for record in records if all(fits(step, _value(record, step[0].key)) for step in steps))
    if steps and records and not kept:
        terms = ",".join(term.text() for step in steps for term in step)
        missed = (
            "does not match the only record" if len(records) == 1 else f"matches none of the {len(records):,} records"
        )
        what = f"--filter {terms} {missed}"
        raise EmptySelection(what, code="F002", where="--filter", help="without it the table shows all of them")
    return kept


def _value(record: Record, key: str) -> str:
    value = told(record, key) if key in _KEYS else record.problem.get(key)
    return "" if value is None else field_text(tuple(value) if isinstance(value, list) else value)
