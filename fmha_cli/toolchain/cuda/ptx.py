"""Drop the unused variables and prototypes of a PTX module.

NVRTC writes every constant of every header as a ``.global`` variable, whether or not anything uses it, and the linkage
does not show which ones are used. Such variables are nine tenths of the PTX of a CUTLASS kernel, and the assembler
keeps them all. This module keeps the parts that a kernel reaches and the data that the host reads (``EXPORTS``). It
does not touch the kernels' code.

Source of the grammar: PTX ISA 9.0, 4.2 (statements), 4.4 (identifiers), 5.4 (variables), 11 (directives).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

EXPORTS = "fmha_"
"""The prefix of all names in a module that the host reads."""

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>"(?:\\.|[^"\\])*")'
    r"|(?P<directive>\.[A-Za-z_]\w*)"
    r"|(?P<word>[A-Za-z][\w$]*|[_$%][\w$]+)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<mark>.)",
    re.DOTALL | re.ASCII,
)
_LINES = frozenset({".version", ".target", ".address_size", ".file", ".loc"})
"""Directives that end with the line, without a mark."""
_VARIABLES = frozenset({".global", ".const"})
_FUNCTIONS = frozenset({".entry", ".func"})
_LINKED = frozenset({".visible", ".weak", ".common"})
_OPEN, _CLOSE = "{([", "})]"


class MalformedPtx(ValueError):
    """The text ends inside a statement, or closes a bracket that it never opened."""


@dataclass(frozen=True)
class _Statement:
    """One statement of the module.

    Attributes:
        start: position of its first character.
        end: position after its last character.
        name: the name that it declares.
        words: every other word in it.
        droppable: whether it is a variable or a prototype without linkage, which is needed only if something refers to
            it.
    """

    start: int
    end: int
    name: str
    words: frozenset[str]
    droppable: bool


def drop_unreferenced(text: str) -> str:
    """The module without the ``.global`` and ``.const`` variables and the function prototypes that nothing needs.

    Functions with a body stay. So do variables whose names begin with ``EXPORTS`` or that are visible to other modules.
    Everything that these refer to in code or initialisers stays too, directly or through others. Every word of a
    function counts as a reference, so a register or label of the same name keeps a variable.

    Raises:
        MalformedPtx: the text is not valid PTX.
    """
    statements = list(_statements(text))
    needed = _collect_reached(statements)
    kept, at = [], 0
    for statement in statements:
        if statement.droppable and statement.name not in needed:
            kept.append(text[at : statement.start])
            at = statement.end
    return re.sub(r"\n{3,}", "\n\n", "".join((*kept, text[at:])))


def _collect_reached(statements: Iterable[_Statement]) -> set[str]:
    """Every name that the remaining statements refer to, directly or through others."""
    declared: dict[str, set[str]] = {}
    open_words: set[str] = set()
    for statement in statements:
        if not statement.droppable:
            open_words |= statement.words | {statement.name}
        else:
            declared.setdefault(statement.name, set()).update(statement.words)
    reached: set[str] = set()
    while open_words:
        reached |= open_words
        open_words = set().union(*(declared.get(word, ()) for word in open_words)) - reached
    return reached


def _statements(text: str) -> Iterator[_Statement]:
    tokens: list[tuple[str, str]] = []
    start, depth = 0, 0
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match.group()
        if kind == "skip":
            if "\n" in token and tokens and tokens[0][1] in _LINES:
                yield _statement(tokens, start, match.start())
                tokens = []
            continue
        if not tokens:
            start = match.start()
        tokens.append((kind, token))
        if kind != "mark":
            continue
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth < 0:
            raise MalformedPtx(f"{token!r} closes nothing at character {match.start()}")
        body = token == "}" and not _is_variable(tokens)
        if depth == 0 and (token == ";" or body):
            yield _statement(tokens, start, match.end())
            tokens = []
    if tokens and tokens[0][1] in _LINES:
        yield _statement(tokens, start, len(text))
    elif tokens:
        raise MalformedPtx(f"the statement at character {start} has no end")


def _is_variable(tokens: list[tuple[str, str]]) -> bool:
    """Whether a statement declares a variable, whose braces hold its values."""
    return next((token in _VARIABLES for _, token in tokens if token in _VARIABLES | _FUNCTIONS), False)


def _statement(tokens: list[tuple[str, str]], start: int, end: int) -> _Statement:
    words = [token for kind, token in tokens if kind == "word"]
    directives = {token for kind, token in tokens if kind == "directive"}
    variable = _is_variable(tokens)
    prototype = ".func" in directives and tokens[-1][1] == ";"
    name = _find_declared(tokens) if variable or prototype else ""
    droppable = bool(name) and not name.startswith(EXPORTS) and not directives & _LINKED
    return _Statement(start, end, name, frozenset(words) - {name}, droppable)


def _find_declared(tokens: list[tuple[str, str]]) -> str:
    """The name that a variable or a prototype declares: its first word outside brackets; empty for several names.

    A function's return value and an attribute's value precede the name in parentheses.
    """
    depth, found = 0, ""
    for kind, token in tokens:
        if kind == "mark":
            depth += (token in _OPEN) - (token in _CLOSE)
            if token == "," and depth == 0:
                return ""
        elif kind == "word" and depth == 0 and not found:
            found = token
    return found
