"""Formulas of the tables in ``arch_specs/``: a small part of Python's expressions, read from its syntax tree.

``head_dim or hidden_size // num_attention_heads`` states a class's computation in the words of its source. There are
names, constants, arithmetic, comparisons, ``and``, ``or``, ``not``, a choice, subscripts, tuples, and the functions of
``_FUNCTIONS``. A subscript of None, or one that is not there, is None.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"len": len, "log": math.log, "max": max, "min": min}


@cache
def names_of(text: str) -> tuple[str, ...]:
    """The names that a formula reads, in the order of the text."""
    called = {id(node.func) for node in ast.walk(_tree(text)) if isinstance(node, ast.Call)}
    found = (node for node in ast.walk(_tree(text)) if isinstance(node, ast.Name) and id(node) not in called)
    return tuple(dict.fromkeys(node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))))


def value_of(text: str, member: Callable[[str], Any]) -> Any:
    """The value of a formula.

    Args:
        member: gives the value of a name.

    Raises:
        ValueError: the formula cannot be read, or the objects that its names mean lack such a value.
    """
    try:
        return _value(_tree(text), member)
    except (TypeError, ArithmeticError, RecursionError) as fault:
        raise ValueError(f"{text}: {fault}") from fault


@cache
def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as fault:
        raise ValueError(f"{text}: no formula") from fault


def _value(node: ast.expr, member: Callable[[str], Any]) -> Any:
    def of(part: ast.expr) -> Any:
        return _value(part, member)

    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return member(node.id)
        case ast.Tuple():
            return tuple(of(part) for part in node.elts)
        case ast.IfExp():
            return of(node.body) if of(node.test) else of(node.orelse)
        case ast.BoolOp():
            return _first(node, of)
        case ast.UnaryOp(op=ast.Not()):
            return not of(node.operand)
        case ast.UnaryOp(op=ast.USub()):
            return -of(node.operand)
        case ast.BinOp(op=ast.Pow()):
            return _power(of(node.left), of(node.right))
        case ast.BinOp():
            return _BINARY[type(node.op)](_number(of(node.left)), _number(of(node.right)))
        case ast.Compare():
            return _compare(node, of)
        case ast.Subscript():
            return _item(of(node.value), of(node.slice))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(of(part) for part in args))
    raise ValueError(f"{ast.unparse(node)}: no formula")


def _first(node: ast.BoolOp, of: Callable[[ast.expr], Any]) -> Any:
    """Of ``and`` the first value that is false, of ``or`` the first that is true; else the last."""
    value = None
    for part in node.values:
        value = of(part)
        if bool(value) is isinstance(node.op, ast.Or):
            break
    return value


def _compare(node: ast.Compare, of: Callable[[ast.expr], Any]) -> bool:
    left = of(node.left)
    for how, part in zip(node.ops, node.comparators, strict=True):
        right = of(part)
        if not _COMPARED[type(how)](left, right):
            return False
        left = right
    return True


def _number(value: Any) -> Any:
    """An operand. Arithmetic is for numbers; text and lists, whose products can be of any size, have none."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r:.40} is not a number")
    return value


def _power(base: Any, exponent: Any) -> float:
    if _number(base) <= 0:
        raise ValueError(f"{base!r:.40}: not a positive number")
    return float(math.pow(base, _number(exponent)))


def _item(whole: Any, index: Any) -> Any:
    if isinstance(whole, Mapping):
        return whole.get(index)
    if isinstance(whole, list | tuple | str) and type(index) is int and -len(whole) <= index < len(whole):
        return whole[index]
    if whole is None or isinstance(whole, list | tuple | str):
        return None
    raise TypeError(f"{whole!r:.40} has no parts")
