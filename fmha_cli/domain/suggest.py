"""Near names: suggestions for a name that does not exist, and none rather than a silly one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

MOST = 3
"""Names in one suggestion."""


class NameKind(StrEnum):
    """The kinds of things that have names, as in the table."""

    ARCH = "arch"
    BACKEND = "backend"
    DEVICE = "device"
    DTYPE = "dtype"
    MASK = "mask"
    LAYOUT = "layout"
    FILL = "fill"
    DIRECTION = "direction"
    QSCALE = "qscale"
    COMMAND = "command"
    OPTION = "option"
    MODEL = "model"


def suggest(name: str, known: Iterable[str], kind: NameKind | None = None, otherwise: str | None = None) -> str:
    """``did you mean a or b?``, or ``otherwise`` (by default all existing names) if none is near.

    Args:
        known: the names that exist.
        kind: of which kind they are; then names that people use for such things are known too (``spoken``).
    """
    names = list(dict.fromkeys(known))
    near, label, note, absent = _near(name, names, kind)
    if absent:
        return absent
    if near:
        asked = f"did you mean {' or '.join(near)}{f' ({label})' if label else ''}?"
        return f"{asked} {note}".rstrip()
    if otherwise is None:
        otherwise = f"one of {', '.join(names)}" if names else "there are none"
    return "; ".join(filter(None, (note, otherwise)))


def near_names(name: str, known: Iterable[str], kind: NameKind | None = None) -> tuple[str, ...]:
    """The names that may have been meant, best first; empty if none is near."""
    return tuple(_near(name, list(dict.fromkeys(known)), kind)[0])


def note_on(name: str, known: Iterable[str], kind: NameKind) -> str:
    """The answer about a name that people use for something without a name here; empty without one."""
    return _near(name, list(dict.fromkeys(known)), kind)[2]


def _near(name: str, names: Sequence[str], kind: NameKind | None) -> tuple[Sequence[str], str, str, str]:
    """The near names, the word that found them, a note, and the text that replaces all this if the meant thing is not
    here.
    """
    from fmha_cli.domain.spoken import letters, meaning  # it reads facts, whose errors need this module

    own = letters(name)
    for said in dict.fromkeys((name, name.partition(":")[0])):
        same = [k for k in names if letters(k) and letters(k) == letters(said)]
        if same:
            return same[:MOST], "", "", ""
        found = meaning(said, kind) if kind is not None else None
        if found is not None:
            heads = {k.partition(":")[0] for k in names}
            there = [k for k in found.names if k.partition(":")[0] in heads]
            if there or found.note or found.absent:
                return there[:MOST], found.label, found.note, "" if there else found.absent
    begun = [k for k in names if len(own) > 2 and letters(k).startswith(own)]
    if begun:
        return begun[:MOST], "", "", ""
    apart = {
        k: (distance(own, letters(k)), _digits(own) != _digits(letters(k))) for k in names if close(own, letters(k))
    }
    best = min(apart.values(), default=None)
    return [k for k, far in apart.items() if far == best][:MOST], "", "", ""


def close(name: str, known: str) -> bool:
    """Whether one may be a typing mistake for the other: at most a third of the letters differ. One number is not a
    misspelling of another, unless most of the name agrees before it (``sm70`` and ``sm80``, but not ``gfx943`` and
    ``gfx942``).
    """
    if not name or not known:
        return False
    same_letters = sorted(name) == sorted(known)
    apart = distance(name, known)
    if apart == 1 and (same_letters or max(len(name), len(known)) > 2):
        return same_letters or _digits(name) == _digits(known) or _agreed(name, known) * 2 > len(known)
    return apart * 3 <= max(len(name), len(known)) and (_digits(name) == _digits(known) or same_letters)


def distance(a: str, b: str) -> int:
    """Letters inserted, left out, replaced or swapped with their neighbour (optimal string alignment)."""
    before, row = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _digits(name: str) -> str:
    """The digits of a name as a number: ``K0012`` has those of ``K012``."""
    return "".join(c for c in name if c.isdigit()).lstrip("0")


def _agreed(name: str, known: str) -> int:
    """Letters that agree from the start."""
    return next((i for i, (x, y) in enumerate(zip(name, known, strict=False)) if x != y), min(len(name), len(known)))
