"""A small reader of upstream's generated ``*_api.cpp``: walks nested if/else chains with given values.

It understands only the C++ that the generator writes: conditions of ``&& || ! == != <= < >= > %``, calls, ``::`` names,
numbers, strings and ``std::is_same_v<A, B>``, and the statements ``using``, ``return`` and ``if``. It skips any other
text before a ``;``. An unknown name is an error, never false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

Names = Mapping[str, Any]
Node = Callable[[Names], Any]
_TOKEN = re.compile(
    r'\s+|(?P<str>"[^"]*")|(?P<num>\d+)|(?P<name>[A-Za-z_][\w.]*(?:::[A-Za-z_]\w*)*)|(?P<op>&&|\|\||==|!=|<=|>=|[<>!%*(),])'
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_BLANKS = re.compile(r"\s*")
_IF = re.compile(r"if\s*(?:constexpr\s*)?\(")
_ELSE = re.compile(r"else\b")
_PARENTHESES = re.compile(r"[()]")
_ENDS = re.compile(r"[;{}]")
_SAME = re.compile(r"std::is_same_v<([^<>]*(?:<[^<>]*>)?[^<>]*),\s*([\w:]+)>")
_POSITIVE = re.compile(r"\((\d+) > 0\)")
_USING = re.compile(r"using\s+(\w+)\s*=\s*(.*)", re.S)


@dataclass
class If:
    """``if(a) ... else if(b) ... else ...`` as ordered (condition, statements); a bare ``else`` has ``true``."""

    branches: list[tuple[str, list[Any]]]


@dataclass
class Taken:
    """Where a walk ended: the returned text, the ``using`` names in scope, and the statement before."""

    returned: str
    using: dict[str, str]
    before: str

    def arguments(self, name: str) -> tuple[str, ...]:
        """The template arguments of a ``using`` name."""
        text = _POSITIVE.sub(lambda m: "true" if int(m[1]) > 0 else "false", self.using[name])
        return tuple(split(text[text.index("<") + 1 : text.rindex(">")]))


def split(text: str) -> Iterator[str]:
    """The parts between top-level commas, without surrounding blanks."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char in "<({[") - (char in ">)}]")
        if char == "," and depth == 0:
            yield "".join(text[start:at].split())
            start = at + 1
    yield "".join(text[start:].split())


def read_function(text: str, name: str) -> list[Any]:
    """The statements of the function whose signature begins with ``name(``."""
    text = _COMMENT.sub("", text)
    head = re.search(rf"float {re.escape(name)}\([^)]*\)\s*{{", text)
    if head is None:
        raise ValueError(f"no function {name}")
    return _Reader(text, head.end()).block()


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def block(self) -> list[Any]:
        """The statements up to the closing brace."""
        out: list[Any] = []
        while True:
            self._blanks()
            if self.text[self.at] == "}":
                self.at += 1
                return out
            out.append(self._statement())

    def _blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _statement(self) -> Any:
        head = _IF.match(self.text, self.at)
        if head is None:
            return self._simple()
        branches: list[tuple[str, list[Any]]] = []
        while head is not None:
            self.at = head.end()
            condition = self._until_closing()
            branches.append((condition, self._body()))
            self._blanks()
            other = _ELSE.match(self.text, self.at)
            if other is None:
                break
            self.at = other.end()
            self._blanks()
            head = _IF.match(self.text, self.at)
            if head is None:
                branches.append(("true", self._body()))
        return If(branches)

    def _body(self) -> list[Any]:
        self._blanks()
        if self.text[self.at] != "{":
            raise ValueError(f"no brace at {self.text[self.at : self.at + 40]!r}")
        self.at += 1
        return self.block()

    def _until_closing(self) -> str:
        depth, start = 1, self.at
        while depth:
            depth += self._next(_PARENTHESES)
        return self.text[start : self.at - 1]

    def _next(self, kind: re.Pattern[str]) -> int:
        """Move past the next character of a kind. Returns 1 if it opens a bracket, -1 if it closes one, else 0."""
        found = kind.search(self.text, self.at)
        if found is None:
            raise ValueError("the text ends inside a statement")
        self.at = found.end()
        return {"(": 1, "{": 1, ")": -1, "}": -1}.get(found[0], 0)

    def _simple(self) -> str:
        depth, start = 0, self.at
        while depth or self.text[self.at - 1] != ";":
            depth += self._next(_ENDS)
        return self.text[start : self.at - 1].strip()


def walk(statements: list[Any], names: Names, using: dict[str, str] | None = None) -> Taken | None:
    """The first ``return`` that the walk reaches; None if it reaches none."""
    using, before = dict(using or {}), ""
    for statement in statements:
        if isinstance(statement, If):
            branch = next((body for condition, body in statement.branches if value_of(condition, names)), [])
            taken = walk(branch, names, using)
            if taken is not None:
                return taken
        elif (found := _USING.match(statement)) is not None:
            using[found[1]] = found[2]
        elif statement.startswith("return"):
            return Taken(statement[len("return") :].strip(), using, before)
        else:
            before = statement
    return None


def value_of(text: str, names: Names) -> Any:
    """The value of a C++ condition."""
    return parsed(text)(names)


@cache
def parsed(text: str) -> Node:
    """A condition as a function of the values of its names."""
    return _Expression(_SAME.sub(lambda m: "true" if m[1].strip() == m[2].strip() else "false", text)).read()


_LEVELS: tuple[tuple[str, ...], ...] = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("%", "*"))
_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "%": lambda a, b: a % b,
    "*": lambda a, b: a * b,
}


class _Expression:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"{text[at : at + 30]!r} in {text!r}")
            at = found.end()
            if found.lastgroup:
                self.tokens.append((found.lastgroup, found[0]))
        self.tokens.append(("end", ""))
        self.at = 0

    def read(self) -> Node:
        node = self._level(0)
        if self.tokens[self.at][0] != "end":
            raise ValueError(f"left over: {self.tokens[self.at :]}")
        return node

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while self.tokens[self.at][1] in _LEVELS[level]:
            operator = self.tokens[self.at][1]
            self.at += 1
            left = _joined(operator, left, self._level(level + 1))
        return left

    def _unary(self) -> Node:
        kind, text = self.tokens[self.at]
        self.at += 1
        if text == "!":
            inner = self._unary()
            return lambda names: not inner(names)
        if text == "(":
            node = self._level(0)
            self._expect(")")
            return node
        if kind == "num":
            number = int(text)
            return lambda names: number
        if kind == "str":
            return lambda names: text[1:-1]
        if kind != "name":
            raise ValueError(f"{text!r} is no value")
        if self.tokens[self.at][1] == "(":
            return self._call(text)
        return lambda names: names[text]

    def _call(self, name: str) -> Node:
        self.at += 1
        arguments: list[Node] = []
        while self.tokens[self.at][1] != ")":
            arguments.append(self._level(0))
            if self.tokens[self.at][1] == ",":
                self.at += 1
        self._expect(")")
        return lambda names: names[name](*(argument(names) for argument in arguments))

    def _expect(self, text: str) -> None:
        if self.tokens[self.at][1] != text:
            raise ValueError(f"{text!r} expected, not {self.tokens[self.at]}")
        self.at += 1


def _joined(operator: str, left: Node, right: Node) -> Node:
    if operator == "&&":
        return lambda names: bool(left(names)) and bool(right(names))
    if operator == "||":
        return lambda names: bool(left(names)) or bool(right(names))
    apply = _APPLY[operator]
    return lambda names: apply(left(names), right(names))
