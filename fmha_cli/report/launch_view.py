"""A dry run's launches as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

_WIDTH = 116
_INDENT = "      "


def launch_lines(launch: Mapping[str, Any]) -> Iterator[str]:
    """The lines of one launch: sizes, symbol, arguments, notes.

    The sizes are grid, block, shared memory (LDS) and size of the arguments. The symbol is cut, because a mangled
    name may have a thousand characters; JSON has all of them. The arguments are listed by name and value.
    """
    grid, block = (" x ".join(str(n) for n in launch[name]) for name in ("grid", "block"))
    shared = f"{launch['lds_static']} + {launch['lds_dynamic']}" if launch["lds_dynamic"] else str(launch["lds_static"])
    size = launch["argument_bytes"]
    yield f"launch {launch['family']}: grid {grid}, block {block}, shared memory {shared} bytes, arguments {size} bytes"
    symbol = launch["symbol"]
    yield f"  {symbol}" if len(symbol) <= _WIDTH else f"  {symbol[:_WIDTH]}... ({len(symbol)} characters)"
    pairs = (f"{a['name']}={value_text(a['value'])}" for a in launch["arguments"])
    for line in wrap("  ".join(pairs), _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _INDENT[2:] + line
    for note in launch["notes"]:
        yield f"  note: {note}"


def value_text(value: float | bool | str | None) -> str:
    """A value as C programmers write it: ``null`` for a null pointer, nine digits for floats, enough for float32."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)
