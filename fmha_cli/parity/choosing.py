"""``--filter KEY:GLOB[,KEY:GLOB...]`` over cases: a key is ``name``, ``group``, ``program`` or an option of a program.

Terms of different keys must all match; of several terms with one key, one must. ``-KEY:GLOB`` takes cases out.
An option that a case does not give has its program's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from fmha_cli.errors import EmptySelection, UsageError
from fmha_cli.filters import Term
from fmha_cli.near import suggest
from fmha_cli.parity.case import DEFAULTS, Case

KEYS = tuple(dict.fromkeys(("name", "group", "program", *(name for flags in DEFAULTS.values() for name in flags))))


def parse_terms(texts: Sequence[str]) -> tuple[Term, ...]:
    """The terms of every ``--filter`` given.

    Raises:
        UsageError: F001, an unknown key (with near keys) or a term without a colon.
    """
    terms: list[Term] = []
    for part in (part.strip() for text in texts for part in _split(text)):
        exclude = part.startswith("-")
        key, colon, glob = part.removeprefix("-").partition(":")
        if not colon or not glob:
            raise UsageError(f"--filter {part!r} is not KEY:GLOB", code="F001", where="--filter", help="e.g. prec:bf16")
        if key not in KEYS:
            what = f"--filter {part}: no such key {key!r}"
            raise UsageError(what, code="F001", where="--filter", help=suggest(key, KEYS))
        terms.append(Term(key, glob, exclude))
    return tuple(terms)


def _split(text: str) -> list[str]:
    """The terms of one text; a comma that begins no term belongs to the glob before it (``mask:t:128,30``)."""
    parts: list[str] = []
    for part in text.split(","):
        head = part.strip().removeprefix("-").partition(":")
        if parts and not (head[1] and head[0].replace("_", "").isalnum() and not head[0].isdigit()):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def chosen(cases: Iterable[Case], terms: Sequence[Term], limit: int | None = None) -> list[Case]:
    """The cases that match, at most ``limit`` of them.

    Raises:
        EmptySelection: F002, none matches; names the term that leaves nothing.
    """
    out: list[Case] = []
    alone = dict.fromkeys(terms, 0)
    for case in cases:
        for term in terms:
            alone[term] += _admits(term, case)
        if _all(terms, case):
            out.append(case)
            if limit is not None and len(out) >= limit:
                return out
    if not out:
        empty = [term.text() for term in terms if not alone[term]] or [term.text() for term in terms]
        help = "fmha parity --list prints the cases with their settings"
        raise EmptySelection(f"--filter {','.join(empty)} matches no case", code="F002", where="--filter", help=help)
    return out


def _all(terms: Sequence[Term], case: Case) -> bool:
    included: dict[str, bool] = {}
    for term in terms:
        if term.exclude:
            if not _admits(term, case):
                return False
        else:
            included[term.key] = included.get(term.key, False) or _admits(term, case)
    return all(included.values())


def _admits(term: Term, case: Case) -> bool:
    return fnmatchcase(_value(case, term.key), term.glob) != term.exclude


def _value(case: Case, key: str) -> str:
    fixed = {"name": case.name, "group": case.group, "program": case.program.value}
    return fixed[key] if key in fixed else case.value(key)
