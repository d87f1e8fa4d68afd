"""``tools/house.py`` counts what it says, on a small package with one of everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.house import main, measure_house, trace

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


def test_a_command_that_fails_has_no_trace(house: Path) -> None:
    (house / "fmha_cli" / "run" / "steps.py").write_text(STEPS.replace("return sum(", "return 3 + sum("), "utf-8")
    with pytest.raises(RuntimeError, match="a b: exit code 3"):
        trace(house, ["a", "b"])


@pytest.mark.slow
@pytest.mark.ci
def test_every_class_has_a_name_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class names twice"] == []
