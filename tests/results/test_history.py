"""Journals of lines, as earlier versions wrote them: whatever happened to the writer, they show exactly which rows are done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.journal import JournalBuilt, JournalPlanned, Line
from fmha_cli.report.record import Record
from fmha_cli.results.history import read_history
from fmha_cli.results.importing import bring
from fmha_cli.results.journal import Journal
from fmha_cli.results.run import load_run
from fmha_cli.results.store import Store, is_database
from tests.support.generators.journals import begun, done_line, places, resumed
from tests.support.generators.report.samples import record

ROWS = [f"{n:024x}" for n in range(5)]
RECORDS = {key: replace(record(), row=key) for key in ROWS}
START = begun(ROWS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def write(path: Path, *lines: Line) -> Path:
    path.write_text("".join(canonical_json(to_json(line)) + "\n" for line in lines), "utf-8")
    return path


def done(*keys: str) -> Line:
    return done_line(START, {key: RECORDS[key].to_dict() for key in keys})


def filled(path: Path, count: int) -> Path:
    """The journal of a run that was killed in its next row."""
    rows = [line for key in ROWS[:count] for line in (JournalPlanned(key=key), done(key))]
    return write(path, START, *rows, *(JournalPlanned(key=key) for key in ROWS[count : count + 1]))


def taken(count: int) -> Mapping[str, Record]:
    return {key: RECORDS[key] for key in ROWS[:count]}


def test_what_was_written_is_read(path: Path) -> None:
    state = read_history(filled(path, 2))
    assert state.start == START
    assert state.records == taken(2)
    assert state.left == tuple(ROWS[2:])
    assert state.attempts == dict.fromkeys(ROWS[:3], 1)


def test_a_resumed_journal_becomes_the_file_of_a_run(path: Path) -> None:
    filled(path, 2)
    with resumed(path, START) as journal:
        assert journal.state.records == taken(2)
        assert is_database(path)
        assert load_run(str(path)).records == tuple(taken(2).values())
        journal.planned(ROWS[2])
        journal.done({ROWS[2]: RECORDS[ROWS[2]]})
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"
    with resumed(path, START) as journal:
        assert journal.state.records == taken(3)
        assert journal.state.attempts[ROWS[2]] == 2, "it was in flight when the first writer ended"


def test_a_journal_that_is_refused_stays_as_it_is(path: Path) -> None:
    whole = filled(path, 1).read_bytes()
    with pytest.raises(UsageError, match="fmha 1 wrote it, this is 2"):
        resumed(path, begun(ROWS, fmha="2"))

    def refuse(records: Mapping[str, Record]) -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        Journal.resume(path, None, START, places(path), refuse)
    assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path]


def test_a_journal_is_brought_into_the_store(path: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        assert bring(store, filled(path, 3))[1] == 3
        assert bring(store, path)[2] == 3


@pytest.mark.parametrize("cut", range(1, 3000, 97))
def test_a_journal_cut_anywhere_holds_whole_rows(path: Path, cut: int) -> None:
    """A kill may have cut off the tail. Every prefix of the journal gives a prefix of the rows and can be completed."""
    data = filled(path, 3).read_bytes()
    path.write_bytes(data[:-cut])
    try:
        state = read_history(path)
    except UsageError:
        assert data[:-cut].count(b"\n") == 0, "only a journal without its start line is refused"
        return
    assert state.records == taken(len(state.records))
    with resumed(path, START) as journal:
        for key in state.left:
            journal.done({key: RECORDS[key]})
    assert load_run(str(path)).records == tuple(taken(5).values())


@given(tail=st.binary(min_size=1, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_a_torn_last_line_is_dropped(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = filled(tmp_path_factory.mktemp("torn") / "j", 2)
    path.write_bytes(path.read_bytes() + tail.replace(b"\n", b""))
    assert read_history(path).records == taken(2)


def test_a_last_line_of_zeros_is_dropped(path: Path) -> None:
    """Some file systems leave zeros after a power failure."""
    path.write_bytes(filled(path, 1).read_bytes() + bytes(60) + b"\n")
    assert read_history(path).records == taken(1)


def test_damage_in_the_middle_is_refused(path: Path) -> None:
    lines = filled(path, 2).read_bytes().splitlines(keepends=True)
    lines[2] = b"x" + lines[2][1:]
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match="line 3"):
        read_history(path)


@pytest.mark.parametrize("text", ["", "\n", "{}\n", "[]\n", '{"schema": "fmha.report/1"}\n', "GIF89a"])
def test_what_is_no_journal_is_refused(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"run\.jsonl"):
        resumed(path, START)


def test_the_kernels_of_all_sessions_are_known(path: Path) -> None:
    first, second = JournalBuilt(kernels={"a": "1", "b": None}), JournalBuilt(kernels={"c": "3"})
    assert read_history(write(path, START, first, second)).built == {"a": "1", "b": None, "c": "3"}


def test_rows_that_mean_nothing_alone_are_kept_together(path: Path) -> None:
    """However the file is cut, both rows of a pair are there, or none."""
    data = write(path, START, done(*ROWS[:2])).read_bytes()
    first = data.index(b"\n") + 1
    for end in range(first, len(data) + 1, 7):
        path.write_bytes(data[:end])
        assert len(read_history(path).records) == (2 if end == len(data) else 0)


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (2, "PASSED", "WRONG"),
        (2, f'"key":"{ROWS[0]}"', f'"key":"{ROWS[3]}"'),
        (0, '"--fill-seed":"0"', '"--fill-seed":"1"'),
        (0, '"fmha":"1"', '"fmha":"3"'),
    ],
)
def test_a_changed_line_is_refused(path: Path, line: int, old: str, new: str) -> None:
    """Even if the first line is changed to fit another invocation."""
    lines = filled(path, 1).read_text("utf-8").splitlines(keepends=True)
    assert old in lines[line]
    lines[line] = lines[line].replace(old, new)
    path.write_text("".join(lines), "utf-8")
    with pytest.raises(UsageError, match="line 3 has another checksum"):
        read_history(path)


def test_a_line_of_another_journal_is_refused(path: Path) -> None:
    other = done_line(begun(ROWS, run="1" * 32), {ROWS[1]: RECORDS[ROWS[1]].to_dict()})
    filled(path, 1)
    with path.open("a", encoding="utf-8") as file:
        file.write(canonical_json(to_json(other)) + "\n")
    with pytest.raises(UsageError, match="line 5 has another checksum"):
        read_history(path)


def test_a_journal_of_an_older_version_is_refused_in_plain_words(path: Path) -> None:
    path.write_text('{"argv":["run"],"event":"start","fmha":"0.1.0","rows":[],"schema":"fmha.journal/1"}\n', "utf-8")
    with pytest.raises(UsageError, match=r"an older or newer fmha wrote it: its form is fmha\.journal/1"):
        read_history(path)
    path.write_text(json.dumps({"schema": "fmha.report/1"}) + "\n", "utf-8")
    with pytest.raises(UsageError, match="it is not a journal"):
        read_history(path)


def test_a_doubled_row_in_the_file_is_refused(path: Path) -> None:
    lines = filled(path, 1).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[2]]))
    with pytest.raises(UsageError, match="already done"):
        read_history(path)
