"""The instructions in the tables of the two emulators, read from their C++ without a compiler.

A row begins with the name behind a bracket, and may end with the document that it follows. Macros of the file are expanded as the
preprocessor does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DEFINE = re.compile(r"^#define (\w+)\(([^)]*)\)((?:.*\\\n)*.*)$", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TABLE = re.compile(r"\b(?:Entry|Opcode) \w+\[\] ?= ?\{(.*?)\n?\};", re.DOTALL)
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TEXTS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|\w+|.', re.DOTALL)


@dataclass(frozen=True)
class Macro:
    """A macro with arguments."""

    parameters: tuple[str, ...]
    body: str

    def of(self, arguments: list[str]) -> str:
        """The body with these arguments."""
        given = dict(zip(self.parameters, arguments, strict=True))
        return "".join(given.get(part, part) for part in _PART.findall(self.body))


def instructions(file: Path) -> dict[str, str]:
    """The instructions in the tables of a file, each with the document that its row cites; empty for a file without a table."""
    text = file.read_text("utf-8")
    macros = {
        name: Macro(tuple(p.strip() for p in parameters.split(",")), body.replace("\\\n", " "))
        for name, parameters, body in _DEFINE.findall(text)
    }
    found: dict[str, str] = {}
    for table in _TABLE.findall(_COMMENT.sub("", text)):
        row = ""
        for one in _TEXTS.finditer(whole := _expanded(table, macros)):
            words = "".join(_TEXT.findall(one[0]))
            if whole[: one.start()].rstrip().endswith(("{", "(")):
                row, found[words] = words, ""
            elif row:
                found[row] = words
    return found


def purpose(file: Path) -> str:
    """The first sentence of a file's comment."""
    lines = re.match(r"(?://[^\n]*\n)+", file.read_text("utf-8"))
    text = " ".join(line.lstrip("/ ") for line in lines[0].splitlines()) if lines else ""
    return re.split(r"(?<=[^.]\.)\s", text)[0]


def _expanded(text: str, macros: Mapping[str, Macro]) -> str:
    """A text in which no macro is called any more."""
    out, at = "", 0
    for part in _PART.finditer(text):
        if part.start() < at or part[0] not in macros or text[part.end() : part.end() + 1] != "(":
            out += part[0] if part.start() >= at else ""
            continue
        arguments, at = _arguments(text, part.end())
        out += _expanded(macros[part[0]].of(arguments), macros)
    return out


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments in the brackets that open at a place, and where these end."""
    found, depth = [""], 0
    for part in _PART.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth == 0:
            return [one.strip() for one in found], part.end()
        if part[0] == "," and depth == 1:
            found.append("")
        elif depth > 1 or part[0] != "(":
            found[-1] += part[0]
    raise ValueError(f"a bracket stays open: {text[start : start + 40]}")
