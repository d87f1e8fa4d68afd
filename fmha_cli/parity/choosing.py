"""``--filter KEY:GLOB[,KEY:GLOB...]`` over cases: a key is ``name``, ``group``, ``program`` or an option of a program.

Each key must match; a key with several terms matches if one of them does. ``-KEY:GLOB`` excludes cases.
An option that a case does not set has its program's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from fmha_cli.discovery.filters import Filter, Term, parse_terms
from fmha_cli.domain.counterpart import Program, UpstreamCase
from fmha_cli.domain.errors import EmptySelection

FIXED = ("name", "group", "program")
"""Keys that are not options of a program."""


def terms_of(texts: Sequence[str], options: Mapping[Program, Mapping[str, str]]) -> tuple[Term, ...]:
    """The terms of all ``--filter`` options together.

    Args:
        options: the options of each program.

    Raises:
        UsageError: F001, an unknown key (with near keys) or a term without a colon.
    """
    keys = tuple(dict.fromkeys((*FIXED, *(name for known in options.values() for name in known))))
    return parse_terms((part for text in texts for part in _split(text)), keys, example="prec:bf16")


def _split(text: str) -> list[str]:
    """Split a text into terms. A comma that does not begin a term belongs to the glob before it (``mask:t:128,30``)."""
    parts: list[str] = []
    for part in text.split(","):
        head = part.strip().removeprefix("-").partition(":")
        if parts and not (head[1] and head[0].replace("_", "").isalnum() and not head[0].isdigit()):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def chosen(cases: Iterable[UpstreamCase], terms: Sequence[Term], limit: int | None = None) -> list[UpstreamCase]:
    """The cases that match, at most ``limit`` of them.

    Raises:
        EmptySelection: F002, none matches; names the term that leaves nothing.
    """
    out: list[UpstreamCase] = []
    alone, steps = dict.fromkeys(terms, 0), tuple(Filter(tuple(terms)).steps())
    for case in cases:
        for term in terms:
            alone[term] += _admits(term, case)
        if all(any(_admits(term, case) for term in step) for step in steps):
            out.append(case)
            if limit is not None and len(out) >= limit:
                return out
    if not out:
        empty = [term.text() for term in terms if not alone[term]] or [term.text() for term in terms]
        help = "fmha parity --list prints the cases with their settings"
        raise EmptySelection(f"--filter {','.join(empty)} matches no case", code="F002", where="--filter", help=help)
    return out


def _admits(term: Term, case: UpstreamCase) -> bool:
    return fnmatchcase(_value(case, term.key), term.glob) != term.exclude


def _value(case: UpstreamCase, key: str) -> str:
    fixed = {"name": case.name, "group": case.group, "program": case.program.value}
    return fixed[key] if key in fixed else case.value(key)
