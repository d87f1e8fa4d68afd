"""Broken plugins, really installed: ``fmha doctor`` names them, and everything else still works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import LARGE

BROKEN = {
    "torn": ("import no_such_module_anywhere\n", "No module named"),
    "typo": ("from fmha_cli.api import hookimpl\n\n@hookimpl\ndef fmha_register_backend():\n    return ()\n", "hooks"),
    "wild": (
        "from fmha_cli.api import hookimpl\n\n@hookimpl\ndef fmha_register_backends():\n    raise RuntimeError('boo')\n",
        "boo",
    ),
    "cpu": (
        "from fmha_cli.api import hookimpl\nfrom fmha_cli.backends.cpu import backend\n\n"
        "@hookimpl\ndef fmha_register_backends():\n    return (backend,)\n",
        "registered already",
    ),
}
"""Plugin name -> (its module, the reported problem). ``cpu`` reuses the name of a built-in."""

FEW = f"""
import importlib.metadata
real = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **wanted: [e for e in real(**wanted) if e.name not in {LARGE}]
"""
"""Hides large plugins, which ``fmha doctor`` would import and judge every time, and which no test here is about."""

SMALL = ("--backend", "null", "--seqlen", "32", "--heads", "1", "--hdim", "32")


def install(folder: Path, name: str, text: str) -> None:
    """Lay out a distribution with one plugin as an installer would."""
    (folder / f"fmha_{name}.py").write_text(text)
    info = folder / f"fmha_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fmha-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fmha]\n{name} = fmha_{name}\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, (text, _) in BROKEN.items():
        install(tmp_path, name, text)
    (tmp_path / "sitecustomize.py").write_text(FEW)
    return tmp_path


def fmha(site: Path, *argv: str) -> tuple[int, Any, str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), os.environ.get("PYTHONPATH", "")))}
    words = [sys.executable, "-m", "fmha_cli", *argv, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, check=False)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_doctor_and_plugins_name_every_one(site: Path) -> None:
    code, document, _ = fmha(site, "doctor")
    assert code == 0
    failed = {c["subject"]: f"{c['what']} {c['help']}" for c in document["checks"] if c["state"] == "failed"}
    assert set(failed) >= set(BROKEN)
    assert all(said in failed[name] for name, (_, said) in BROKEN.items())
    code, document, _ = fmha(site, "plugins")
    assert code == 0
    states = {(row["name"], row["builtin"]): row["state"] for row in document["plugins"]}
    assert states["cpu", True] == states["null", False] == "ok"
    assert all(states[name, False] == "broken" for name in BROKEN)


def test_nothing_else_breaks(site: Path) -> None:
    code, document, err = fmha(site, "run", *SMALL)
    assert (code, document["records"][0]["verdict"]) == (0, "PASSED"), err


@pytest.mark.parametrize("argv", [("doctor", "torn"), ("run", "--backend", "torn"), ("run", "--backend", "typo")])
def test_a_broken_plugin_asked_for_by_name_is_exit_4(site: Path, argv: tuple[str, ...]) -> None:
    assert fmha(site, *argv)[0] == 4
