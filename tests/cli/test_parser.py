"""Typer as the parser: public names alone, no conversion of values, and what it prints when it cannot."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from fmha_cli.cli.command import CommandSet
from fmha_cli.cli.commands import COMMANDS, declared
from fmha_cli.cli.parser import ParsedCommand, Parser
from fmha_cli.cli.settings import FLAG, Value

CLI = Path(__file__).resolve().parents[2] / "fmha_cli" / "cli"


def private_names(text: str) -> list[str]:
    """The modules of Typer, or of Click, that a text imports and that are not public, and the private attributes that it takes
    of anything but ``self``, a class or a module of its own."""
    out = []
    for node in ast.walk(ast.parse(text)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        out += [n for n in names if n.startswith(("typer._", "click")) or n == "click"]
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            out += [] if ast.unparse(node.value) in ("self", "parser") else [ast.unparse(node)]
    return out


def test_every_command_has_a_function_that_takes_a_call() -> None:
    for name in COMMANDS:
        found = declared(name)
        parts = [part for _, part in found.commands.values()] if isinstance(found, CommandSet) else [found]
        for part in parts:
            assert list(inspect.signature(part.function).parameters) == ["call"], part.run


def test_declarations_import_nothing_of_what_commands_do() -> None:
    script = "import sys; from fmha_cli.cli.commands import known_options; known_options(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    own = {name for name in done.stdout.split() if name.startswith("fmha_cli.cli.")}
    assert {name for name in own if name.count(".") == 2} == {
        *("fmha_cli.cli.command", "fmha_cli.cli.commands", "fmha_cli.cli.options"),
    }
    assert not {
        name for name in done.stdout.split() if name.partition(".")[0] in ("numpy", "sqlite3", "pluggy", "typer")
    }


def test_nothing_private_of_typer_is_used() -> None:
    assert private_names((CLI / "parser.py").read_text("utf-8")) == []
    for path in CLI.glob("*.py"):
        assert [name for name in private_names(path.read_text("utf-8")) if "." not in name or "typer" in name] == []


@pytest.mark.parametrize(
    "text", ["import click", "from typer._click import echo", "param._runtime_param = None", "from click.core import x"]
)
def test_what_is_private_is_found(text: str) -> None:
    assert private_names(text)


def test_a_command_line_is_taken_apart_and_nothing_runs() -> None:
    found = Parser().parse(["-q", "cache", "ls", "--kind", "kernel", "--no-json", "0a", "1b"])
    assert isinstance(found, ParsedCommand)
    assert (found.name, found.arguments) == ("cache ls", {"entries": ["0a", "1b"]})
    assert dict(found.given) == {
        "quiet": Value(True, FLAG),
        "kind": Value("kernel", FLAG),
        "json": Value(False, FLAG),
    }


@pytest.mark.parametrize("words", [["tune", "-s", "64"], ["run", "-s", "64", "--mask", "none"], ["models", "x"]])
def test_no_value_is_converted(words: list[str]) -> None:
    script = f"import sys; from fmha_cli.cli.parser import Parser; Parser().parse({words!r}); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["--version"], ["archs"]], ids=lambda words: " ".join(words)
)
def test_help_without_a_reader_is_no_error_and_help_without_room_is_one(words: list[str]) -> None:
    program = [sys.executable, "-m", "fmha_cli", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr is not None
        assert b"error" not in process.stderr.read()
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert "error[X040]: stdout: cannot be written\n" in done.stderr


def test_an_os_error_of_a_plugins_command_is_not_taken_for_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fmha_cli.cli import app

    def broken() -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr("fmha_cli.cli.parser.plugin_commands", lambda: {"burn": broken})
    assert app.run(["burn"], {}) == 70
    assert "OSError: the disk is on fire" in capsys.readouterr().err
