"""A broken plugin is reported by name and breaks nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.rules import duplicate_ids, is_of_a_plugin

GOOD = """
from fmha_cli.discovery.hookspecs import hookimpl
@hookimpl
def fmha_register_commands():
    return {"hello": print}
@hookimpl
def fmha_register_arch_specs():
    return {"made_up": '{"schema": "fmha.arch/1", "name": "made_up", "vendor": "cpu", "title": "t", "facts": {}}'}
"""
CASES = {
    "import_error": ("raise ImportError('no libfoo')", "no libfoo"),
    "any_error": ("1 / 0", "ZeroDivisionError"),
    "misspelled": (
        "from fmha_cli.discovery.hookspecs import hookimpl\n@hookimpl\ndef fmha_register_backend(): return []",
        "fmha_register_backend",
    ),
    "unmarked_misspelled": ("def fmha_register_kernels(): return []", "fmha_register_kernels"),
    "raising_hook": (
        "from fmha_cli.discovery.hookspecs import hookimpl\n@hookimpl\ndef fmha_register_backends(): raise RuntimeError('boom')",
        "boom",
    ),
    "not_a_backend": (
        "from fmha_cli.discovery.hookspecs import hookimpl\n@hookimpl\ndef fmha_register_backends(): return [object()]",
        "not a Backend",
    ),
    "taken_name": (
        "from fmha_cli.discovery.hookspecs import hookimpl\nfrom fmha_cli.backends import cpu\n"
        "@hookimpl\ndef fmha_register_backends(): return [cpu.backend]",
        "registered already",
    ),
    "taken_stream": (
        "from fmha_cli.discovery.hookspecs import hookimpl\n"
        "@hookimpl\ndef fmha_register_dropout_streams(): return {'fa2': print}",
        "'fa2' is taken",
    ),
    "bad_arch": (
        "from fmha_cli.discovery.hookspecs import hookimpl\n@hookimpl\ndef fmha_register_arch_specs(): return {'x': '{}'}",
        "fmha.arch/1",
    ),
    "wrong_signature": (
        "from fmha_cli.discovery.hookspecs import hookimpl\n@hookimpl\ndef fmha_register_backends(wrong): return []",
        "wrong",
    ),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("plug_"):
            del sys.modules[name]


def plugin(site: Path, name: str, text: str) -> EntryPoint:
    (site / f"plug_{name}.py").write_text(text, "utf-8")
    return EntryPoint(name, f"plug_{name}", "fmha")


@pytest.mark.parametrize("name", CASES)
def test_a_broken_plugin_is_named_and_breaks_nothing(site: Path, name: str) -> None:
    text, says = CASES[name]
    entries = [plugin(site, name, text), plugin(site, "good", GOOD)]
    registry = Registry({"cpu": "fmha_cli.backends.cpu"}, lambda: entries)
    assert [f.plugin for f in registry.faults] == [name]
    assert says in registry.faults[0].what
    assert registry.faults[0].help
    assert "cpu" in registry.backends
    assert "hello" in registry.commands
    assert "made_up" in registry.arch_names()
    assert registry.arch("made_up").title == "t"


def test_a_broken_plugin_asked_for_by_name_is_an_environment_problem(site: Path) -> None:
    registry = Registry({}, lambda: [plugin(site, "gone", "import nowhere_to_be_found")])
    with pytest.raises(EnvironmentProblem, match="nowhere_to_be_found"):
        registry.backend("gone")
    with pytest.raises(UsageError, match="no such backend"):
        registry.backend("unheard_of")


def test_a_broken_builtin_is_a_fault() -> None:
    registry = Registry({"lost": "fmha_cli.backends.not_there"}, list)
    assert [f.plugin for f in registry.faults] == ["lost"]


def test_two_plugins_of_one_name(site: Path) -> None:
    entries = [plugin(site, "good", GOOD), plugin(site, "good", GOOD)]
    registry = Registry({}, lambda: entries)
    assert "second plugin" in registry.faults[0].what


RULED = """
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.rules import CORE_RULES, Rule
class Ruled(CpuBackend):
    name = "{name}"
    def rules(self): return (*CORE_RULES, Rule("{id}", "{name}", lambda *of: None, "", ""))
@hookimpl
def fmha_register_backends(): return [Ruled()]
"""
"""A plugin whose backend has one rule."""


@pytest.mark.parametrize(
    ("id", "second", "taken"), [("K102", "K901", True), ("K901", "K901", True), ("K901", "K902", False)]
)
def test_rule_ids_of_plugins_are_their_own(site: Path, id: str, second: str, taken: bool) -> None:
    texts = {"first": RULED.format(name="first", id=id), "second": RULED.format(name="second", id=second)}
    registry = Registry({"cpu": "fmha_cli.backends.cpu"}, lambda: [plugin(site, name, t) for name, t in texts.items()])
    assert [fault.what for fault in registry.faults] == ([f"rule ids {id} are taken"] if taken else [])
    assert "cpu" in registry.backends


def test_the_built_in_rules_have_ids_of_their_own_below_those_of_plugins() -> None:
    """The registry relies on it: it does not ask these backends for their rules."""
    tables = [backend.rules() for backend in Registry(entries=list).backends.values()]
    assert len(tables) > 4
    assert duplicate_ids(tables) == []
    assert not any(is_of_a_plugin(rule.id) for table in tables for rule in table)
