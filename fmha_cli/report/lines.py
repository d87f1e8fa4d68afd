"""Numbers, problems, kernels, launches and reasons as short lines of text for people.

Quantities with units are written by ``domain.quantities``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from fmha_cli.domain.quantities import Quantity, digits

if TYPE_CHECKING:
    from fmha_cli.domain.protocols import LaunchView
    from fmha_cli.domain.rules import Reason

SHORT = 8
"""The fewest digits of a digest that ``--kernel`` accepts."""

DIGITS = 12
"""Digits of a digest that identify a kernel to people."""

_SHOWN = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "hdim", "hdim_v", "dtype", "mask", "mode")
_HIDDEN = ("layout", "direction", "scale", "lse", "seqlens_q", "seqlens_k", "cache_seqlens", "seed", "offset")


def problem_text(problem: Mapping[str, Any]) -> str:
    """A problem's JSON form in few characters: ``b2 h8/2 s1024/4096 d128 fp16 causal``, then fields other than the defaults."""

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
        parts.append(key if value is True else f"{key}={_exact(value)}")
    return " ".join(parts)


def _exact(value: Any) -> str:
    """A value of a problem: three digits, or all of them where three would be another value."""
    text = cell(value)
    return repr(value) if isinstance(value, float) and float(text or 0) != value else text


_SPELLED = {"b": "batch", "h": "heads", "s": "seqlen", "d": "hdim"}


def spelled(word: str) -> str:
    """A word of ``problem_text`` in full: ``heads 8/2`` for ``h8/2``."""
    name, value = _SPELLED.get(word[:1]), word[1:]
    return f"{name} {value}" if name and value.replace("/", "").isdecimal() else word


def reason_text(reason: Reason) -> str:
    """A reason in one line."""
    return helped(f"{reason.id} {reason.text}", reason.hint)


_PLACES = {
    "K022": ("have no kernels for {}", re.compile(r"(?P<who>\S+) has no kernels for (?P<what>.+)"), None),
    "K023": (
        "have no device here",
        re.compile(r"(?P<who>[^\s:]+): .+"),
        "--arch A builds for an architecture without one; `fmha devices -v` says why each has none",
    ),
}
"""Reasons that are about a whole backend: what several of them have in common, the backends of each, and the help."""


def folded(reasons: Sequence[Reason]) -> list[Reason]:
    """Reasons for people: what several backends say about the place alone is one reason, at the place of the first."""
    groups: dict[tuple[str, str], list[tuple[str, Reason]]] = {}
    for number, reason in enumerate(reasons):
        place = _PLACES.get(reason.id)
        match = place[1].fullmatch(reason.text) if place else None
        about = match.groupdict().get("what", "") if match else str(number)
        groups.setdefault((reason.id if match else "", about), []).append((match["who"] if match else "", reason))
    out: list[Reason] = []
    for (id, about), members in groups.items():
        if len(members) == 1:
            out.append(members[0][1])
            continue
        said, _, help = _PLACES[id]
        names = ", ".join(name for name, _ in members)
        out.append(replace(members[0][1], text=f"{len(members)} backends {said.format(about)}: {names}", hint=help))
    return out


def helped(text: str, help: str | None) -> str:
    """A text, followed by its remedy if one is known."""
    return f"{text} (help: {help})" if help else text


def labels(names: Sequence[str]) -> dict[str, str]:
    """Each kernel's family and the parts that distinguish it; tables show the backend and architecture separately.

    If there are several kernels, parts that all of them share are left out. Choices that a kernel leaves open are too.
    """
    parts = {}
    for name in names:
        _, family, _, signature, algorithm = name.split(":", 4)
        both = dict.fromkeys((*signature.split(","), *algorithm.split(",")))  # some fields are in both parts
        pairs = [pair for pair in both if not pair.endswith("=any")]
        parts[name] = [family, *filter(None, pairs)]
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    return {name: " ".join([own[0], *(part for part in own[1:] if part not in shared)]) for name, own in parts.items()}


_WIDTH = 116
_INDENT = "      "


def launch_lines(launch: LaunchView) -> Iterator[str]:
    """The lines of one launch: sizes, symbol, arguments, notes.

    The sizes are grid, block, shared memory (LDS) and size of the arguments. The symbol is cut, because a mangled
    name may have a thousand characters; JSON has all of them. The arguments are listed by name and value.
    """
    grid, block = (" x ".join(map(str, extent)) for extent in (launch.grid, launch.block))
    shared = f"{launch.lds_static} + {launch.lds_dynamic}" if launch.lds_dynamic else str(launch.lds_static)
    size, symbol = launch.argument_bytes, launch.symbol
    yield f"launch {launch.family}: grid {grid}, block {block}, shared memory {shared} bytes, arguments {size} bytes"
    yield f"  {symbol}" if len(symbol) <= _WIDTH else f"  {symbol[:_WIDTH]}... ({len(symbol)} characters)"
    pairs = (f"{one.name}={value_text(one.value)}" for one in launch.arguments)
    for line in wrap("  ".join(pairs), _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _INDENT[2:] + line
    yield from (f"  note: {note}" for note in launch.notes)


def value_text(value: float | bool | str | None) -> str:
    """A value as C programmers write it: ``null`` for a null pointer, nine digits for floats, enough for float32."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def united(header: str, cells: Sequence[Quantity | None]) -> tuple[str, list[str]]:
    """A column of a table: its header and its cells. A unit that all cells share stands in the header; else every cell
    has its own."""
    units = {cell.unit for cell in cells if cell is not None}
    if len(units) != 1:
        return header, ["" if cell is None else str(cell) for cell in cells]
    unit = units.pop()
    shared = unit if unit.endswith(header) else f"{header} [{unit}]"
    return shared, ["" if cell is None else cell.number for cell in cells]


def percent(share: float | None) -> str:
    """A share as a percentage, with at most two decimals; empty for None."""
    if share is None:
        return ""
    return "<0.01" if 0 < share < 1e-4 else f"{share * 100:.{2 if share < 0.1 else 1}f}"


def short(digest: str | None) -> str:
    """The first digits of a digest or id; empty for None."""
    return (digest or "")[:SHORT]


def signed(share: float | None) -> str:
    """A share as a signed percentage; empty for None."""
    return "" if share is None else f"{share * 100:+.1f} %"


def cell(value: Any) -> str:
    """Any value as a short table cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return digits(value)
    if isinstance(value, list | tuple):
        return " ".join(cell(v) for v in value)
    if isinstance(value, Mapping):
        return " ".join(f"{k}={cell(v)}" for k, v in value.items())
    return str(value)


def counted(count: int, word: str) -> str:
    """``1 device``, ``2 devices``, ``2 entries``, ``2 launches``, ``2 processes``."""
    ends_in_y = word.endswith("y") and not word.endswith("ey")
    several = f"{word[:-1]}ies" if ends_in_y else f"{word}es" if word.endswith(("ch", "ss")) else f"{word}s"
    return f"{count} {word if count == 1 else several}"


def ranges(numbers: Sequence[int]) -> str:
    """``1-3, 7``: ascending numbers in few words."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
