"""The words of C++ text: comments removed, preprocessor conditions evaluated, upstream's macros expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Words = list[str]
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_WORD = re.compile(r"\d[\w.]*|[A-Za-z_]\w*|<<<|>>>|::|\.\.\.|<=|>=|==|!=|&&|\|\||->|\+\+|\+=|\"[^\"\n]*\"|[^\s\w]")


@dataclass(frozen=True)
class Macro:
    """A function-like macro: its parameter names (with ``...`` last if it is variadic) and the words of its body.

    A macro without parameters stands for one other word (``#define LOCAL_SWITCH BOOL_SWITCH``).
    """

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """The words of a file without preprocessor lines, and the macros that the file defines."""

    words: tuple[str, ...]
    macros: Mapping[str, Macro]


def words_of(text: str) -> Words:
    """The words of a text without comments or preprocessor lines."""
    return _WORD.findall(text)


def read(text: str, defined: frozenset[str] = frozenset()) -> Source:
    """Read a file; ``#ifdef NAME`` and ``#ifndef NAME`` are evaluated with ``defined``.

    Any other condition (``#if defined(__CUDA_ARCH__) ...``) counts as false. Upstream uses such conditions only in
    device code, on which the launch templates do not depend.
    """
    lines = _COMMENT.sub(" ", text).replace("\\\n", " ").splitlines()
    macros: dict[str, Macro] = {}
    kept: Words = []
    live = [True]
    for line in lines:
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if directive is None:
            kept += words_of(line) if all(live) else ()
            continue
        word, rest = directive.groups()
        if word in ("ifdef", "ifndef"):
            live.append((rest.strip() in defined) is (word == "ifdef"))
        elif word == "if":
            live.append(False)
        elif word == "else":
            live[-1] = not live[-1]
        elif word == "endif":
            live.pop()
        elif word == "define" and all(live):
            name, macro = _macro(rest)
            macros[name] = macro
    assert live == [True], "conditions of the preprocessor do not close"
    return Source(tuple(kept), macros)


def _macro(text: str) -> tuple[str, Macro]:
    named = re.match(r"(\w+)(\(([^)]*)\))?\s*(.*)", text, re.S)
    assert named is not None, text
    name, brackets, inside, body = named.groups()
    parameters = None if brackets is None else tuple(p.strip() for p in (inside or "").split(","))
    return name, Macro(parameters, tuple(words_of(body)))


def expanded(words: Sequence[str], macros: Mapping[str, Macro]) -> Words:
    """The words with every macro replaced by its body, including nested ones."""
    out: Words = []
    at = 0
    while at < len(words):
        word = words[at]
        macro = macros.get(word)
        at += 1
        if macro is None:
            out.append(word)
        elif macro.parameters is None:
            out += expanded([*macro.body, *words[at:]], macros)
            return out
        else:
            assert words[at] == "(", f"{word} without arguments"
            end = closing(words, at)
            given = dict(zip(macro.parameters, split(words[at + 1 : end], len(macro.parameters)), strict=True))
            given = {name: expanded(value, macros) for name, value in given.items()}
            variable = given.pop("...", None)
            if variable is not None:
                given["__VA_ARGS__"] = variable
            body = [w for inner in macro.body for w in given.get(inner, [inner])]
            out += body
            at = end + 1
    return out


_PAIRS = {"(": ")", "{": "}", "[": "]"}


def closing(words: Sequence[str], at: int) -> int:
    """The index of the bracket that closes the one at ``at``."""
    depth = 0
    for i in range(at, len(words)):
        depth += words[i] in _PAIRS
        depth -= words[i] in _PAIRS.values()
        if depth == 0:
            return i
    raise AssertionError(f"{words[at]} does not close")


def split(words: Sequence[str], most: int = -1) -> list[Words]:
    """The arguments between top-level commas; the last of ``most`` keeps its commas."""
    out: list[Words] = [[]]
    depth = 0
    for word in words:
        depth += (word in _PAIRS) - (word in _PAIRS.values())
        if word == "," and depth == 0 and len(out) != most:
            out.append([])
        else:
            out[-1].append(word)
    return out


def functions(words: Sequence[str]) -> Iterator[tuple[tuple[tuple[str, str], ...], str, Words]]:
    """Function templates: template parameters (kind, name), name, and the words of the body."""
    at = 0
    while at < len(words):
        if words[at] != "template" or words[at + 1] != "<":
            at += 1
            continue
        end = words.index(">", at)
        parameters = tuple((p[0], p[1]) for p in split(words[at + 2 : end]) if p)
        at = end + 1
        bracket = next((i for i in range(at, len(words)) if words[i] in "(;{"), len(words))
        if bracket == len(words) or words[bracket] != "(" or words[at] != "void":
            continue
        body = closing(words, bracket) + 1
        if words[body] == "{":
            stop = closing(words, body)
            yield parameters, words[bracket - 1], list(words[body + 1 : stop])
            at = stop + 1
