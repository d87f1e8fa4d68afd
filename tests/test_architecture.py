"""The house rules that a machine can check: import direction, sizes, words that may not appear."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fmha_cli"

DOMAIN = {
    "__init__", "arch", "decision", "device", "dtypes", "emulation", "encode", "entries", "errors", "faults", "features", "flag_text", "flags",
    "kernel", "mask", "near", "plan", "problem", "profiles", "protocols", "resolve", "rules", "signature", "tensors", "verdict",
}  # fmt: skip
"""Modules that import the standard library and each other only."""

WORKSHOP = {"build", "codegen", "oracle", "sources"}
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(DOMAIN, DOMAIN),
    "hookspecs": DOMAIN,
    "plugins": DOMAIN | {"hookspecs"},
    "registry": DOMAIN | {"plugins"},
    "select": DOMAIN | {"registry"},
    "emulated": DOMAIN | {"registry"},
    "sweep": DOMAIN,
    "filters": DOMAIN,
    **{room: DOMAIN | {room} for room in WORKSHOP},
    "build": DOMAIN | {"build"},
    "sources": DOMAIN | {"sources", "build"},
    "backends": DOMAIN | {"backends", "build", "codegen", "sources", "hookspecs"},
    "execution": DOMAIN | WORKSHOP | {"execution"},
    "measure": DOMAIN | WORKSHOP | {"measure"},
    "report": DOMAIN | {"measure", "report", "plugins", "build", "schemas"},
    "schemas": set(),
    "walk": DOMAIN | WORKSHOP | {"walk", "execution", "measure", "report", "select", "registry", "plugins", "emulated"},
    "parity": DOMAIN
    | {
        "parity",
        "walk",
        "report",
        "measure",
        "execution",
        "sources",
        "build",
        "select",
        "registry",
        "filters",
        "emulated",
    },
    "api": DOMAIN | {"hookspecs", "walk", "registry", "select", "report", "build", "conformance"},
    "conformance": DOMAIN | WORKSHOP | {"execution", "registry", "walk", "select", "plugins", "hookspecs"},
    "__main__": {"cli"},
    "cli": DOMAIN
    | WORKSHOP
    | {"cli", "walk", "execution", "measure", "report", "select", "registry", "plugins", "sweep", "filters", "schemas"}
    | {"parity", "emulated"},
}


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = node.module == "fmha_cli"
            names = [f"fmha_cli.{a.name}" for a in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            if name.split(".")[0] == "fmha_cli":
                parts = name.split(".")
                yield (parts[1] if len(parts) > 1 else "__init__"), node.lineno


def is_known(room: str) -> bool:
    return (PACKAGE / f"{room}.py").exists() or (PACKAGE / room).is_dir()


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_import_direction(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} has no place in the plan of docs/architecture.md"
    rooms = [(name if is_known(name) else "__init__", line) for name, line in imported_rooms(path)]
    wrong = [f"line {line}: {name}" for name, line in rooms if name not in MAY_IMPORT[room] | {"__init__"}]
    assert not wrong, f"{room} may not import {wrong}"


def test_nothing_imports_a_backend_statically() -> None:
    for path in modules():
        if room_of(path) != "backends":
            assert "backends" not in {name for name, _ in imported_rooms(path)}, path


def test_plugins_import_the_api_alone() -> None:
    sources = sorted((ROOT / "plugins").glob("*/src/**/*.py"))
    assert sources
    for path in sources:
        assert {name for name, _ in imported_rooms(path)} <= {"api"}, path


@pytest.mark.parametrize("name", sorted(DOMAIN - {"near"}))
def test_domain_needs_the_standard_library_only(name: str) -> None:
    path = PACKAGE / f"{name}.py"
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for found in names:
            top = found.split(".")[0]
            assert top in sys.stdlib_module_names or top == "fmha_cli", f"{path}: {found}"


def test_sizes() -> None:
    sizes = {p: len(p.read_text("utf-8").splitlines()) for p in modules()}
    assert max(sizes.values()) <= 500, [str(p) for p, n in sizes.items() if n > 500]
    assert statistics.median(sizes.values()) <= 120
    assert sum(n <= 350 for n in sizes.values()) >= 0.9 * len(sizes)


def banned_calls(tree: ast.AST) -> Iterator[str]:
    """What this house does not use, found in the syntax and not in the words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("eval", "exec", "os.system", "os.popen", "sys.path.insert", "sys.path.append"):
                yield name
            if any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords):
                yield "shell="
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield "bare except"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
            yield from (f"import {n}" for n in names if n.split(".")[0] in ("pickle", "dill", "cloudpickle", "marshal"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("eval('1')", ["eval"]),
        ("import os\nos.system('x')", ["os.system"]),
        ("run(x, shell=True)", ["shell="]),
        ("try:\n  pass\nexcept:\n  pass", ["bare except"]),
        ("from pickle import load", ["import pickle"]),
        ("import sys\nsys.path.insert(0, 'x')", ["sys.path.insert"]),
    ],
)
def test_the_ban_sees_what_it_bans(text: str, found: list[str]) -> None:
    assert list(banned_calls(ast.parse(text))) == found


def test_no_banned_calls() -> None:
    files = [*modules(), *(ROOT / "plugins").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    found = {str(p): list(banned_calls(ast.parse(p.read_text("utf-8")))) for p in files}
    assert not {path: names for path, names in found.items() if names}


def test_only_cli_prints_or_exits() -> None:
    for path in modules():
        if room_of(path) == "cli" or path.name in ("__main__.py", "worker.py", "null_behaviour.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.exit", "exit", "os._exit"):
                pytest.fail(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}")


def test_words_of_the_repository() -> None:
    """No machine paths and no hosts of package registries in any tracked file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(/[w]ork/|/[t]mp/bash_jobs|https?://[^\s]*py(?:pi|thonhosted))")
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.suffix in (".py", ".md", ".toml", ".json", ".h", ".cpp", "") and path.is_file():
            found = pattern.search(path.read_text("utf-8", errors="replace"))
            assert found is None, f"{name}: {found and found[0]}"


def test_no_mutable_module_state() -> None:
    """Module-level lists, dicts and sets are constants by name; nothing rebinds a global."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(node, ast.Global), f"{path}:{node.lineno} global"
