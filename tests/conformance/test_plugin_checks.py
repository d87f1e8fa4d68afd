"""``conformance.plugin``: each check fails on the plugin that does what it is against."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest

from fmha_cli import conformance, plugin
from tests.support.fakes import framework_plugin
from tests.support.paths import ROOT

IMPORTS = {
    "from fmha_cli import api": True,
    "from fmha_cli.api import Problem": True,
    "from fmha_cli.plugin import DType": True,
    "import json": True,
    "from fmha_cli import api, domain": False,
    "from fmha_cli.domain.problem import Problem": False,
    "import fmha_cli.run.run": False,
    "def late():\n    from fmha_cli import conformance": False,
}


@pytest.mark.promise("The conformance tests find rules that refuse too little or too much, and foreign imports.")
@pytest.mark.parametrize("text", IMPORTS)
def test_sources_import_the_api_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "module.py").write_text(text + "\n", "utf-8")
    if IMPORTS[text]:
        conformance.check_sources(tmp_path, 2)
        return
    with pytest.raises(AssertionError, match=r"imports fmha_cli.api and fmha_cli.plugin alone"):
        conformance.check_sources(tmp_path, 2)


def test_sources_have_so_many_lines_and_exist(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="has no module"):
        conformance.check_sources(tmp_path, 2)
    (tmp_path / "module.py").write_text("\n" * 3, "utf-8")
    with pytest.raises(AssertionError, match="3 lines"):
        conformance.check_sources(tmp_path, 2)


@pytest.mark.promise("Every rule and error has a page, those of plugins too.")
@pytest.mark.parametrize(("code", "good"), [("K901", True), ("K902", False), ("N006", True)])
def test_a_code_without_a_page_is_noticed(code: str, good: bool, tmp_path: Path) -> None:
    class Explaining(framework_plugin.Backend):
        errors = types.MappingProxyType({"K901": ("it is broken", "mend it")})

    (tmp_path / "module.py").write_text(f"CODE = {code!r}\n", "utf-8")
    if good:
        conformance.check_codes(Explaining(), tmp_path)
        return
    with pytest.raises(AssertionError, match="no page of "):
        conformance.check_codes(Explaining(), tmp_path)


DECIDING = "from tests.support.fakes.framework_plugin import *\n{more}\n"
TWO_DEEP = """
class Late(Backend):
    def decide(self, problem, device):
        import wave
        return super().decide(problem, device)

def fmha_register_backends():
    return [Late()]
"""
SILENT = TWO_DEEP.replace("return super().decide(problem, device)", "return []")


@pytest.mark.promise("The conformance tests find rules that refuse too little or too much, and foreign imports.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("", None),
        ("import wave", "the parent imports wave"),
        (TWO_DEEP, "the parent imports wave"),
        (SILENT, "no decision for generic"),
    ],
    ids=["good", "when it registers", "when it decides", "no decision"],
)
def test_the_parent_imports_no_library(
    more: str, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_plugin.py").write_text(DECIDING.format(more=more), "utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    subject = conformance.Subject(framework_plugin.Backend(), entry="a_plugin", cache_root=tmp_path / "cache")
    if fault is None:
        conformance.check_parent(subject, "wave")
        return
    with pytest.raises(AssertionError, match=fault):
        conformance.check_parent(subject, "wave")


class Packaged(framework_plugin.Backend):
    def probe(self) -> plugin.Availability:
        return plugin.probe_package("pytest", "2")


def test_a_probe_is_asked_where_nothing_or_another_version_is_installed() -> None:
    missing, old, new = (conformance.probed(Packaged(), version) for version in (None, "1.9", "2.1"))
    assert (missing.state, missing.why) == (plugin.State.MISSING, "pytest is not installed")
    assert (old.state, old.why) == (plugin.State.MISSING, "pytest 1.9 is older than 2")
    assert (new.state, new.version) == (plugin.State.OK, "2.1")
    assert Packaged().probe().version == pytest.__version__
