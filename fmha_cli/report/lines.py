"""Problems, kernels, launches and reasons as short lines of text for people, from their JSON forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from fmha_cli.report.units import cell

Row = Mapping[str, Any]

SHORT = 8
"""Digits of a digest that ``--kernel`` takes at least."""

_SHOWN = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "hdim", "hdim_v", "dtype", "mask", "mode")
_HIDDEN = ("layout", "direction", "scale", "lse", "seqlens_q", "seqlens_k", "cache_seqlens", "seed", "offset")


def problem_text(problem: Row) -> str:
    """A problem in few characters: ``b2 h8/2 s1024/4096 d128 fp16 causal``, then fields other than the defaults."""

    def pair(name: str, first: str, second: str) -> str:
        a, b = problem[first], problem[second]
        return f"{name}{a}" if a == b else f"{name}{a}/{b}"

    parts = [f"b{problem['batch']}", pair("h", "heads", "kv_heads"), pair("s", "seqlen_q", "seqlen_k")]
    parts += [pair("d", "hdim", "hdim_v"), problem["dtype"]]
    parts += [problem["mask"]] if problem["mask"] != "none" else []
    parts += ["group"] if problem["mode"] == "group" else []
    parts += [problem["layout"]] if problem["layout"] != "bhsd" else []
    parts += [problem["direction"]] if problem["direction"] != "fwd" else []
    parts += ["lse"] if problem["lse"] else []
    for key in sorted(set(problem) - set(_SHOWN) - set(_HIDDEN)):
        value = problem[key]
        parts.append(key if value is True else f"{key}={cell(value)}")
    return " ".join(parts)


def reason_text(reason: Row) -> str:
    """A reason in one line."""
    return helped(f"{reason['id']} {reason['text']}", reason["hint"])


def helped(text: str, help: str | None) -> str:
    """A text with what to do about it, if something is known."""
    return f"{text} (help: {help})" if help else text


def labels(names: Sequence[str]) -> dict[str, str]:
    """Each kernel's family and the parts that distinguish it; tables show the backend and architecture separately.

    If there are several kernels, parts that all of them share are left out. Choices that a kernel leaves open are too.
    """
    parts = {}
    for name in names:
        _, family, _, signature, algorithm = name.split(":", 4)
        pairs = [pair for pair in (*signature.split(","), *algorithm.split(",")) if not pair.endswith("=any")]
        parts[name] = [family, *filter(None, pairs)]
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    return {name: " ".join([own[0], *(part for part in own[1:] if part not in shared)]) for name, own in parts.items()}


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
