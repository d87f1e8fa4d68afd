"""Reading files and JSON that may be damaged, foreign or hostile: every fault is one kind of error, and nothing hangs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.regular import open_regular

DEEPEST = 64
"""Levels of nesting. Documents of fmha have fewer than 20, and code that walks a value recursively allows about 300."""


class NotJson(DecodeError):
    """The text is not JSON."""


def regular_bytes(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return file.read()


def parsed(data: bytes, constants: bool = False) -> Any:
    """The value of a JSON text in UTF-8.

    Args:
        constants: Infinity and NaN, as Python writes them, are numbers.

    Raises:
        NotJson: not JSON (RFC 8259, so no NaN), a number beyond every float, or not UTF-8.
        DecodeError: nested more deeply than ``DEEPEST``.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=float if constants else _no_constant,
            parse_float=float if constants else _finite,
        )
    except RecursionError as fault:
        raise _too_deep() from fault
    except ValueError as fault:
        raise NotJson(f"not JSON: {fault}") from fault
    level = [value]
    for _ in range(DEEPEST):
        level = [item for node in level for item in _children(node) if type(item) in (dict, list)]
        if not level:
            return value
    raise _too_deep()


def _children(node: Any) -> Any:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _too_deep() -> DecodeError:
    return DecodeError(f"nested more than {DEEPEST} levels deep")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is beyond every float")
    return value
