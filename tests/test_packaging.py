"""The wheel, an editable install and a bare checkout all find ``arch_specs/`` and the package's data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = (
    "from fmha_cli.domain.arch import arch_names, load_arch; from fmha_cli.report.schemas import names;"
    "from fmha_cli.discovery.new_plugin import template;"
    "print(len(arch_names()), load_arch('x86_64_v4').name, len(names()) > 5, len(template()))"
)


EXAMPLE = ("pyproject.toml", "src/fmha_example/__init__.py", "tests/test_conformance.py")
PLANTED = ("fmha_cli/backends/new/kernels/cuda/kernel.inc", "fmha_cli/backends/new/kernels/NOTICE")
"""Data of a backend that appears in no list."""


def package_files() -> set[str]:
    """Every file of the package in the working tree, by its path in a wheel."""
    found = {p.relative_to(ROOT).as_posix() for p in (ROOT / "fmha_cli").rglob("*") if p.is_file()}
    specs = {f"fmha_cli/arch_specs/{p.name}" for p in (ROOT / "arch_specs").iterdir() if p.is_file()}
    example = {f"fmha_cli/example/{p}" for p in EXAMPLE}
    return {name for name in found | specs | example if "__pycache__" not in name}


def checkout(tmp_path: Path) -> Path:
    """A copy of the files that git tracks, so build folders do not touch the working tree."""
    target = tmp_path / "checkout"
    shutil.copytree(
        ROOT, target, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info", "__pycache__", ".*cache", ".venv")
    )
    return target


def expected() -> str:
    return f"{len(list((ROOT / 'arch_specs').glob('[!_]*.json')))} x86_64_v4 True 3"


def answer(python: str | Path, cwd: Path, **env: str) -> str:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-c", CODE], cwd=cwd, capture_output=True, text=True, env=clean | env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def bare_environment(tmp_path: Path) -> Path:
    """A virtual environment that sees this one's libraries but not this project."""
    env = tmp_path / "env"
    venv.create(env, with_pip=False, system_site_packages=False)
    return env / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("wheel")
    pytest.importorskip("setuptools", reason="building a wheel needs setuptools")
    source = checkout(tmp_path)
    for name in PLANTED:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    code = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "is absent from" not in done.stdout + done.stderr
    return next(tmp_path.glob("*.whl"))


@pytest.mark.slow
@pytest.mark.ci
def test_wheel(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(site)
    assert "fmha_cli/arch_specs/x86_64_v4.json" in names
    assert "fmha_cli/report/documents/report.py" in names
    assert any(n.startswith("fmha_cli/codegen/cpu/src/") for n in names)
    assert not any(n.startswith("tests/") for n in names)
    assert set(PLANTED) <= set(names)
    assert not any("__pycache__" in n for n in names)
    assert {n for n in names if n.startswith("fmha_cli/")} == set(PLANTED) | package_files()
    assert answer(bare_environment(tmp_path), tmp_path, PYTHONPATH=str(site)) == expected()


@pytest.mark.slow
@pytest.mark.ci
def test_editable_install(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="an editable install needs setuptools")
    source = checkout(tmp_path)
    python = bare_environment(tmp_path)
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    code = "import setuptools.build_meta as b, sys; print(b.build_editable(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*editable*.whl"))) as archive:
        archive.extractall(site)
    assert answer(python, tmp_path) == expected()


def test_bare_checkout(tmp_path: Path) -> None:
    source = checkout(tmp_path)
    assert answer(bare_environment(tmp_path), tmp_path, PYTHONPATH=str(source)) == expected()
