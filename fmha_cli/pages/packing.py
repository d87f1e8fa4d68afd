"""Datasets in few bytes: by columns, and each column in the shortest of four forms. ``page.js`` unpacks them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from fmha_cli.pages.plot import Rows
from fmha_cli.report.finite import nulled

_SHORT = (",", ":")
"""Separators without spaces."""


def packed(rows: Rows) -> dict[str, Any]:
    """``{"n": 3, "columns": {name: column}}``; all rows have the same members.

    A column is a list of values; ``{"of": distinct, "at": places}``; ``{"of": values, "runs": lengths}``, in which each value
    stands so many times; or ``{"steps": differences}`` of whole numbers.
    """
    names = list(rows[0]) if rows else []
    return {"n": len(rows), "columns": {name: column([row[name] for row in rows]) for name in names}}


def column(values: Sequence[Any]) -> Any:
    """The shortest form of a column."""
    forms: list[Any] = [list(values)]
    keyed = [(type(value), value) for value in values]
    distinct = list(dict.fromkeys(keyed))
    if len(distinct) < len(values):
        places = {key: place for place, key in enumerate(distinct)}
        forms.append({"of": [value for _, value in distinct], "at": [places[key] for key in keyed]})
        runs = [(key[1], len(list(same))) for key, same in groupby(keyed)]
        forms.append({"of": [value for value, _ in runs], "runs": [length for _, length in runs]})
    if len(values) > 1 and all(type(value) is int for value in values):
        forms.append({"steps": [values[0], *(b - a for a, b in pairwise(values))]})
    return min(forms, key=lambda form: len(json.dumps(form, separators=_SHORT, ensure_ascii=False)))


def text_of(value: Any) -> str:
    """JSON without spaces. NaN and infinity, for which JSON has no word, are null."""
    return json.dumps(nulled(value)[0], separators=_SHORT, ensure_ascii=False, allow_nan=False)


def script_text(value: Any) -> str:
    """JSON for a ``script`` element: no text in it can end the element or begin a comment."""
    return text_of(value).replace("<", "\\u003c")
