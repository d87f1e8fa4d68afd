"""``python-api.md`` and ``plugin-api.md``: what Python users call, and what a plugin implements and may import, with the first
paragraph of each docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .installation import ROOT
from .markdown import code, first_paragraph, listed, page, plain, section, table
from .source import Name, exported, find, members, signature, tree_of

API, PLUGIN, CONFORMANCE = "fmha_cli.api", "fmha_cli.plugin", "fmha_cli.conformance"
HOOKS = "fmha_cli.discovery.hookspecs"
UPSTREAMS = (
    ("fmha_cli.backends.gpu.upstream", "Upstream"),
    ("fmha_cli.backends.cuda.upstream", "CubinUpstream"),
    ("fmha_cli.backends.cuda.small", "SmallUpstream"),
)

_LINE = 160


def pages() -> dict[str, str]:
    """The pages of the Python API and of the plugin API."""
    users = [find(API, name) for name in exported(API)]
    shown = [find(PLUGIN, name) for name in exported(PLUGIN)]
    protocols = [found for found in _protocols() if found.name not in {one.name for one in shown}]
    about = (
        "A plugin implements [hooks](#hooks) and imports [names of `fmha_cli.plugin`](#names) and of "
        "[`fmha_cli.api`](python-api.md) alone; its tests also import [`fmha_cli.conformance`](#conformance). The core asks a backend for the members of [`Backend`](#backend) and "
        "its session for those of [`Session`](#session). [Optional protocols](#optional-protocols) add abilities."
    )
    python = (
        "`from fmha_cli import api` gives Python users the commands as functions, what their results consist of, and the "
        "errors that they raise. Plugins import these names too, beside those of the [plugin API](plugin-api.md)."
    )
    return {
        "python-api.md": page(
            "Python API", python, _index(users), *(_shown(found, level=2) for found in _sorted(users))
        ),
        "plugin-api.md": page(
            "Plugin API",
            about,
            section("Hooks", "An entry point in the group `fmha` names the module that implements them.", *_hooks()),
            section("Names", _index(shown), *(_shown(found) for found in _sorted(shown))),
            section("Optional protocols", _index(protocols, files=True), *(_shown(found) for found in protocols)),
            section("Conformance", *(_shown(found) for found in _sorted(_conformance()))),
            section(
                "GPU backends of this repository",
                "`fmha_cli/backends/gpu` and `fmha_cli/backends/cuda` have these classes. A backend for another project's kernels derives from one.",
                *(_shown(found) for found in _upstreams() if found.name not in {one.name for one in shown}),
            ),
        ),
    }


def _hooks() -> Iterator[str]:
    for statement in tree_of(HOOKS).body:
        if isinstance(statement, ast.FunctionDef):
            yield section(statement.name, _code(signature(statement)), _whole(ast.get_docstring(statement)), level=3)


def _protocols() -> Iterator[Name]:
    """The protocols of the domain that the core asks whether an object has them."""
    for path in sorted((ROOT / "fmha_cli" / "domain").glob("*.py")):
        module = f"fmha_cli.domain.{path.stem}"
        for statement in tree_of(module).body:
            if isinstance(statement, ast.ClassDef) and "runtime_checkable" in map(
                ast.unparse, statement.decorator_list
            ):
                yield find(module, statement.name)


def _conformance() -> list[Name]:
    return [find(CONFORMANCE, name) for name in exported(CONFORMANCE)]


def _upstreams() -> list[Name]:
    return [find(module, name) for module, name in UPSTREAMS]


def _sorted(names: Iterable[Name]) -> list[Name]:
    return sorted(names, key=lambda found: found.name.lower())


def _index(names: Iterable[Name], *, files: bool = False) -> str:
    rows = (
        (f"[`{one.name}`](#{one.name.lower()})", _sentence(one), code(one.file) if files else "")
        for one in _sorted(names)
    )
    return table(("name", "is", "defined in"), rows)


def _sentence(found: Name) -> str:
    text = plain(found.text) or _value(found)
    return text if len(text) <= _LINE else text.partition(". ")[0]


def _shown(found: Name, *, level: int = 3) -> str:
    if isinstance(found.node, ast.FunctionDef):
        return section(found.name, _code(signature(found.node)), _whole(found.about), level=level)
    if found.node is None:
        return section(found.name, _value(found), plain(found.text), level=level)
    bases = [ast.unparse(base) for base in found.node.bases if ast.unparse(base) not in ("Protocol", "Generic[T]")]
    heading = _code(f"class {found.name}({', '.join(bases)})" if bases else f"class {found.name}")
    lines = [f"{code(one.spelling)}: {plain(one.text)}" if one.text else code(one.spelling) for one in members(found)]
    return section(found.name, heading, plain(found.text), listed(lines), level=level)


def _value(found: Name) -> str:
    """A value in a line: of a rule its id and text, of others what is short enough to be read."""
    value = found.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "Rule":
        id, text = (str(ast.literal_eval(one)) for one in value.args[:2])
        return f"Rule [{id}](rules.md#{id.lower()}): {plain(text)}."
    shown = ast.unparse(value) if value is not None else ""
    return f"Value: `{shown}`." if shown and len(shown) <= _LINE else ""


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _whole(docstring: str | None) -> str:
    """The paragraphs of a docstring in front of its first section."""
    paragraphs = (docstring or "").split("\n\n")
    kept = []
    for paragraph in paragraphs:
        if paragraph.split("\n")[0] in ("Args:", "Raises:", "Returns:", "Attributes:", "Yields:"):
            break
        kept.append(plain(first_paragraph(paragraph)))
    return "\n\n".join(kept)
