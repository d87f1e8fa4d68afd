"""Names of the code with their texts and signatures, read from the source: nothing depends on the Python that runs this."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .installation import ROOT
from .markdown import first_paragraph

Definition = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Name:
    """A name and where it is defined.

    Attributes:
        node: its class or function; None for a value.
        value: the expression of a value, or the annotation of one that has none.
        text: the first paragraph of its docstring, or of the text under it.
    """

    name: str
    module: str
    node: Definition | None
    value: ast.expr | None
    text: str

    @property
    def file(self) -> str:
        return path_of(self.module).relative_to(ROOT).as_posix()

    @property
    def about(self) -> str:
        """The whole docstring."""
        return (ast.get_docstring(self.node) or "") if self.node is not None else self.text


@dataclass(frozen=True)
class MemberOf:
    """One member of a class: how it is written, and what it is."""

    spelling: str
    text: str


def exported(module: str) -> list[str]:
    """The names in a module's ``__all__``."""
    for statement in tree_of(module).body:
        if isinstance(statement, ast.Assign) and "__all__" in _targets(statement):
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise RuntimeError(f"{module} has no __all__")


def find(module: str, name: str) -> Name:
    """Where a name of a module is defined, through imports from other modules.

    Raises:
        RuntimeError: nowhere.
    """
    late = ""
    for statement, after in _with_next(tree_of(module).body):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef) and statement.name == name:
            return Name(name, module, statement, None, first_paragraph(ast.get_docstring(statement)))
        if isinstance(statement, ast.Assign | ast.AnnAssign) and name in _targets(statement):
            return Name(name, module, None, statement.value, _text_under(after))
        if isinstance(statement, ast.ImportFrom) and any((a.asname or a.name) == name for a in statement.names):
            return find(str(statement.module), next(a.name for a in statement.names if (a.asname or a.name) == name))
        if isinstance(statement, ast.If):  # names that are imported for types, and by __getattr__ on first use
            found = (s for s in statement.body if isinstance(s, ast.ImportFrom) and name in {a.name for a in s.names})
            late = next((str(s.module) for s in found), late)
    if late:
        return find(late, name)
    raise RuntimeError(f"{module} does not define {name}")


def signature(node: Definition) -> str:
    """``name(arguments) -> result`` of a function."""
    assert isinstance(node, ast.FunctionDef)
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def members(found: Name) -> Iterator[MemberOf]:
    """The public members of a class, in the order of the source."""
    assert isinstance(found.node, ast.ClassDef)
    told = attributes(found.about)
    for statement, after in _with_next(found.node.body):
        if isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_"):
            text = first_paragraph(ast.get_docstring(statement)) or told.get(statement.name, "")
            yield MemberOf(_spelled(statement), text)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_") and not ast.unparse(statement.annotation).startswith("ClassVar"):
                text = _text_under(after) or told.get(name, "") or _noted(statement.annotation)
                yield MemberOf(_field(statement), text)
        elif isinstance(statement, ast.Assign):
            for name in (name for name in _targets(statement) if not name.startswith("_")):
                yield MemberOf(ast.unparse(statement), _text_under(after) or told.get(name, ""))


def attributes(docstring: str) -> dict[str, str]:
    """The texts of the section ``Attributes:`` of a docstring, by name."""
    found: dict[str, str] = {}
    section = re.search(r"^(?:Attributes|Args):\n((?:[ \t]+.*\n?|\n)+)", docstring, re.MULTILINE)
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        new = re.match(r"    (\w+(?:, \w+)*): (.*)", line)
        if new:
            names = new[1].split(", ")
            found.update(dict.fromkeys(names, new[2]))
        elif line.strip():
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found


def path_of(module: str) -> Path:
    """The file of a module of this checkout."""
    base = ROOT.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@cache
def tree_of(module: str) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(path_of(module).read_text("utf-8"))


def _with_next(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    return zip(body, [*body[1:], None], strict=True)


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text_under(after: ast.stmt | None) -> str:
    under = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
    return first_paragraph(under) if isinstance(under, str) else ""


def _spelled(node: ast.FunctionDef) -> str:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    if decorators & {"property", "cached_property"}:
        return f"{node.name}: {ast.unparse(node.returns)}" if node.returns is not None else node.name
    if "staticmethod" not in decorators:
        args = node.args
        args = ast.arguments(args.posonlyargs[1:] if args.posonlyargs else [], (args.args if args.posonlyargs else args.args[1:]), args.vararg, args.kwonlyargs, args.kw_defaults, args.kwarg, args.defaults)  # fmt: skip
        node = ast.FunctionDef(node.name, args, node.body, [], node.returns)
    return signature(node)


def _field(statement: ast.AnnAssign) -> str:
    annotation = statement.annotation
    while isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    default = f" = {ast.unparse(statement.value)}" if statement.value is not None else ""
    return f"{ast.unparse(statement.target)}: {ast.unparse(annotation)}{default}"


def _noted(annotation: ast.expr) -> str:
    """The text in an ``Annotated`` type."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        notes = [e.value for e in annotation.slice.elts[1:] if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        return notes[0] if notes else ""
    return ""
