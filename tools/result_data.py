"""The data under ``results/data``: compressed JSON, and tables in Markdown made of it."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"


def read_json(path: Path) -> Any:
    """A JSON document; one whose name ends in ``.xz`` is unpacked."""
    raw = path.read_bytes()
    return json.loads(lzma.decompress(raw) if path.suffix == ".xz" else raw)


def write_json(path: Path, document: Any) -> None:
    """Replace a file by a document, packed if the name ends in ``.xz``. A reader sees the old file or the new one."""
    packed = path.suffix == ".xz"
    text = json.dumps(document, separators=(",", ":")) if packed else json.dumps(document, indent=1)
    raw = (text + "\n").encode()
    scratch = path.with_name(f"{path.name}.part")
    scratch.write_bytes(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME) if packed else raw)
    scratch.replace(path)


def data_of(name: str) -> Any:
    """The document ``results/data/NAME.json.xz``."""
    return read_json(RESULTS / "data" / f"{name}.json.xz")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown. Floats are written with ``%g``, and None as an empty cell."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def spread(values: Iterable[float | None]) -> str:
    """The least and the largest value."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """The rows of each key, in the order in which keys come first."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
