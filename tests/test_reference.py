"""``docs/reference`` is what the code and the facts say: a stale page fails here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.cli.parser import Parser
from tools import generate
from tools.reference.backends import answer
from tools.reference.opcodes import instructions, purpose
from tools.reference.probes import ASKED, FEATURES

SLOW = "backends"
"""The module whose page takes many seconds: backends are asked about hundreds of problems."""


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {
        name: text for module in generate.MODULES if module != SLOW for name, text in generate.pages_of(module).items()
    }


@pytest.fixture
def folder(made: dict[str, str], tmp_path: Path) -> Path:
    for name, text in made.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.ci
def test_the_pages_are_up_to_date(made: dict[str, str]) -> None:
    stale = [text for text in generate.differences(made, generate.FOLDER) if text.partition(":")[0] in made]
    assert not stale, "\n".join([*stale, "`python tools/generate.py write` brings them up to date"])


@pytest.mark.slow
@pytest.mark.ci
def test_the_command_finds_every_page_up_to_date() -> None:
    command = [sys.executable, "tools/generate.py", "check"]
    done = subprocess.run(command, cwd=generate.ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "column", [c for c in ASKED if c.backend in ("cpu", "onnxruntime")], ids=lambda c: str(c.backend)
)
def test_some_features_are_what_the_backends_answer(column: Any) -> None:
    page = (generate.FOLDER / "backends.md").read_text("utf-8")
    titles = next(line for line in page.splitlines() if line.startswith("| feature | flags | ck_tile")).split(" | ")
    for feature, flags in FEATURES["Masks"].items():
        row = next(line for line in page.splitlines() if line.startswith(f"| {feature} | `{flags}` |"))
        assert row.split(" | ")[titles.index(column.title)] == answer(column, flags).cell


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("commands.md", "| `--wish` | switch |  | What nobody can give |"),
        ("rules.md", "### K099\n\n**a rule that went**"),
    ],
)
def test_an_option_or_rule_that_is_gone_is_found(name: str, line: str, made: dict[str, str], folder: Path) -> None:
    assert not list(generate.differences(made, folder))
    (folder / name).write_text(f"{made[name]}\n{line}\n", "utf-8")
    assert [text.partition(":")[0] for text in generate.differences(made, folder)] == [name]


def test_a_page_that_nothing_makes_and_one_that_is_missing_are_found(made: dict[str, str], folder: Path) -> None:
    (folder / "verdicts.md").rename(folder / "orphan.md")
    assert list(generate.differences(made, folder)) == ["orphan.md: nothing makes it", "verdicts.md: is missing"]


def test_every_option_that_the_parser_takes_is_on_the_pages(made: dict[str, str]) -> None:
    text = made["commands.md"] + made["problem.md"]
    missing = [f"{name} {flag}" for name, flag in _flags(Parser().root()) if f"`{flag}" not in text]
    assert not missing


def _flags(group: Any, name: str = "fmha") -> Iterator[tuple[str, str]]:
    """Every option of every command, as the parser has it, without the ones that all parsers have."""
    context = group.make_context(name, [], resilient_parsing=True)
    for param in group.get_params(context):
        if param.param_type_name == "option" and not param.hidden:
            yield from ((name, flag) for flag in param.opts if flag not in _OF_EVERY_PARSER)
    for part in group.list_commands(context) if hasattr(group, "list_commands") else ():
        yield from _flags(group.get_command(context, part), f"{name} {part}")


_OF_EVERY_PARSER = ("--help", "-h", "--version", "-V", "--install-completion", "--show-completion")


def test_rows_that_macros_make_are_read_from_the_text(tmp_path: Path) -> None:
    (tmp_path / "op.cpp").write_text(MACROS, "utf-8")
    assert instructions(tmp_path / "op.cpp") == {"v_add_i16": "9.1", "v_add_u16": "9.1", "v_min_x": "", "s_nop": "2"}
    assert purpose(tmp_path / "op.cpp") == "What the file is for."


MACROS = r"""// What the file
// is for. More.
#define ONE(name, type) row("v_" name, run<type, (1, 2)>, type, "9.1")
#define BOTH(name) \
  ONE(name "_i16", I), ONE(name "_u16", U)
const Entry kRows[] = {
    BOTH("add"), {"v_min_" "x", run, {I, I}},  // {"v_comment", run}
    {"s_nop", run, "2"},
};
"""
