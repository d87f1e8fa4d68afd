"""``fmha plugins new``: the plugin that it writes is the example under another name, and passes its own tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.discovery.new_plugin import plugin_files, template, write_plugin
from fmha_cli.domain.errors import EnvironmentProblem, UsageError

EXAMPLE = Path(__file__).parents[2] / "plugins" / "fmha-example"


def test_the_example_itself_comes_out_unchanged() -> None:
    files = plugin_files("example")
    assert files == template()
    assert {path: (EXAMPLE / path).read_text("utf-8") for path in files} == files
    kept = {p.relative_to(EXAMPLE).as_posix() for p in EXAMPLE.rglob("*") if p.suffix in (".py", ".toml")}
    assert {path for path in kept if "egg-info" not in path and not path.startswith("build/")} == set(files)


@pytest.mark.parametrize("name", ["mine", "my-kernels", "my_kernels2"])
def test_no_name_of_the_example_is_left(name: str) -> None:
    ident = name.replace("-", "_")
    files = plugin_files(name)
    assert f"src/fmha_{ident}/__init__.py" in files
    for text in files.values():
        assert not re.search(r"fmha[_-]example|Example|\"example\"|^example =", text, re.MULTILINE)
    assert f'{ident} = "fmha_{ident}"' in files["pyproject.toml"]
    assert f'name = "{ident}"' in files[f"src/fmha_{ident}/__init__.py"]


@pytest.mark.parametrize("name", ["", "Mine", "1st", "a b", "a/b", "..", "-a", "a--b", "ä", "cpu", "auto", "x" * 41])
def test_bad_and_taken_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        write_plugin(name, tmp_path, ["cpu"])
    assert caught.value.code == "E041"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "fmha-mine").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        write_plugin("mine", tmp_path, [])
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem):
        write_plugin("mine", tmp_path / "file", [])


@pytest.mark.promise("A plugin backend of less than 150 lines passes the published conformance tests.")
@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param("not (check_claims or check_times)", marks=[pytest.mark.slow, pytest.mark.ci]),
        pytest.param("", marks=pytest.mark.slow),
    ],
)
def test_the_new_plugin_is_installed_and_passes_its_tests(tmp_path: Path, chosen: str) -> None:
    """In a separate folder next to this environment, through its entry point and the published conformance tests.

    The longest of them pass in the default suite for the example, which has the same text."""
    command = [sys.executable, "-m", "fmha_cli", "plugins", "new", "my-kernels", "--dir", str(tmp_path)]
    written = subprocess.run(command, capture_output=True, text=True, check=True)
    root = tmp_path / "fmha-my-kernels"
    assert written.stdout.split() == sorted(str(p) for p in root.rglob("*") if p.is_file())
    assert f"-e {root}" in written.stderr
    site = tmp_path / "site"
    site.mkdir()
    build = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(site)], cwd=root, check=True, capture_output=True)
    unpack = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])"
    (wheel,) = site.glob("*.whl")
    subprocess.run([sys.executable, "-c", unpack, str(wheel), str(site)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "FMHA_CACHE_DIR": str(tmp_path / "cache")}
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", chosen, str(root / "tests")]
    tested = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert re.search(r"\d+ passed", tested.stdout)
    assert "skipped" not in tested.stdout
    asked = [
        sys.executable,
        "-m",
        "fmha_cli",
        "run",
        "--backend",
        "my_kernels",
        "-s",
        "33",
        "-d",
        "24",
        "--dtype",
        "fp32",
    ]
    ran = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "1 PASSED" in ran.stdout
