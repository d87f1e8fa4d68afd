"""Where Linux's calls are missing: every module is imported, commands that run nothing work, others say why they cannot."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

import fmha_cli
from tests.support.fakes.other_systems import MACOS, MISSING, WINDOWS, run_as

IMPORT_ALL = """
import importlib, pkgutil, signal, sys, fmha_cli
if not hasattr(signal, "SIGHUP"):  # as on Windows; Python's own subprocess needs it on Linux, so only here
    del signal.SIGKILL
names = [m.name for m in pkgutil.walk_packages(fmha_cli.__path__, "fmha_cli.") if not m.name.endswith("__main__")]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as fault:
        root = (fault.name or "").partition(".")[0]
        assert root in {absent!r}, (name, fault)
print(len(names))
"""
RUN_ALL = """
import contextlib, io, json, os, sys
from fmha_cli.cli.app import run
answers = {}
for line in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        answers[line] = run(line.split(), os.environ), len(out.getvalue())
print(json.dumps(answers))
"""
ABSENT = ("cuda", "hip")
"""Packages for devices that need not be installed."""
SMALL = ("run", "-s", "40", "-H", "2", "-d", "32", "--backend", "cpu", "--direction", "fwd+bwd", "--json")


@pytest.mark.promise("Commands that run nothing work where the system lacks calls, as Windows and macOS do.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("system", ["macos", "windows"])
def test_every_module_is_imported(system: str, tmp_path: Path) -> None:
    lacks = WINDOWS if system == "windows" else MACOS
    done = run_as(
        lacks, tmp_path, "-c", IMPORT_ALL.format(absent=ABSENT), cache=tmp_path / "cache", windows=system == "windows"
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400


@pytest.mark.promise("Commands that run nothing work where the system lacks calls, as Windows and macOS do.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_row_runs_without_what_macos_lacks(tmp_path: Path, shared_cache: Path) -> None:
    done = run_as(MACOS, tmp_path, "-m", "fmha_cli", *SMALL, cache=shared_cache)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    assert record["verdict"] == "PASSED"


@pytest.mark.promise("Commands that run nothing work where the system lacks calls, as Windows and macOS do.")
@pytest.mark.slow
@pytest.mark.ci
def test_commands_that_run_nothing_work_without_what_windows_lacks(tmp_path: Path) -> None:
    lines = [
        "--version",
        "archs",
        "list-kernels --arch x86_64_v3 --backend cpu",
        "explain -s 64 --arch x86_64_v3 --backend cpu",
        "plan -s 64 --backend cpu",
        "plan -s 64 --arch sm_90 --backend flash_attn",
    ]
    done = run_as(WINDOWS, tmp_path, "-c", RUN_ALL, *lines, cache=tmp_path / "cache", windows=True)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert list(answers) == lines
    assert {line: said for line, said in answers.items() if said[0] or not said[1]} == {}, done.stderr


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_is_built_without_what_windows_lacks(tmp_path: Path) -> None:
    words = ("build", "-s", "64", "--dtype", "fp32", "--backend", "cpu", "--arch", "generic", "--json")
    done = run_as(WINDOWS, tmp_path, "-m", "fmha_cli", *words, cache=tmp_path / "cache", windows=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "cache").rglob("artifact"))


def test_a_row_says_why_it_cannot_run_without_what_windows_lacks(tmp_path: Path, shared_cache: Path) -> None:
    done = run_as(WINDOWS, tmp_path, "-m", "fmha_cli", *SMALL, cache=shared_cache, windows=True)
    assert done.returncode == 4, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "X020" in said or "NOT_RUN" in said
    assert "Windows Subsystem for Linux" in said or "send_fds" in said


def test_the_simulation_takes_things_away(tmp_path: Path) -> None:
    """Otherwise the tests above would show nothing."""
    text = "import os, socket\nassert not hasattr(os, 'killpg') and not hasattr(socket, 'send_fds')\nimport fcntl"
    done = run_as(WINDOWS, tmp_path, "-c", text, cache=tmp_path, windows=True)
    assert done.returncode != 0
    assert "import of fcntl halted" in done.stderr
    assert sys.platform == "linux"


GUARDED = {
    ("protocol.py", "os.memfd_create"),
    ("protocol.py", "mmap.MADV_HUGEPAGE"),
    ("protocol.py", "mmap.MAP_SHARED"),
} | {
    *(("protocol.py", name) for name in ("mmap.PROT_READ", "mmap.PROT_WRITE")),
    ("process.py", "os.set_blocking"),
}
"""Uses outside the room: each asks first whether it is there, or stands behind ``handover.possible``."""


@pytest.mark.promise("Commands that run nothing work where the system lacks calls, as Windows and macOS do.")
def test_calls_that_other_systems_lack_are_in_one_room() -> None:
    lacking = {f"{module}.{name}" for module, names in WINDOWS.items() for name in names} | {"signal.SIGKILL"}
    last = {name.rpartition(".")[2] for name in lacking}
    words = re.compile(rf"\b({'|'.join((*last, *MISSING))})\b")
    root = Path(fmha_cli.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.parent.name == "system":
            continue
        text = path.read_text("utf-8")
        if not words.search(text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        used = {ast.unparse(n) for n in nodes if isinstance(n, ast.Attribute) and n.attr in last} & lacking
        modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        found = {(path.name, name) for name in used | modules & set(MISSING)}
        assert found <= GUARDED, f"{path.relative_to(root)}: {found - GUARDED}"
