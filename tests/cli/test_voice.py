"""What is said on stderr: quiet, verbose, colors, progress on terminals only."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from fmha_cli.cli.voice import Voice, colored


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("when", "environ", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colors(when: str, environ: dict[str, str], terminal: bool, expected: bool) -> None:
    assert colored(Terminal() if terminal else io.StringIO(), when, environ) is expected


def test_quiet_and_verbose() -> None:
    said = {}
    for name, voice in {
        "plain": Voice(io.StringIO()),
        "quiet": Voice(io.StringIO(), quiet=True),
        "verbose": Voice(io.StringIO(), verbose=True),
    }.items():
        voice.say("announcement")
        voice.detail("detail")
        voice.warn("care")
        voice.error("error[E001]: no")
        assert isinstance(voice.stream, io.StringIO)
        said[name] = voice.stream.getvalue()
    assert said["plain"] == "announcement\nwarning: care\nerror[E001]: no\n"
    assert said["quiet"] == "warning: care\nerror[E001]: no\n"
    assert said["verbose"].startswith("announcement\ndetail\n")


def test_the_first_word_of_an_error_is_red() -> None:
    voice = Voice(io.StringIO(), color=True)
    voice.error("error[E001]: no: never")
    assert isinstance(voice.stream, io.StringIO)
    assert voice.stream.getvalue() == "\x1b[31merror[E001]\x1b[0m: no: never\n"


def test_progress_is_for_terminals() -> None:
    for voice in (Voice(io.StringIO()), Voice(Terminal(), quiet=True)):
        with voice.progress("work") as tick:
            tick(1, 2, "half")
        assert isinstance(voice.stream, io.StringIO)
        assert voice.stream.getvalue() == ""
    terminal = Terminal()
    voice = Voice(terminal)
    with voice.progress("work") as tick:
        tick(1, 2, "[half]")
        voice.say("said [beside] the bar")
    assert "said [beside] the bar" in terminal.getvalue()
    assert "[half]" in terminal.getvalue()


def test_rich_is_imported_for_a_bar_alone() -> None:
    script = "import io, sys\nfrom fmha_cli.cli.voice import Voice\n"
    script += "with Voice(io.StringIO()).progress('x') as tick: tick(1, 1, '')\n"
    script += "sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
