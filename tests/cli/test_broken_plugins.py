"""Broken plugins, really installed: ``fmha doctor`` names them, and everything else still works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import HIDDEN, Fmha, Result
from tests.support.paths import ROOT

START = "from fmha_cli.plugin import hookimpl\n\n@hookimpl\ndef fmha_register_backends():\n    "
BROKEN = {
    "torn": ("import no_such_module_anywhere\n", "fmha_torn.py:1)"),
    "garbled": ("x = 1\ndef f(:\n", "fmha_garbled.py:2)"),
    "bare": (
        f"{START}return [object()]\n",
        "lacks name, algorithm, dropout_stream, probes_in_parent, automatic, probe(self)",
    ),
    "alone": (f"{START}return object()\n", "fmha_register_backends returned object, not a list"),
    "typo": (
        "from fmha_cli.plugin import hookimpl\n\n@hookimpl\ndef fmha_register_backend():\n    return ()\n",
        "hooks",
    ),
    "wild": (f"{START}raise RuntimeError('boo')\n", "boo in fmha_register_backends ("),
    "cpu": (
        "from fmha_cli.plugin import hookimpl\nfrom fmha_cli.backends.cpu import backend\n\n"
        "@hookimpl\ndef fmha_register_backends():\n    return (backend,)\n",
        "registered already",
    ),
}
"""Plugin name -> (its module, the reported problem). ``cpu`` reuses the name of a built-in."""

FEW = f"""
from fmha_cli.discovery import entry_points
real = entry_points.declaring
entry_points.declaring = lambda folders: [path for path in real(folders) if not path.name.startswith({HIDDEN})]
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


Within = Callable[..., Result]


@pytest.fixture
def within(fmha: Fmha, few_plugins: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Within]:
    """Run a command in this process with the plugins that are installed in a folder, which leaves no module behind."""
    before = set(sys.modules)

    def call(site: Path, *argv: str, **variables: str) -> Result:
        monkeypatch.syspath_prepend(str(site))
        return fmha(*argv, **variables)

    yield call
    for name in set(sys.modules) - before:
        if name.partition(".")[0].removeprefix("fmha_") in (*BROKEN, "faulty", "former"):
            del sys.modules[name]


def in_a_process(site: Path, *argv: str) -> tuple[int, Any, str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), os.environ.get("PYTHONPATH", "")))}
    words = [sys.executable, "-m", "fmha_cli", *argv, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, check=False)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.ci
def test_doctor_and_plugins_name_every_one(site: Path) -> None:
    code, document, _ = in_a_process(site, "doctor")
    assert code == 0
    failed = {c["subject"]: f"{c['what']} {c['help']}" for c in document["checks"] if c["state"] == "failed"}
    assert set(failed) >= set(BROKEN)
    assert all(said in failed[name] for name, (_, said) in BROKEN.items())
    code, document, _ = in_a_process(site, "plugins")
    assert code == 0
    states = {(row["name"], row["builtin"]): row["state"] for row in document["plugins"]}
    assert states["cpu", True] == states["null", False] == "ok"
    assert all(states[name, False] == "broken" for name in BROKEN)


@pytest.mark.promise("A broken plugin breaks nothing else, and is exit code 4 where it is named.")
def test_nothing_else_breaks(within: Within, site: Path) -> None:
    done = within(site, "run", *SMALL, "--json")
    assert (done.code, done.document["records"][0]["verdict"]) == (0, "PASSED"), done.err


@pytest.mark.promise("A broken plugin breaks nothing else, and is exit code 4 where it is named.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("argv", [("doctor", "torn"), ("run", "--backend", "torn"), ("run", "--backend", "typo")])
def test_a_broken_plugin_asked_for_by_name_is_exit_4(within: Within, site: Path, argv: tuple[str, ...]) -> None:
    assert within(site, *argv, "--json").code == 4


def test_the_template_of_0_1_is_told_the_name_of_today(within: Within, tmp_path: Path) -> None:
    """Its first use of a name that moved fails; the other plugins are unaffected."""
    install(tmp_path, "former", (ROOT / "tests/support/fakes/plugin_of_0_1.py").read_text("utf-8"))
    (tmp_path / "sitecustomize.py").write_text(FEW)
    done = within(tmp_path, "plugins", "--json")
    assert done.code == 0
    rows = {row["name"]: row for row in done.document["plugins"]}
    (fault,) = rows["former"]["faults"]
    assert rows["former"]["state"] == "broken"
    assert "fmha_cli.api has no Algorithm: plugins import fmha_cli.plugin.Algorithm" in str(fault)
    assert rows["cpu"]["state"] == rows["null"]["state"] == "ok"
    assert "plugins import fmha_cli.plugin.Algorithm" in within(tmp_path, "plugins", COLUMNS="1000").out
    assert within(tmp_path, "run", *SMALL).code == 0


EXAMPLE = (ROOT / "plugins" / "fmha-example" / "src" / "fmha_example" / "__init__.py").read_text()
FAULTS = {
    "launch": ("start = time.perf_counter_ns()", "start = 1 // 0", "ZeroDivisionError", 6),
    "bind": ("s, layout = tensor.strides,", "s, layout = tensor.stripes,", "AttributeError", 6),
    "build": ("plugin.build_cpp(", "plugin.build_cpp(*", "TypeError", 4),
    "decide": ("reasons = plugin.reasons_against(", "reasons = plugin.reasons_against(1, ", "TypeError", 70),
    "plan": ("return plugin.Plan(problem, ", "return plugin.Plan(*problem, ", "TypeError", 70),
}
"""Member -> its text, the text with a fault, the exception, the exit code."""


def faulty(folder: Path, old: str, new: str) -> tuple[Path, int]:
    """The example under another name with a fault planted, installed. Returns the file and the line of the fault."""
    text = EXAMPLE.replace("fmha_example", "fmha_faulty").replace('"example"', '"faulty"')
    assert text.count(old) == 1
    install(folder, "faulty", text.replace(old, new))
    (folder / "sitecustomize.py").write_text(FEW)
    before = text.partition(old)[0]
    return folder / "fmha_faulty.py", before.count("\n") + 1


@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize("member", FAULTS)
def test_an_exception_of_a_plugin_is_told_once_with_its_member_file_and_line(
    within: Within, member: str, tmp_path: Path
) -> None:
    old, new, exception, expected = FAULTS[member]
    file, line = faulty(tmp_path, old, new)
    said = told(within, tmp_path, "run", "--backend", "faulty", "--dtype", "fp32", "-s", "32", "-H", "1", "-d", "32")
    assert said[0] == expected, said
    assert said[1].count(exception) == 1, said[1]
    place = said[1].replace("\n", " ").replace(" ", "")
    assert f"{member}({file}:{line})" in place, said[1]
    assert expected != 70 or "abugintheplugin" in place


@pytest.mark.slow
@pytest.mark.ci
def test_a_session_without_launch_is_told_by_the_member(within: Within, tmp_path: Path) -> None:
    faulty(tmp_path, "def launch(", "def lunch(")
    code, text = told(
        within, tmp_path, "run", "--backend", "faulty", "--dtype", "fp32", "-s", "32", "-H", "1", "-d", "32"
    )
    assert code == 6
    assert text.replace("\n", " ").count("lacks launch(self)") == 1, text


def told(within: Within, site: Path, *argv: str) -> tuple[int, str]:
    """The exit code and all that a command prints, in lines of any length."""
    done = within(site, *argv, COLUMNS="1000", NO_COLOR="1")
    return done.code, done.out + done.err
