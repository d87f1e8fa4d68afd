"""``--filter KEY:GLOB[,...]`` over records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from fmha_cli.discovery.filters import Filter, Term, parse_terms
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.errors import EmptySelection
from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import By, value_of

KEYS = (*(by.value for by in By if by is not By.PROBLEM), "digest", "verdict", *Problem.of().to_dict())
"""A record's own properties, then the fields of its problem."""


def parse_record_filter(texts: Sequence[str]) -> Filter:
    """The filter of all ``--filter`` options together.

    Raises:
        UsageError: F001, an unknown key or a term without a colon.
    """
    parts = (part for text in texts for part in text.split(","))
    return Filter(parse_terms(parts, KEYS, example="dtype:bf16,-mask:none"))


def filtered(records: Iterable[Record], chosen: Filter) -> tuple[Record, ...]:
    """The records that match every step of a filter.

    Raises:
        EmptySelection: F002, none does, though there are some.
    """
    every = tuple(records)
    left = every
    for step in chosen.steps():
        before, left = left, tuple(record for record in left if _admits(step, record))
        if before and not left:
            terms = ",".join(term.text() for term in step)
            raise EmptySelection(
                f"--filter {terms} matches none of the {len(before):,} rows", code="F002", where="--filter"
            )
    return left


def _admits(step: Sequence[Term], record: Record) -> bool:
    text = _text(record, step[0].key)
    return any(fnmatchcase(text, term.glob) for term in step) is not step[0].exclude


def _text(record: Record, key: str) -> str:
    if key == "digest":
        return "" if record.kernel is None else record.kernel.digest
    if key == "verdict":
        return record.verdict.value
    value = value_of(record, By(key)) if key in list(By) else record.problem.get(key)
    return "" if value is None else field_text(value)
