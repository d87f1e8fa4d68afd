"""Plants damage in JSON documents, for the tests of journals and baselines."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from fmha_cli.domain.encode import digest_of

DEEP = "[" * 3000 + "]" * 3000
"""JSON on which Python's own parser gives up."""

DEEPER_THAN_DOCUMENTS = "[" * 200 + "]" * 200
"""JSON that Python parses, and on which a recursive function may give up."""


def with_member(tree: Any, path: str, value: Any) -> Any:
    """A copy of a JSON value in which the member at ``a.b.0`` is another one. The members on the way must exist."""
    whole = copy.deepcopy(tree)
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    node = whole
    for key in way:
        node = node[key]
    node[last] = value
    return whole


def without_member(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A copy of an object without one member."""
    return {key: value for key, value in tree.items() if key != name}


def resealed(lines: list[Any]) -> list[Any]:
    """The lines of a journal with new checksums, as someone who changes a journal and knows fmha would make them."""
    start = digest_of(lines[0])
    return [{**line, "sha256": digest_of([start, line["rows"]])} if line["event"] == "done" else line for line in lines]
