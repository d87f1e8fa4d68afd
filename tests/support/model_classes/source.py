"""What the source of a class of configurations says about the types of layers, as formulas of ``domain.formula``."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

_LISTS = ("self.layer_types", "self.layers_block_type")
_WRAPPERS = ("bool", "int", "list", "set")


class _Read(ast.NodeTransformer):
    """``self.member`` and names that stand for members become names; the variable of the layers becomes ``i``."""

    def __init__(self, variable: str, known: dict[str, ast.expr]) -> None:
        self.variable, self.known = variable, known

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Name(node.attr) if ast.unparse(node.value) == "self" else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name("i") if node.id == self.variable else self.known.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS and len(node.args) == 1:
            return self.visit(node.args[0])
        return self.generic_visit(node)


def _trees(config: type) -> list[ast.AST]:
    """The ``__post_init__`` of a class and of its bases in transformers, its own first."""
    trees: list[ast.AST] = []
    for cls in config.__mro__:
        begun = cls.__dict__.get("__post_init__")
        if begun is not None and cls.__module__.startswith("transformers.models"):
            try:
                trees.append(ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(begun)))).body[0])
            except (OSError, SyntaxError, TypeError):
                continue
    return trees


def layer_formulas(config: type) -> list[tuple[str, dict[str, Any]]]:
    """The types that a configuration without ``layer_types`` gets, each way with the defaults of the members that it takes from
    elsewhere; those of a class whose own ``__post_init__`` says nothing are its base's."""
    return next((found for tree in _trees(config) if (found := _of(tree))), [])


def derived(config: type) -> dict[str, str]:
    """The members that a class computes from others: name -> formula, in which the same name is what the configuration says."""
    found: dict[str, str] = {}
    for tree in reversed(_trees(config)):
        for node in getattr(tree, "body", ()):
            given = [(None, node)] if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.If) and not node.orelse:
                given = [(node.test, part) for part in node.body if isinstance(part, ast.Assign)]
            for test, part in given:
                name = ast.unparse(part.targets[0])
                if (
                    not name.startswith("self.")
                    or name in _LISTS
                    or not _plain(part.value)
                    or not (test is None or _plain(test))
                ):
                    continue
                value = ast.unparse(_Read("", {}).visit(part.value))
                own = name.removeprefix("self.")
                found[own] = (
                    value if test is None else f"{value} if {ast.unparse(_Read('', {}).visit(test))} else {own}"
                )
    return {name: formula for name, formula in found.items() if formula != name}


def _plain(node: ast.expr) -> bool:
    """Whether a formula can say it."""
    kinds = (
        ast.Constant,
        ast.Name,
        ast.Attribute,
        ast.BinOp,
        ast.BoolOp,
        ast.Compare,
        ast.IfExp,
        ast.UnaryOp,
        ast.operator,
        ast.boolop,
        ast.cmpop,
    )
    return all(
        isinstance(part, (*kinds, ast.unaryop, ast.expr_context)) for part in ast.walk(node)
    ) and "kwargs" not in ast.unparse(node)


def _of(tree: ast.AST) -> list[tuple[str, dict[str, Any]]]:
    known: dict[str, ast.expr] = {}
    defaults: dict[str, Any] = {}
    found: list[tuple[str, dict[str, Any]]] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if (
            isinstance(value, ast.Call)
            and ast.unparse(value.func) in ("kwargs.pop", "kwargs.get")
            and isinstance(value.args[0], ast.Constant)
        ):
            name = value.args[0].value
            known[ast.unparse(target).removeprefix("self.")] = ast.Name(name)
            if len(value.args) > 1 and isinstance(value.args[1], ast.Constant):
                defaults[name] = value.args[1].value
        elif isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            known[target.id] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in _LISTS:
            formula = _formula(node.value, known)
            if formula:
                found.append((formula, {name: value for name, value in defaults.items() if name in formula}))
    return found


def _formula(value: ast.expr, known: dict[str, ast.expr]) -> str:
    if isinstance(value, ast.ListComp) and "range(" in ast.unparse(value.generators[0].iter):
        read = _Read(ast.unparse(value.generators[0].target), known).visit(value.elt)
        return ast.unparse(_Read("", known).visit(read))
    if (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Mult)
        and isinstance(value.left, ast.List)
        and len(value.left.elts) == 1
    ):
        return ast.unparse(_Read("", known).visit(value.left.elts[0]))
    return ""
