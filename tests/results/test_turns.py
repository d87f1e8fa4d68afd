"""Two interleaved commands: their order, their variables, and commands that print no rows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fmha_cli.domain.errors import UsageError
from fmha_cli.results.turns import Turns, problem_digest
from tests.support.generators.runs_to_compare import processes, timed
from tests.support.live_processes import gone

SCRIPT = """
import json, os, sys
from pathlib import Path

rows, side, code = sys.argv[1:]
with Path("order.txt").open("a") as file:
    file.write(f"{side} {os.environ.get('FMHA_ONLY')} {os.environ.get('FMHA_JSONL')}\\n")
print(Path(rows).read_text(), end="")
sys.exit(int(code))
"""
EIGHT = processes(1_000_000, 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("print.py").write_text(SCRIPT, "utf-8")
    Path("rows.jsonl").write_text(json.dumps(timed(EIGHT).to_dict()) + "\n", "utf-8")
    return tmp_path


def command(side: str, code: int = 0, rows: str = "rows.jsonl") -> tuple[str, ...]:
    return sys.executable, "print.py", rows, side, str(code)


def turns(**other: tuple[str, ...]) -> Turns:
    return Turns((other.get("a", command("A")), other.get("b", command("B"))), {"FMHA_JSONL": "1"})


def told() -> list[list[str]]:
    return [line.split() for line in Path("order.txt").read_text("utf-8").splitlines()]


def test_sides_take_turns_in_mirrored_rounds() -> None:
    seen: list[tuple[int, int, int]] = []
    before, after = Turns(turns().commands, {}, lambda *turn: seen.append(turn)).run(4)
    order = "".join(side for side, *_ in told())
    assert order in ("ABBAABBA", "ABBABAAB", "BAABABBA", "BAABBAAB")
    assert len(before) == len(after) == 4
    assert [(done, total) for done, total, _ in seen] == [(i, 8) for i in range(8)]
    assert "".join("AB"[side] for *_, side in seen) == order


@pytest.mark.promise("Fresh processes alone decide a suspicious row, and a verdict that became worse ends with 1.")
def test_a_turn_is_one_process_however_many_the_command_used() -> None:
    (record,), _ = turns().run(1)
    assert record.measurement is not None
    assert record.measurement.process_of_sample is None
    assert len(record.measurement.samples_ns) == 8 * 20


def test_a_second_look_asks_for_its_problems_alone() -> None:
    row, other = timed(EIGHT), timed(EIGHT, seqlen=128)
    turns().run(1, [row, row, other])
    turns().run(1)
    digests = f"{problem_digest(row)},{problem_digest(other)}"
    assert [line[1:] for line in told()] == [[digests, "1"]] * 2 + [["None", "1"]] * 2


@pytest.mark.parametrize("code", [0, 1, 3, 4, 6])
def test_rows_count_although_some_are_not_good(code: int) -> None:
    before, _ = turns(a=command("A", code)).run(1)
    assert len(before) == 1


@pytest.mark.parametrize(
    ("a", "why"),
    [
        (("no-such-program-here",), "no program of this name is found"),
        (command("A", 2), "exit code 2"),
        (command("A", 70), "exit code 70"),
        ((sys.executable, "-c", "print('hello')"), "not JSON"),
        ((sys.executable, "-c", "import sys; sys.exit('error[E001]: what')"), "error"),
    ],
)
def test_a_command_that_prints_no_rows_is_named(a: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        turns(a=a, b=a).run(1)
    assert caught.value.code == "E058"
    assert a[0] in caught.value.what
    assert caught.value.why is not None
    assert why in caught.value.why or caught.value.why.startswith("not JSON")


WAITING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits SIGINT ignored
from fmha_cli.results.turns import Turns

child = (sys.executable, "-c", "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")
Turns((child, child), {}).run(1)
"""


def test_a_command_ends_with_the_comparison(folder: Path) -> None:
    """Ctrl-C reaches this process alone, as SIGTERM of a CI system would."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stderr=subprocess.DEVNULL) as process:
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            assert process.poll() is None
            time.sleep(0.02)
        child = int((folder / "pid").read_text())
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert gone(child)
