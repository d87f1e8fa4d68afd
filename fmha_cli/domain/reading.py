"""Reading files and JSON that may be damaged, foreign or hostile: every fault is one kind of error, and nothing hangs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from fmha_cli.domain.codec import DecodeError

DEEPEST = 64
"""Levels of nesting. Documents of fmha have fewer than 20, and code that walks a value recursively allows about 300."""


def regular_bytes(path: Path) -> bytes:
    """The content of a regular file. A FIFO or a device could block for ever, or never end.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(0, "it is not a regular file", str(path))
    return path.read_bytes()


def parsed(data: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    Raises:
        DecodeError: not JSON (RFC 8259, so no NaN), not UTF-8, or nested more deeply than ``DEEPEST``.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError as fault:
        raise _too_deep() from fault
    except ValueError as fault:
        raise DecodeError(f"not JSON: {fault}") from fault
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
