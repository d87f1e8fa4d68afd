"""Compiles expressions of launch code to functions of a scope; unknown values propagate.

It covers the C++ that upstream's launch templates use: arithmetic, comparisons, ``&&``, ``||``, ``?:``, members of
``params``, constants of traits (``Kernel_traits::kBlockM``), ``std::max``, ``sizeof``, ``size(Layout{})``.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

Scope = MutableMapping[str, Any]
Value = Callable[[Scope], Any]


class Unknown:
    """A value that depends on a problem when no problem is given: neither true nor false."""

    def __repr__(self) -> str:
        return "unknown"

    def __bool__(self) -> bool:
        raise AssertionError("an unknown value was asked for its truth")


UNKNOWN = Unknown()


def _strict(function: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    def combine(left: Value, right: Value) -> Value:
        def value(scope: Scope) -> Any:
            a, b = left(scope), right(scope)
            return UNKNOWN if a is UNKNOWN or b is UNKNOWN else function(a, b)

        return value

    return combine


def _divided(a: int, b: int) -> int:
    assert isinstance(a, int) and isinstance(b, int) and a >= 0 and b > 0  # noqa: PT018
    return a // b


def _and(left: Value, right: Value) -> Value:
    def value(scope: Scope) -> Any:
        a = left(scope)
        if a is not UNKNOWN and not a:
            return False
        b = right(scope)
        if b is not UNKNOWN and not b:
            return False
        return UNKNOWN if UNKNOWN in (a, b) else True

    return value


def _or(left: Value, right: Value) -> Value:
    def value(scope: Scope) -> Any:
        a = left(scope)
        if a is not UNKNOWN and a:
            return True
        b = right(scope)
        if b is not UNKNOWN and b:
            return True
        return UNKNOWN if UNKNOWN in (a, b) else False

    return value


_LEVELS: tuple[dict[str, Callable[[Value, Value], Value]], ...] = (
    {"||": _or},
    {"&&": _and},
    {"==": _strict(lambda a, b: a == b), "!=": _strict(lambda a, b: a != b)},
    {
        "<": _strict(lambda a, b: a < b),
        "<=": _strict(lambda a, b: a <= b),
        ">": _strict(lambda a, b: a > b),
        ">=": _strict(lambda a, b: a >= b),
    },
    {"+": _strict(lambda a, b: a + b), "-": _strict(lambda a, b: a - b)},
    {"*": _strict(lambda a, b: a * b), "/": _strict(_divided), "%": _strict(lambda a, b: a % b)},
)
_CONSTANTS = {"true": True, "false": False, "nullptr": None}


def compiled(words: Sequence[str]) -> Value:
    """The value of an expression, as a function of a scope (name -> value)."""
    parser = _Parser(words)
    value = parser.choice()
    assert parser.at == len(words), f"left over: {' '.join(words[parser.at :])}"
    return value


class _Parser:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self.at = 0

    def _next(self) -> str:
        return self._words[self.at] if self.at < len(self._words) else ""

    def _take(self, wanted: str = "") -> str:
        word = self._next()
        assert word, "an expression ends too early"
        assert wanted in ("", word), f"{wanted!r} expected, not {word!r} in {' '.join(self._words)}"
        self.at += 1
        return word

    def choice(self) -> Value:
        condition = self._level(0)
        if self._next() != "?":
            return condition
        self._take()
        yes = self.choice()
        self._take(":")
        no = self.choice()
        return lambda scope: yes(scope) if condition(scope) else no(scope)

    def _level(self, depth: int) -> Value:
        if depth == len(_LEVELS):
            return self._unary()
        value = self._level(depth + 1)
        while self._next() in _LEVELS[depth]:
            value = _LEVELS[depth][self._take()](value, self._level(depth + 1))
        return value

    def _unary(self) -> Value:
        if self._next() == "!":
            self._take()
            inner = self._unary()

            def negated(scope: Scope) -> Any:
                a = inner(scope)
                return UNKNOWN if a is UNKNOWN else not a

            return negated
        if self._next() == "-":
            self._take()
            inner = self._unary()
            return lambda scope: -inner(scope)
        return self._primary()

    def _primary(self) -> Value:
        word = self._take()
        if word == "(":
            value = self.choice()
            self._take(")")
            return value
        if word[0].isdigit():
            number: Any = float(word.rstrip("f")) if "." in word else int(word)
            return lambda scope: number
        if word in _CONSTANTS:
            constant = _CONSTANTS[word]
            return lambda scope: constant
        while self._next() in ("::", "."):
            word += self._take() + self._take()
        if self._next() == "(":
            return self._call(word)
        if self._next() == "{":
            self._take()
            self._take("}")
        return lambda scope: scope[word]

    def _call(self, name: str) -> Value:
        self._take("(")
        given: list[Value] = []
        while self._next() != ")":
            given.append(self.choice())
            if self._next() == ",":
                self._take()
        self._take(")")
        return lambda scope: scope[f"{name}()"](*(value(scope) for value in given))
