"""The names for plugins: each is there, some plugin uses it, and a name that is imported from the wrong module names the right one."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from fmha_cli import api, plugin
from tests.support.paths import ROOT


def test_every_name_is_there_once() -> None:
    assert all(getattr(plugin, name) is not None for name in plugin.__all__)
    assert len(set(plugin.__all__)) == len(plugin.__all__)
    assert not set(plugin.__all__) & set(api.__all__)
    assert plugin._modules().keys() == set(plugin.__all__)


def used_names(file: Path) -> Iterator[str]:
    """What a module uses of ``fmha_cli.plugin``."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "plugin":
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and node.module == "fmha_cli.plugin":
            yield from (alias.name for alias in node.names)


def import_from(module: str, name: str, folder: Path) -> None:
    """Execute a file that imports a name of ``fmha_cli.api`` or ``fmha_cli.plugin``."""
    file = folder / "importing.py"
    file.write_text(f"from fmha_cli.{module} import {name}\n", "utf-8")
    runpy.run_path(str(file))


def test_some_plugin_uses_every_name() -> None:
    files = [*ROOT.glob("plugins/*/src/**/*.py"), *ROOT.glob("plugins/fmha-example/tests/*.py")]
    used = {name for file in files for name in used_names(file)}
    assert set(plugin.__all__) - used == set()


@pytest.mark.promise("A plugin that imports a name from where 0.1 had it gets an error with the name of today.")
@pytest.mark.parametrize("name", plugin.__all__)
def test_a_moved_name_is_named(name: str, tmp_path: Path) -> None:
    sentence = f"fmha_cli.api has no {name}: plugins import fmha_cli.plugin.{name}"
    with pytest.raises(ImportError) as caught:
        import_from("api", name, tmp_path)
    assert str(caught.value) == sentence
    with pytest.raises(ImportError) as caught:
        getattr(api, name)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("module", ["api", "plugin"])
def test_a_name_that_never_was_is_an_ordinary_error(module: str, tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=f"cannot import name 'Nothing' from 'fmha_cli.{module}'"):
        import_from(module, "Nothing", tmp_path)
    assert not hasattr(api if module == "api" else plugin, "Nothing")
