"""The texts under the members of a class, which Python does not keep."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent

from .markdown import first_paragraph


def member_texts(kind: type) -> dict[str, str]:
    """The first paragraph of the text under each member of a class.

    Raises:
        RuntimeError: a member has none.
    """
    body = ast.parse(dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if not isinstance(text, str):
                raise RuntimeError(f"{kind.__name__}.{statement.targets[0].id} has no text under it")
            found[statement.targets[0].id] = first_paragraph(text)
    return found
