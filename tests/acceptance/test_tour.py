"""A newcomer's tour on a terminal of 80 columns: right exit codes, no row that wraps, no column without a word."""

from __future__ import annotations

import random
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.cli.command import CommandSet
from fmha_cli.cli.commands import COMMANDS, declared
from tests.support.models.screen import Screen, blank_columns
from tests.support.processes import two_kernels
from tests.support.served import Shown, Terminal

LIMIT = 600.0
DATA = ("--json", "--jsonl", "--csv", "--md")
"""Formats for programs and pages: their lines are as long as their data."""


@dataclass(frozen=True)
class Step:
    """A line of ``tour.txt``."""

    codes: tuple[int, ...]
    quick: bool
    words: str


def steps() -> list[Step]:
    lines = (Path(__file__).parent / "tour.txt").read_text("utf-8").splitlines()
    kept = (line.split(" ", 2) for line in lines if line and not line.startswith("#"))
    return [Step(tuple(map(int, codes.split(","))), speed == "q", words) for codes, speed, words in kept]


TOUR = steps()
QUICK = random.Random(80).sample([step for step in TOUR if step.quick], 70)
HELPS = [
    words
    for name in COMMANDS
    for words in [name, *(f"{name} {part}" for part in getattr(declared(name), "commands", ()))]
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A working folder with the files of the tour; its path is short, because no screen has room for every path."""
    from safetensors.numpy import save_file

    place = tempfile.TemporaryDirectory(prefix="tour")
    home = Path(place.name)
    draw = np.random.Generator(np.random.PCG64(8))

    def tensor(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
        return draw.standard_normal(shape).astype(np.float16)

    q, k, v = tensor(1, 2, 64, 64), tensor(1, 2, 64, 64), tensor(1, 2, 64, 64)
    nan = q.copy()
    nan[0, 1, 5, 7] = np.nan
    arrays = {
        "q": q,
        "k": k,
        "v": v,
        "q32": q.astype(np.float32),
        "q3d": q[0],
        "q80": tensor(1, 2, 64, 80),
        "qnan": nan,
    }
    arrays |= {"q4": tensor(1, 4, 64, 64), "k3": tensor(1, 3, 64, 64), "qint": q.astype(np.int64)}
    for name, array in arrays.items():
        np.save(home / f"{name}.npy", array)
    np.save(home / "qobj.npy", np.array([{"q": 1}], dtype=object), allow_pickle=True)
    np.savez(home / "t.npz", q=q, k=k, v=v)
    save_file({"q": q, "k": k, "v": v}, home / "t.safetensors")
    (home / "junk.npy").write_bytes(b"junk")
    (home / "notes.md").write_text("# Notes\n", "utf-8")
    with place:
        yield home


@pytest.fixture
def terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A newcomer's cache and store are empty; those of the session and of whoever runs the tests may not be."""
    monkeypatch.setenv("FMHA_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    one = Terminal(folder, LIMIT)
    yield one
    one.close()


def faults(shown: Shown, codes: tuple[int, ...]) -> list[str]:
    """What is wrong with one step, each fault with the text that shows it."""
    words, screen = shown.argv, shown.screen
    found = (
        []
        if shown.code in codes
        else [f"exit code {shown.code} instead of {' or '.join(map(str, codes))}\n{screen.text}"]
    )
    if "Traceback (most" in screen.text or "error[E070]" in screen.text:
        found.append(f"a traceback\n{screen.text}")
    if not any(word in DATA for word in words) or shown.code == 2:
        found += [f"wraps: {line}" for line in screen.wrapped]
        found += blank_columns(screen.lines)
    return [f"fmha {shlex.join(words)}: {fault}" for fault in found]


def walked(terminal: Terminal, chosen: list[Step], replaced: dict[str, str]) -> list[str]:
    found = []
    for step in chosen:
        words = [replaced.get(word, word) for word in shlex.split(step.words)]
        found += faults(terminal.run(words), step.codes)
    return found


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@pytest.mark.slow
@pytest.mark.ci
def test_a_sample_of_the_tour(terminal: Terminal) -> None:
    assert walked(terminal, QUICK, {}) == []


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_whole_tour(terminal: Terminal) -> None:
    kernels = two_kernels(api.Problem.of(batch=1, heads=1, seqlen=256, hdim=64))
    assert walked(terminal, TOUR, kernels) == []


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
def test_every_help_fits(terminal: Terminal) -> None:
    found = []
    for words in ["", *HELPS]:
        found += faults(terminal.run([*words.split(), "--help"]), (0,))
    assert found == []


def test_the_tour_is_long() -> None:
    assert len({step.words for step in TOUR}) == len(TOUR) >= 200
    assert len(HELPS) > len(COMMANDS)
    assert {name for name in COMMANDS if isinstance(declared(name), CommandSet)} == {
        w.split()[0] for w in HELPS if " " in w
    }
    assert {step.words.split()[0] for step in TOUR} >= set(COMMANDS)


def test_the_screen_sees_what_it_is_for() -> None:
    screen = Screen(10)
    screen.feed(b"0123456789\r\n")
    assert screen.wrapped == []
    screen.feed(b"\x1b[31m0123456789\x1b[0m\r\x1b[2Kshort\r\nab\x1b[")
    screen.feed(b"31mcd\x1b[0m \xe2\x9c")
    screen.feed(b"\x93 w\r\n")
    assert (screen.wrapped, screen.lines[:3]) == ([], ["0123456789", "short", "abcd \u2713 w"])
    screen.feed(b"over\x1b[1A\r\x1b[Kup\x1b[1B\r0123456789+")
    assert screen.wrapped == ["0123456789"]
    assert screen.lines[2] == "up"
    assert blank_columns(["a  b   c", "-  --  --", "1      2"]) == []
    table = ["aa  bb  cc", "--  --  --", "1       2 ", "1       3 ", "a sentence below that has words everywhere"]
    assert blank_columns(table) == ["column 'bb' is blank"]
    assert blank_columns(["aa      cc", "--  --  --", "1   2   2 "]) == ["column 4 has no name: aa      cc"]
