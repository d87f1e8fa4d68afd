"""For a plugin: the imports of its files, its imports before a worker exists, and its answers without its library."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest import mock

from fmha_cli.conformance.subject import Subject
from fmha_cli.domain.device import Availability
from fmha_cli.domain.protocols import Backend, Explained
from fmha_cli.toolchain import framework

_PUBLIC = ("fmha_cli.api", "fmha_cli.plugin")

_PARENT = """
import sys
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.run.loading import load

backend = load(sys.argv[1], sys.argv[2], Backend)
if backend.probes_in_parent:
    backend.probe()
for arch in backend.archs():
    assert list(backend.decide(Problem.of(), DeviceFacts(id="none", archs=(arch,)))), f"no decision for {arch}"
print(*(name for name in sys.argv[3:] if name in sys.modules))
"""


def check_sources(folder: Path, lines: int) -> None:
    """The modules below a folder have at most so many lines together. Of ``fmha_cli`` they import ``api`` and
    ``plugin`` alone.
    """
    texts = {path: path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}
    assert texts, f"{folder} has no module"
    assert (length := sum(len(text.splitlines()) for text in texts.values())) <= lines, f"{length} lines"
    other = [f"{path}: {name}" for path, text in texts.items() for name in _list_imports(text) if name not in _PUBLIC]
    assert not other, f"a plugin imports fmha_cli.api and fmha_cli.plugin alone: {other}"


def check_codes(backend: Backend, folder: Path) -> None:
    """Every rule or error of a plugin's own (K900 on) that stands in the modules below a folder has a page: it is among the
    backend's rules, or in its ``errors``."""
    nodes = (node for path in sorted(folder.rglob("*.py")) for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    codes = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    own = {code for code in codes if re.fullmatch(r"K9\d\d", code)}
    known = {rule.id for rule in backend.rules()} | set(backend.errors if isinstance(backend, Explained) else ())
    assert not own - known, f"`fmha explain` has no page of {sorted(own - known)}"


def _list_imports(text: str) -> Iterator[str]:
    """The modules of ``fmha_cli`` that a text imports."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            whole = node.module == "fmha_cli"
            names = [f"fmha_cli.{name}" for name in names] if whole else [node.module or ""]
        yield from (name for name in names if name.split(".")[0] == "fmha_cli")


def check_parent(subject: Subject, *packages: str) -> None:
    """Registration, the probe of a backend that answers in the parent, and decisions for every architecture import none of
    these packages: the library belongs in the worker, which may crash, and whose threads must not stay around during
    other rows.
    """
    command = [sys.executable, "-c", _PARENT, subject.entry, subject.backend.name, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split(), f"the parent imports {done.stdout.strip()}"


def probed(backend: Backend, installed: str | None = None) -> Availability:
    """The answer of its probe where every package has this version, or where none is installed."""

    def version(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    with mock.patch.object(framework, "version", version):
        return backend.probe()
