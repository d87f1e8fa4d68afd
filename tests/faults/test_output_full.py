"""Disks that fill after the work began: no row is lost, and one that cannot be written costs a note."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.conftest import Fmha
from tests.cli.test_commands import SMALL
from tests.support.generators.journals import keys_in
from tests.support.output_cases import FORMATS, PROGRAM, SWEEP, WRONG, full_disk, journals_of_this_test


@pytest.mark.promise("An output that cannot be written is reported before any work, or costs no row later.")
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("form", [form for form in FORMATS if form])
def test_a_disk_that_fills_later_keeps_the_journal(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "full").mkdir()
    journals = journals_of_this_test(monkeypatch, tmp_path)
    with full_disk(monkeypatch, tmp_path / "full"):
        done = fmha(*SWEEP, f"--{form}", "-o", str(tmp_path / "full" / "rows"))
    assert done.code == 4, done.err
    assert "error[X040]: -o " in done.err
    assert "no space left" in done.err
    (journal,) = journals.glob("*")
    assert f"--resume {journal}` continues" in done.err
    assert not list((tmp_path / "full").iterdir())
    again = fmha(*SWEEP, "--resume", str(journal), "--json")
    assert again.code == 0, again.err
    assert [r["verdict"] for r in again.document["records"]] == ["PASSED"] * 4
    journal.unlink()


def test_the_journal_of_a_delivered_walk_is_removed(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = journals_of_this_test(monkeypatch, tmp_path)
    assert fmha(*SWEEP, "-o", str(tmp_path / "rows")).code == 0
    assert journals.is_dir()
    assert not list(journals.glob("*"))


class Filling:
    """A stdout whose disk is full after some lines."""

    encoding = "utf-8"

    def __init__(self, lines: int) -> None:
        self.left = lines
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this

    def write(self, text: str) -> int:
        self.left -= text.count("\n")
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.file.fileno()


def test_a_stdout_that_fills_amid_a_stream_stops_the_walk(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Filling(2))
    journal = tmp_path / "rows.journal"
    done = fmha(*SWEEP, "--jsonl", "--journal", str(journal))
    monkeypatch.undo()
    assert done.code == 4
    assert "error[X040]: stdout: cannot be written" in done.err
    assert f"--resume {journal}` continues" in done.err
    assert 0 < len(keys_in(journal)) < 4


def test_a_full_stdout_is_exit_4(tmp_path: Path) -> None:
    import resource

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for argv in (["schema", "report"], ["archs", "--json"], ["run", "--help"]):
        with (tmp_path / "out").open("w") as out:
            done = subprocess.run(
                [*PROGRAM, *argv], stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=no_room, check=False
            )
        assert done.returncode == 4, done.stderr
        assert done.stderr.startswith("error[X040]: stdout: cannot be written\n")
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


PLUGIN = """
import sys
import typer
from fmha_cli.cli import parser
from fmha_cli.cli.app import main

def hello() -> None:
    print("from print")
    typer.echo("from Typer")

def broken() -> None:
    raise OSError("of the plugin")

parser.plugin_commands = lambda: {"hello": hello, "broken": broken}
sys.argv = ["fmha", sys.argv[1]]
main()
"""


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [("hello", 4, "error[X040]: stdout: cannot be written\n"), ("broken", 70, "OSError: of the plugin")],
)
def test_a_plugins_command_on_a_full_stdout(tmp_path: Path, command: str, code: int, said: str) -> None:
    import resource

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (tmp_path / "out").open("w") as out:
        line = [sys.executable, "-c", PLUGIN, command]
        done = subprocess.run(
            line, stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=no_room, check=False, env=environ
        )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.promise("Pipes are written to, inputs are never replaced, and one failing file costs one note.")
@pytest.mark.slow
@pytest.mark.ci
def test_an_out_that_fails_amid_a_sweep_costs_a_note(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    with full_disk(monkeypatch, tmp_path / "full"):
        done = fmha(*SWEEP, "--json", "--out", f"{tmp_path}/full/o-{{i}}.npy")
    assert done.code == 4, done.err
    records = done.document["records"]
    assert [r["verdict"] for r in records] == ["PASSED"] * 4
    assert [r["out"] for r in records] == [None] * 4
    assert all(any("--out" in note and "no space left" in note for note in r["notes"]) for r in records)
    assert done.err.count("warning: --out ") == 4


@pytest.mark.slow
@pytest.mark.ci
def test_saving_a_failure_that_fails_costs_a_note(fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    argv = ("validate", *SMALL, "--kernel", WRONG, "--fill", "normal", "--softcap", "1,2", "--save-failures")
    with full_disk(monkeypatch, tmp_path / "full"):
        done = fmha(*argv, f"{tmp_path}/full", "--json")
    assert done.code == 1, done.err
    records = done.document["records"]
    assert {r["verdict"] for r in records} == {"WRONG"}
    assert all(any("--save-failures" in note for note in r["notes"]) for r in records)


def test_a_bug_is_reported_where_no_file_can_be_written(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def bug(self: object) -> None:
        raise RuntimeError("the roof fell in")

    monkeypatch.setattr("fmha_cli.discovery.registry.Registry.arch_names", bug)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", broken)
    done = fmha("archs")
    assert done.code == 70
    assert "RuntimeError: the roof fell in" in done.err
    assert "in bug" in done.err  # the traceback itself
