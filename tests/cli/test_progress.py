"""The line of progress: its words by a clock that the test moves, and where it is written."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fmha_cli import api
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.console import Console
from fmha_cli.cli.progress import ProgressLine, ticking
from fmha_cli.cli.settings import OptionValues
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.phases import Phase, Voice
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run

pytestmark = pytest.mark.promise("Long work shows its phase, its time and what is left; `-q` leaves the data alone.")


@dataclass
class Times:
    """A clock and a CPU that stand still until they are moved."""

    now: float = 100.0
    used: float = 7.0
    written: list[str] = field(default_factory=list)

    def after(self, seconds: float, cpu: float | None = None) -> None:
        self.now += seconds
        self.used += seconds if cpu is None else cpu

    def line(self, title: str = "run", *, terminal: bool = False, width: int = 80) -> ProgressLine:
        return ProgressLine(
            title,
            self.written.append,
            terminal=terminal,
            width=lambda: width,
            clock=lambda: self.now,
            cpu=lambda: self.used,
        )


@pytest.fixture
def times() -> Times:
    return Times()


def test_a_phase_with_its_share_and_what_is_left_of_it(times: Times) -> None:
    line = times.line()
    times.after(2)
    line.phase(Phase.REFERENCE, 0, 0)
    line(0, 1, "-s 4096 --causal")
    assert line.text() == "run, reference, 2 s: -s 4096 --causal"
    times.after(30)
    line.phase(Phase.REFERENCE, 25, 100)
    assert line.text() == "run, reference 25 %, 32 s, about 1 min 30 s left: -s 4096 --causal"
    line.phase(Phase.JUDGE, 0, 0)
    assert line.text() == "run, judge, 32 s: -s 4096 --causal"


@pytest.mark.parametrize(
    ("phase", "done", "total", "words"),
    [
        (Phase.BUILD, 0, 3, "build 1/3"),
        (Phase.BUILD, 1, 3, "build 2/3"),
        (Phase.BUILD, 3, 3, "build 3/3"),
        (Phase.BUILD, 0, 0, "build"),
        (Phase.BUILD, 0, 1, "build"),
        (Phase.FETCH, 3 * 2**20, 12 * 2**20, "fetch 3.00 MiB of 12.0 MiB"),
        (Phase.TIME, 3, 2, "time 100 %"),
    ],
)
def test_phases_in_words(times: Times, phase: Phase, done: int, total: int, words: str) -> None:
    line = times.line()
    line.phase(phase, done, total)
    assert line.text().startswith(f"run, {words}, 0 s")


def test_rows_that_are_done_tell_when_all_are(times: Times) -> None:
    line = times.line()
    times.after(40)  # the builds do not count
    line(0, 4, "-s 1")
    assert line.text() == "run 1/4, 40 s: -s 1"
    times.after(10)
    line(1, 4, "-s 2")
    assert line.text() == "run 2/4, 50 s, about 30 s left: -s 2"
    times.after(4)
    assert line.text() == "run 2/4, 54 s, about 26 s left: -s 2"
    times.after(100)
    assert "left" not in line.text(), "what takes longer than was expected is not about to end"
    line(4, 4, "-s 8")
    assert "left" not in line.text()


def test_a_build_goes_on_once_its_source_is_fetched(times: Times) -> None:
    """Compiling takes longer than the fetch, and is not called one."""
    line = times.line()
    line.phase(Phase.BUILD)
    times.after(1)
    for done in (0, 5, 9):
        line.phase(Phase.FETCH, done, 9)
        times.after(2)
    assert line.text() == "run, build, 7 s"
    times.after(40)
    line.summary()
    assert {name: spent.wall for name, spent in line.spent.items()} == {"setup": 0, "build": 43, "fetch": 4}


def test_a_build_does_not_repeat_its_name(times: Times) -> None:
    """``fmha build`` has one phase, which has its name."""
    line = times.line("build")
    line(0, 3, "cpu:fwd")
    line.phase(Phase.BUILD, 0, 3)
    assert line.text() == "build 1/3, 0 s: cpu:fwd"


def test_a_terminals_line_is_rewritten_and_cut_to_its_width(times: Times) -> None:
    line = times.line(terminal=True, width=30)
    line(0, 1, "-s 4096 --causal --dtype bf16")
    line.tick()
    line.tick()
    line.erase()
    line.erase()
    shown = [text.removeprefix("\r\x1b[K") for text in times.written]
    assert shown == ["run, 0 s: -s 4096 --causal --d"[:29]] * 2 + [""]
    assert all(text.startswith("\r\x1b[K") and "\n" not in text for text in times.written)


@pytest.mark.promise("Long work shows its phase, its time and what is left; `-q` leaves the data alone.")
def test_elsewhere_every_tick_is_a_line(times: Times) -> None:
    line = times.line()
    line.tick()
    line.erase()
    assert times.written == ["run, 0 s\n"]


def test_the_time_of_each_phase(times: Times) -> None:
    line = times.line()
    times.after(1)
    line.phase(Phase.BUILD)
    times.after(2, cpu=4)
    line.phase(Phase.REFERENCE)
    times.after(3)
    line.phase(Phase.REFERENCE, 5, 10)
    times.after(1)
    line.phase(Phase.BUILD)
    times.after(2, cpu=0)
    assert line.summary() == (
        "took 9.0 s (CPU 9.0 s): setup 1.0 s (1.0 s), build 4.0 s (4.0 s), reference 4.0 s (4.0 s)"
    )


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_ticker_stops_with_the_work_and_leaves_an_empty_line() -> None:
    """It needs no certain number of ticks: it waits for the first one."""
    stream = Terminal()
    line = ProgressLine("run", stream.write, terminal=True)
    with ticking(line, 0.001):
        while not stream.getvalue():
            pass
    assert stream.getvalue().endswith("\r\x1b[K")
    before = stream.getvalue()
    assert "run, 0 s" in before
    assert stream.getvalue() == before


def test_messages_do_not_stand_behind_the_line() -> None:
    console = Console(Terminal())
    with console.progress("run") as progress:
        progress.tick()
        console.say("said [beside] the line")
    assert isinstance(console.stream, Terminal)
    assert "\r\x1b[Ksaid [beside] the line\n" in console.stream.getvalue()


def test_data_do_not_stand_behind_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are printed while the line is shown; both streams are one terminal."""
    screen = Terminal()
    screen.fileno = lambda: 1  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", screen)
    call = CliCall("run", (), OptionValues({}), {}, Console(screen), {})
    with call.console.progress("run") as progress:
        progress.tick()
        call.output.text("data")
        progress.tick()
    assert "\r\x1b[Kdata\n" in screen.getvalue()


@pytest.mark.parametrize("dumb", [True, False])
def test_a_dumb_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch, dumb: bool) -> None:
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    console = Console(Terminal())
    with console.progress("run") as progress:
        progress.tick()
    assert isinstance(console.stream, Terminal)
    assert ("\x1b" in console.stream.getvalue()) is not dumb


def test_quiet_shows_nothing_and_verbose_the_phases() -> None:
    for options, shown in (({"quiet": True}, False), ({"verbose": True}, True), ({}, False)):
        console = Console(io.StringIO(), **options)
        with console.progress("run") as progress:
            progress.phase(Phase.BUILD)
        assert isinstance(console.stream, io.StringIO)
        assert bool(re.search(r"took \d+\.\d s \(CPU .*: setup .*, build ", console.stream.getvalue())) is shown


WORK = """
import sys, time
from fmha_cli.cli import console
from fmha_cli.domain.phases import Phase, Voice
here = console.Console(sys.stderr)
with here.progress("run") as progress:
    progress(0, 1, "-s 4096 " + "x" * 300)
    progress.phase(Phase.REFERENCE, 1, 4)
    while not progress._shown:
        time.sleep(0.01)
    here.say("a message")
"""


def on_terminal(code: str, columns: int) -> str:
    """The output of a program on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stderr=theirs, stdout=theirs, env={**environ, "TERM": "xterm"}
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the last writer has closed it
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert child.wait() == 0
    return said.decode()


def test_one_line_of_a_real_terminal_is_rewritten_and_gone_at_the_end() -> None:
    said = on_terminal(WORK, 60)
    lines = re.split(r"\r\x1b\[K|\r?\n", said)
    assert "a message" in lines
    shown = [line for line in lines if line.startswith("run, reference 25 %")]
    assert shown
    assert {len(line) for line in shown} == {59}
    assert lines[-1] == ""


def test_a_command_without_long_work_does_not_import_it() -> None:
    script = "import sys\nimport fmha_cli.cli.console\nsys.exit('fmha_cli.cli.progress' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.promise("Long work shows its phase, its time and what is left; `-q` leaves the data alone.")
def test_a_walk_tells_its_phases_in_order(tmp_path: Path) -> None:
    told: list[Phase] = []
    builds: list[tuple[int, int]] = []

    def phase(phase: Phase, done: int, total: int) -> None:
        assert 0 <= done <= max(done, total)
        if not told or told[-1] is not phase:
            told.append(phase)
        if phase is Phase.BUILD:
            builds.append((done, total))

    problem = api.Problem.from_cli("-H 2 -s 16 -d 8 --dtype fp16")
    request = Request(command=Command.BENCH, backend="null", budget_s=0.02, cache_root=str(tmp_path / "cache"))
    Run((problem,), request, Registry(), voice=Voice(phase=phase)).finish()
    assert told[:5] == [Phase.BUILD, Phase.INPUTS, Phase.REFERENCE, Phase.LAUNCH, Phase.JUDGE]
    assert Phase.TIME in told
    assert builds == [(0, 1), (1, 1)]


def test_a_line_in_a_pipe_is_folded_where_columns_are_known(times: Times) -> None:
    what = "fmha bench --seqlen 4096 --heads 32 --kv-heads 8 --causal --dtype bf16 --label a-long-name"
    for width, lines in ((40, 3), (200, 1)):
        times.written.clear()
        line = times.line(width=width)
        line(0, 2, what)
        line.tick()
        assert max(map(len, times.written[0].splitlines())) <= width
        assert len(times.written[0].splitlines()) == lines
