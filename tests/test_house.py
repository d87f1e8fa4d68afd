"""``tools/house.py`` counts what it says, on a small package with one of everything."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tools.house import ROOT, main, measure_house, trace

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
AROUND = {"codegen", "system", "toolchain"}
"""Rooms that a run enters without a line on the page: they serve the functions that have one."""

APP = '''"""Commands."""

from fmha_cli.domain import nouns


def run(words, environ):
    from fmha_cli.run import steps

    return steps.take(nouns.Row(words))
'''
NOUNS = '''"""Nouns.

Two paragraphs.
"""


class Row:
    """A row."""

    def __init__(self, words):
        self.words = words
'''
STEPS = '''"""Steps."""


class Row:
    pass


def take(row):
    return sum([len(word) - len(word) for word in row.words])


def rest(row):
    import fmha_cli.domain.nouns
'''


@pytest.fixture
def house(tmp_path: Path) -> Path:
    texts = {"cli/app.py": APP, "domain/nouns.py": NOUNS, "run/steps.py": STEPS}
    for name, text in texts.items():
        path = tmp_path / "fmha_cli" / name
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    for folder in ("", "cli", "domain", "run"):
        (tmp_path / "fmha_cli" / folder / "__init__.py").touch()
    return tmp_path


def test_figures(house: Path) -> None:
    found = measure_house(house)
    assert found["modules"] == 7
    assert found["lines"] == found["core lines"] == sum(text.count("\n") for text in (APP, NOUNS, STEPS))
    assert found["class names twice"] == ["Row"]
    assert found["imports in functions"] == 2
    assert found["single modules"] == ["run.steps"]  # two import the nouns, nobody the app
    assert found["rooms"]["domain"] == {"modules": 2, "lines": 11, "code": 3, "docstrings": 5, "blank": 3}


def test_a_trace_has_the_functions_that_ran_in_their_modules(house: Path) -> None:
    assert trace(house, ["a", "b"]) == [
        ("cli/app.py", "run"),
        ("domain/nouns.py", "Row.__init__"),
        ("run/steps.py", "take"),
    ]


def way_on(page: str) -> tuple[str, list[tuple[str, str]]]:
    """The command whose way a page shows, and the functions of the way, as (file, qualified name)."""
    before, _, block = page.partition("## One problem, step by step")[2].partition("```text\n")
    command = re.findall(r"`fmha ([^`]+)`", before)[0]
    return command, [tuple(line.split()[:2]) for line in block.partition("```")[0].splitlines()]


def wrong_steps(steps: Sequence[tuple[str, str]], seen: Sequence[tuple[str, str]]) -> list[str]:
    """What is wrong with the way of a run: functions that it did not call, or that came before their predecessors."""
    places = {one: place for place, one in enumerate(seen)}
    absent = [f"{file} {name} is not called" for file, name in steps if (file, name) not in places]
    known = [step for step in steps if step in places]
    late = [f"{b[0]} {b[1]} comes before {a[1]}" for a, b in pairwise(known) if places[b] < places[a]]
    return absent + late


@pytest.mark.slow
@pytest.mark.ci
def test_the_page_shows_the_way_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv("FMHA_NO_STORE", raising=False)
    command, steps = way_on(PAGE.read_text("utf-8"))
    trace(ROOT, command.split())  # the kernel is built, and the store is there
    seen = trace(ROOT, command.split())
    assert len(steps) <= 30
    assert wrong_steps(steps, seen) == []
    assert {file.partition("/")[0] for file, _ in seen if "/" in file} - {
        file.partition("/")[0] for file, _ in steps
    } == AROUND


def test_a_way_that_is_not_the_runs_is_found() -> None:
    seen = [("cli/app.py", "run"), ("run/run.py", "Run._go"), ("run/rows.py", "plan_rows")]
    assert wrong_steps(seen, seen) == []
    assert wrong_steps([seen[0], ("run/run.py", "Run.go")], seen) == ["run/run.py Run.go is not called"]
    assert wrong_steps([seen[2], seen[1]], seen) == ["run/run.py Run._go comes before plan_rows"]


def test_a_command_that_fails_has_no_trace(house: Path) -> None:
    (house / "fmha_cli" / "run" / "steps.py").write_text(STEPS.replace("return sum(", "return 3 + sum("), "utf-8")
    with pytest.raises(RuntimeError, match="a b: exit code 3"):
        trace(house, ["a", "b"])


@pytest.mark.slow
@pytest.mark.ci
def test_every_class_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class names twice"] == []
