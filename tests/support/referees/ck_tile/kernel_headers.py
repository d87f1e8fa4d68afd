"""Declarations in CK's kernel headers: argument struct members and the parameters of the functions that fill them."""

from __future__ import annotations

import re
from pathlib import Path

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DISABLED = re.compile(r"#if 0\b.*?(?:#else(.*?))?#endif", re.DOTALL)
_STRUCT = re.compile(r"\bstruct\s+(\w+)[^;{]*\{")
_MEMBER = re.compile(r"[\w:<>\s*]+?[\s*](\w+(?:\s*,\s*\w+)*)\Z")
_SKIPPED = ("using ", "template", "static ", "union ", "struct ", "enum ")


def plain(path: Path) -> str:
    """A header without comments and without ``#if 0`` parts."""
    text = _COMMENT.sub(" ", path.read_text("utf-8"))
    return _DISABLED.sub(lambda found: found.group(1) or " ", text)


def body(text: str, start: int, opening: str = "{", closing: str = "}") -> str:
    """The text between an opening bracket and its counterpart."""
    depth, at = 1, start
    while depth:
        depth += {opening: 1, closing: -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]


def struct(text: str, name: str) -> str:
    """The body of a struct."""
    found = re.search(rf"\bstruct\s+{name}\b[^;{{]*\{{", text)
    assert found, f"no struct {name}"
    return body(text, found.end())


def karg_members(text: str) -> set[str]:
    """The names of the data members of every argument struct."""
    out: set[str] = set()
    for found in _STRUCT.finditer(text):
        if "Karg" in found.group(1) or "SeedOffset" in found.group(1):
            out |= _members(body(text, found.end()))
    return out


def _members(text: str) -> set[str]:
    while True:
        flat = re.sub(r"\{[^{}]*\}", ";", text)
        if flat == text:
            break
        text = flat
    names: set[str] = set()
    for statement in text.split(";"):
        line = " ".join(statement.split("=")[0].split())
        if not line or "(" in statement.split("=")[0] or line.startswith(_SKIPPED):
            continue
        found = _MEMBER.match(line)
        if found:
            names |= {name.strip() for name in found.group(1).split(",")}
    return names


def parameters(text: str, function: str, group: bool) -> list[list[str]]:
    """The parameter names of every overload of ``function`` for a mode, including unconditional ones."""
    out = []
    for found in re.finditer(rf"\b{function}\s*\(", text):
        before = text[max(0, found.start() - 200) : found.start()]
        if "return" in before[-20:] or not re.search(r"Kargs>?\s*\Z", before):
            continue
        condition = re.findall(r"Cond\s*=\s*(!?)kIsGroupMode", before)
        if condition and (condition[-1] == "") is not group:
            continue
        out.append([_name(part) for part in _split(body(text, found.end(), "(", ")"))])
    return out


def _split(text: str) -> list[str]:
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += {"<": 1, ">": -1, "(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [*parts, part]


def _name(part: str) -> str:
    return part.split("=")[0].split()[-1].lstrip("*&")
