"""The output on stderr: quiet and verbose modes, and colors."""

from __future__ import annotations

import io

import pytest

from fmha_cli.cli.console import Console
from fmha_cli.cli.streams import colored


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

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
    for name, console in {
        "plain": Console(io.StringIO()),
        "quiet": Console(io.StringIO(), quiet=True),
        "verbose": Console(io.StringIO(), verbose=True),
    }.items():
        console.say("announcement")
        console.detail("detail")
        console.warn("care")
        console.error("error[E001]: no")
        assert isinstance(console.stream, io.StringIO)
        said[name] = console.stream.getvalue()
    assert said["plain"] == "announcement\nwarning: care\nerror[E001]: no\n"
    assert said["quiet"] == "warning: care\nerror[E001]: no\n"
    assert said["verbose"].startswith("announcement\ndetail\n")


def test_the_first_word_of_an_error_is_red() -> None:
    console = Console(io.StringIO(), color=True)
    console.error("error[E001]: no: never")
    assert isinstance(console.stream, io.StringIO)
    assert console.stream.getvalue() == "\x1b[31merror[E001]\x1b[0m: no: never\n"


def test_short_work_prints_no_progress() -> None:
    for console in (Console(io.StringIO()), Console(Terminal(), quiet=True)):
        with console.progress("work") as tick:
            tick(1, 2, "half")
        assert isinstance(console.stream, io.StringIO)
        assert console.stream.getvalue() == ""
