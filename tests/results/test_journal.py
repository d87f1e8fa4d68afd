"""Whatever happens to the writer, the journal shows exactly which rows are done."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmha_cli.domain.errors import EnvironmentProblem, InternalError, UsageError
from fmha_cli.domain.journal import JournalRow, Start
from fmha_cli.results.history import read_history
from fmha_cli.results.journal import Journal
from fmha_cli.system.locks import try_lock

ROWS = [f"{n:024x}" for n in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.jsonl"


def asked(keys: Sequence[str] = ROWS, **other: Any) -> Start:
    """The start line of a run with these rows."""
    fields: dict[str, Any] = {
        "fmha": "1",
        "argv": ("run", "-b", "1"),
        "run": "0" * 32,
        "started": "2026-11-22T19:40:00Z",
        "parts": {"--fill-seed": "0", "v.npy": "sha256:00", "--label": "unset"},
        "rows": tuple(JournalRow(key=key, what=f"the row {key[-1]}") for key in keys),
    }
    return Start(**{**fields, **other})


def start(path: Path) -> Journal:
    return Journal.create(path, asked())


def resume(path: Path) -> Journal:
    return Journal.resume(path, asked())[0]


def filled(path: Path, done: int) -> Path:
    with start(path) as journal:
        for key in ROWS[:done]:
            journal.planned(key)
            journal.done({key: {"verdict": "PASSED", "row": key}})
        if done < len(ROWS):
            journal.planned(ROWS[done])
    return path


def test_what_is_written_is_read(path: Path) -> None:
    history = read_history(filled(path, 2))
    assert (history.start.fmha, history.start.argv, history.start.keys) == ("1", ("run", "-b", "1"), tuple(ROWS))
    assert history.done == {key: {"verdict": "PASSED", "row": key} for key in ROWS[:2]}
    assert history.left == tuple(ROWS[2:])
    assert history.attempts == dict.fromkeys(ROWS[:3], 1)
    assert history.size == path.stat().st_size


def test_a_resumed_journal_is_finished(path: Path) -> None:
    filled(path, 2)
    journal, history = Journal.resume(path, asked())
    with journal:
        for key in history.left:
            journal.planned(key)
            journal.done({key: {}})
    again = read_history(path)
    assert list(again.done) == ROWS
    assert again.left == ()
    assert again.attempts[ROWS[2]] == 2, "it was in flight when the first writer ended"


@pytest.mark.parametrize("cut", range(1, 900, 29))
def test_a_journal_cut_anywhere_holds_whole_rows(path: Path, cut: int) -> None:
    """A kill may cut off the tail. Every prefix of the journal gives a prefix of the rows and can be completed."""
    data = filled(path, 3).read_bytes()
    path.write_bytes(data[:-cut])
    try:
        history = read_history(path)
    except UsageError:
        assert data[:-cut].count(b"\n") == 0, "only a journal without its start line is refused"
        return
    assert list(history.done) == ROWS[: len(history.done)]
    with resume(path) as journal:
        for key in history.left:
            journal.planned(key)
            journal.done({key: {}})
    lines = path.read_text("utf-8").splitlines()
    assert all(json.loads(line) for line in lines)
    assert list(read_history(path).done) == ROWS


@given(tail=st.binary(min_size=1, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_a_torn_last_line_is_dropped(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = filled(tmp_path_factory.mktemp("torn") / "j", 2)
    whole = path.read_bytes()
    torn = tail.replace(b"\n", b"")
    path.write_bytes(whole + torn)
    assert list(read_history(path).done) == ROWS[:2]
    resume(path).close()
    assert path.read_bytes() == whole


def test_a_last_line_of_zeros_is_dropped(path: Path) -> None:
    """Some file systems leave zeros after a power failure."""
    whole = filled(path, 1).read_bytes()
    path.write_bytes(whole + bytes(60) + b"\n")
    assert list(read_history(path).done) == ROWS[:1]
    resume(path).close()
    assert path.read_bytes() == whole


def test_damage_in_the_middle_is_refused(path: Path) -> None:
    lines = filled(path, 2).read_bytes().splitlines(keepends=True)
    lines[2] = b"x" + lines[2][1:]
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match="line 3"):
        read_history(path)


@pytest.mark.parametrize("text", ["", "\n", "{}\n", "[]\n", '{"schema": "fmha.report/1"}\n', "GIF89a"])
def test_what_is_no_journal_is_refused(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"run\.jsonl"):
        resume(path)


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (asked(ROWS[:-1]), "it has other rows than this command line (5 and 4)"),
        (asked(list(reversed(ROWS))), "row 1 is the row 4 here, the row 0 in the journal"),
        (asked([*ROWS, "f" * 24]), "other rows"),
        (asked(fmha="2"), "fmha 1 wrote it, this is 2"),
        (asked(parts={**asked().parts, "--fill-seed": "1"}), "--fill-seed is 1 here, 0 in the journal"),
        (asked(parts={**asked().parts, "v.npy": "sha256:11"}), "v.npy has changed"),
        (asked(parts={**asked().parts, "--ck-home": "ck"}), "--ck-home is ck here, absent in the journal"),
        (asked(parts={"--fill-seed": "0", "v.npy": "sha256:00"}), "--label is absent here, unset in the journal"),
        (asked(parts=dict.fromkeys("abcde", "x")), "; and 5 more"),
        (asked(parts={**asked().parts, "--label": "x" * 100}), "..."),
        (asked(parts={**asked().parts, "--label": "\x1b[31m"}), "'\\x1b[31m'"),
    ],
)
def test_a_journal_of_another_invocation_is_refused_with_what_differs(path: Path, here: Start, why: str) -> None:
    whole = filled(path, 1).read_bytes()
    with pytest.raises(UsageError) as caught:
        Journal.resume(path, here)
    assert why in caught.value.what
    assert path.read_bytes() == whole


def test_the_command_line_and_the_time_are_no_part_of_the_identity(path: Path) -> None:
    filled(path, 1)
    here = asked(argv=("run", "-b", "1", "-o", "x"), run="1" * 32, started="later")
    journal, _ = Journal.resume(path, here)
    with journal:
        assert journal.start.run == "0" * 32, "the run keeps the id of its first session"


def test_other_builds_of_the_same_kernels_are_refused(path: Path) -> None:
    with start(path) as journal:
        journal.built({"a" * 64: "1" * 64, "b" * 64: None})
    for here, why in (
        ({"a" * 64: "2" * 64}, "kernel aaaaaaaa is built from other sources"),
        ({"a" * 64: None}, "cannot be built here and could"),
        ({"b" * 64: "2" * 64}, "can be built here and could not"),
    ):
        with resume(path) as journal, pytest.raises(UsageError, match=why):
            journal.built(here)
    with resume(path) as journal:
        journal.built({"a" * 64: "1" * 64, "b" * 64: None, "c" * 64: "3" * 64})
    assert read_history(path).built == {"a" * 64: "1" * 64, "b" * 64: None, "c" * 64: "3" * 64}


def test_rows_that_mean_nothing_alone_are_kept_together(path: Path) -> None:
    """However the file is cut, both rows of a pair are there, or none."""
    with start(path) as journal:
        journal.done({ROWS[0]: {"n": 1}, ROWS[1]: {"n": 2}})
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for end in range(first, len(data) + 1):
        path.write_bytes(data[:end])
        assert len(read_history(path).done) == (2 if end == len(data) else 0)


def changed(path: Path, number: int, old: str, new: str) -> None:
    """Replace a text in one line of a file."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new)
    path.write_text("".join(lines), "utf-8")


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
    filled(path, 1)
    changed(path, line, old, new)
    with pytest.raises(UsageError, match="line 3 has another checksum"):
        read_history(path)


def test_a_line_of_another_journal_is_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with Journal.create(other, asked(run="1" * 32)) as journal:
        journal.done({ROWS[1]: {"verdict": "PASSED"}})
    filled(path, 1)
    with path.open("ab") as file:
        file.write(other.read_bytes().splitlines(keepends=True)[-1])
    with pytest.raises(UsageError, match="line 5 has another checksum"):
        read_history(path)


def test_a_journal_of_an_older_version_is_refused_in_plain_words(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"argv":["run"],"event":"start","fmha":"0.1.0","rows":[],"schema":"fmha.journal/1"}\n', "utf-8")
    with pytest.raises(UsageError, match=r"an older or newer fmha wrote it: its form is fmha\.journal/1"):
        read_history(path)
    path.write_text('{"schema": "fmha.report/1"}\n', "utf-8")
    with pytest.raises(UsageError, match="it is not a journal"):
        read_history(path)


def test_a_journal_is_not_overwritten(path: Path) -> None:
    whole = filled(path, 1).read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        start(path)
    assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_a_missing_journal_is_a_usage_error(path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        resume(path)
    with pytest.raises(UsageError):
        read_history(path)


def test_a_folder_that_cannot_be_is_the_environments_fault(path: Path) -> None:
    path.parent.write_text("a file", "utf-8")
    with pytest.raises(EnvironmentProblem, match="cannot be opened"):
        start(path)


def test_one_process_writes_at_a_time(path: Path) -> None:
    with start(path), pytest.raises(UsageError, match="another process"):
        resume(path)
    resume(path).close()


def test_a_lock_that_outlives_its_writer_for_a_moment_is_waited_for(path: Path) -> None:
    """Where a writer is killed, what it had just forked holds the lock until it becomes another program."""
    filled(path, 2)
    held = os.open(path, os.O_RDWR)
    assert try_lock(held)
    threading.Timer(0.1, os.close, (held,)).start()
    resume(path).close()


def test_a_row_is_done_once(path: Path) -> None:
    with start(path) as journal:
        journal.done({ROWS[0]: {}})
        for call in (lambda: journal.done({ROWS[0]: {}}), lambda: journal.planned(ROWS[0])):
            with pytest.raises(InternalError):
                call()
        with pytest.raises(InternalError):
            journal.planned("f" * 24)
    with resume(path) as journal, pytest.raises(InternalError):
        journal.done({ROWS[0]: {}})


def test_rows_have_different_keys(path: Path) -> None:
    with pytest.raises(InternalError):
        Journal.create(path, asked([ROWS[0], ROWS[0]]))


def test_a_doubled_row_in_the_file_is_refused(path: Path) -> None:
    lines = filled(path, 1).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[2]]))
    with pytest.raises(UsageError, match="already done"):
        read_history(path)


def test_a_full_disk_is_the_environments_fault(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with start(path) as journal:
        monkeypatch.setattr("fmha_cli.results.journal.os.write", full)
        with pytest.raises(EnvironmentProblem, match="cannot be written"):
            journal.planned(ROWS[0])
        monkeypatch.undo()


def test_every_line_is_on_the_disk_before_the_call_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    with start(path) as journal:
        monkeypatch.setattr("fmha_cli.results.journal.os.fsync", lambda fd: synced.append(path.stat().st_size))
        journal.planned(ROWS[0])
        assert synced == [path.stat().st_size]
        journal.done({ROWS[0]: {}})
        assert synced[1:] == [path.stat().st_size]
