"""Text of others reaches people with its control characters shown: a kernel's message, a file's name, a plugin's fault."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.cli.console import Console
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.drawing import plain
from fmha_cli.report.escaping import cleaned, escaped
from fmha_cli.report.form import Format
from fmha_cli.report.formats import render
from fmha_cli.report.table import Table
from tests.cli.conftest import Fmha
from tests.cli.test_commands import SMALL
from tests.support.generators.report.samples import ENVIRONMENT, record

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[32mPASSED\x1b[0m \x9b31m\r\x7f\u202e\u2028 end"
"""Renames the window, clears the screen, paints, returns the carriage, turns the direction of the line."""
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
FORMATS = (None, "json", "jsonl", "csv", "md")
OWN_COLOURS = re.compile("\x1b\\[(?:0|31|32|33)m")


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel crashes with words that a terminal would obey."""
    from fmha_cli.domain.verdict import Verdict
    from fmha_cli.run.job import JobResult

    def crashed(*given: Any, **more: Any) -> JobResult:
        return JobResult(verdict=Verdict.CRASHED, note=f"the kernel said {EVIL}", log_tail=EVIL)

    monkeypatch.setattr("fmha_cli.run.supervisor.Supervisor.run", crashed)


@pytest.mark.promise("Text from elsewhere reaches a terminal with its control characters shown, never obeyed.")
@pytest.mark.usefixtures("crashes")
@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("to_file", [False, True])
def test_a_kernels_message_is_shown_not_obeyed(fmha: Fmha, tmp_path: Path, form: str | None, to_file: bool) -> None:
    target = ["-o", str(tmp_path / "x")] if to_file else []
    done = fmha("run", *SMALL, *([f"--{form}"] if form else []), *target)
    text = (tmp_path / "x").read_text("utf-8") if to_file else done.out
    assert done.code == 6
    assert HARMFUL.findall(text + done.err) == []
    assert "\\u001b]0;owned\\u0007" in text
    if form in ("json", "jsonl"):
        record = json.loads(text)["records"][0] if form == "json" else json.loads(text.splitlines()[1])
        assert any(EVIL in note for note in record["notes"])


@pytest.mark.promise("Text from elsewhere reaches a terminal with its control characters shown, never obeyed.")
@pytest.mark.usefixtures("crashes")
def test_only_our_own_colours_are_painted(fmha: Fmha) -> None:
    done = fmha("run", *SMALL, "--color", "always")
    assert "\x1b[31mCRASHED\x1b[0m" in done.out
    assert "\x1b[32mPASSED" not in done.out
    assert "\\u001b[32mPASSED" in done.out
    assert HARMFUL.findall(OWN_COLOURS.sub("", done.out + done.err)) == []


@pytest.mark.promise("Text from elsewhere reaches a terminal with its control characters shown, never obeyed.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("flag", ["--q", "--resume", "--arch", "--mask", "-o"])
def test_names_are_shown_not_obeyed(tmp_path: Path, flag: str) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "fmha_cli", "run", flag, f"{tmp_path}/missing/{EVIL}.npy"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode in (2, 4), done.stderr
    assert HARMFUL.findall(done.stdout + done.stderr) == []
    assert "\\u001b[2J" in done.stderr


def test_everything_that_is_said_is_escaped() -> None:
    said = io.StringIO()
    console = Console(said, verbose=True, color=False)
    for say in (console.say, console.detail, console.warn, console.error):
        say(EVIL)
    assert HARMFUL.findall(said.getvalue()) == []
    assert said.getvalue().count("\\u009b31m") == 4


def test_one_function_escapes() -> None:
    assert escaped("plain é\u4e2d \U0001f600\ttab\nline") == "plain é\u4e2d \U0001f600\ttab\nline"
    assert escaped("\x1b\x00\udc80\u202e") == "\\u001b\\u0000\\udc80\\u202e"
    assert cleaned({"a": ["\x1b", 1, None], "b": {"c": "\x9b"}}) == {"a": ["\\u001b", 1, None], "b": {"c": "\\u009b"}}
    assert json.loads(escaped(json.dumps(EVIL, ensure_ascii=False))) == EVIL


def test_every_text_of_a_document_is_escaped() -> None:
    stage = replace(record().stages[0], imported_from=EVIL)
    row = record(log=EVIL, stages=(stage,), reasons=(Reason("K012", EVIL),), problem={**record().problem, "mask": EVIL})
    document = report_document([row], replace(ENVIRONMENT, platform=EVIL))
    for form in Format:
        text = render(document, form)
        assert HARMFUL.findall(text) == [], form
        assert "owned\\u0007" in text, form


def test_every_part_of_a_table_is_escaped() -> None:
    table = Table((Column("a"), Column(f"b {EVIL}")), [["x", EVIL], ["y", "z"]], f"sum {EVIL}", [f"detail {EVIL}"])
    assert HARMFUL.findall(plain(table)) == []
    assert plain(table).count(escaped(EVIL).split()[0]) == 4
    good = Table((Column("a"),), [["x\ty"], ["two\nlines"]], "sum")
    assert (good.escaped().rows, good.escaped().summary) == (good.rows, good.summary)
