"""Whatever happens to the writer, the journal shows exactly which rows are done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmha_cli.domain.errors import EnvironmentProblem, InternalError, UsageError
from fmha_cli.execution.journal import Journal, read_history

ROWS = [f"{n:024x}" for n in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.jsonl"


def start(path: Path) -> Journal:
    return Journal.create(path, fmha="1", argv=["run", "-b", "1"], rows=ROWS)


def resume(path: Path) -> Journal:
    return Journal.resume(path, fmha="1", rows=ROWS)[0]


def filled(path: Path, done: int) -> Path:
    with start(path) as journal:
        for key in ROWS[:done]:
            journal.planned(key)
            journal.done(key, {"verdict": "PASSED", "row": key})
        if done < len(ROWS):
            journal.planned(ROWS[done])
    return path


def test_what_is_written_is_read(path: Path) -> None:
    history = read_history(filled(path, 2))
    assert (history.start.fmha, history.start.argv, history.start.rows) == ("1", ("run", "-b", "1"), tuple(ROWS))
    assert history.done == {key: {"verdict": "PASSED", "row": key} for key in ROWS[:2]}
    assert history.left == tuple(ROWS[2:])
    assert history.attempts == dict.fromkeys(ROWS[:3], 1)
    assert history.size == path.stat().st_size


def test_a_resumed_journal_is_finished(path: Path) -> None:
    filled(path, 2)
    journal, history = Journal.resume(path, fmha="1", rows=ROWS)
    with journal:
        for key in history.left:
            journal.planned(key)
            journal.done(key, {})
    again = read_history(path)
    assert list(again.done) == ROWS
    assert again.left == ()
    assert again.attempts[ROWS[2]] == 2, "it was in flight when the first writer ended"


@pytest.mark.parametrize("cut", range(1, 500, 19))
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
            journal.done(key, {})
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


def test_a_journal_of_another_plan_or_version_is_refused(path: Path) -> None:
    filled(path, 1)
    for rows in (ROWS[:-1], list(reversed(ROWS)), [*ROWS, "f" * 24]):
        with pytest.raises(UsageError, match="other rows"):
            Journal.resume(path, fmha="1", rows=rows)
    with pytest.raises(UsageError, match="fmha 1 wrote it"):
        Journal.resume(path, fmha="2", rows=ROWS)


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


def test_a_row_is_done_once(path: Path) -> None:
    with start(path) as journal:
        journal.done(ROWS[0], {})
        for call in (lambda: journal.done(ROWS[0], {}), lambda: journal.planned(ROWS[0])):
            with pytest.raises(InternalError):
                call()
        with pytest.raises(InternalError):
            journal.planned("f" * 24)
    with resume(path) as journal, pytest.raises(InternalError):
        journal.done(ROWS[0], {})


def test_rows_have_different_keys(path: Path) -> None:
    with pytest.raises(InternalError):
        Journal.create(path, fmha="1", argv=[], rows=[ROWS[0], ROWS[0]])


def test_a_doubled_row_in_the_file_is_refused(path: Path) -> None:
    lines = filled(path, 1).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[2]]))
    with pytest.raises(UsageError, match="already done"):
        read_history(path)


def test_a_full_disk_is_the_environments_fault(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with start(path) as journal:
        monkeypatch.setattr("fmha_cli.execution.journal.os.write", full)
        with pytest.raises(EnvironmentProblem, match="cannot be written"):
            journal.planned(ROWS[0])
        monkeypatch.undo()


def test_every_line_is_on_the_disk_before_the_call_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    with start(path) as journal:
        monkeypatch.setattr("fmha_cli.execution.journal.os.fsync", lambda fd: synced.append(path.stat().st_size))
        journal.planned(ROWS[0])
        assert synced == [path.stat().st_size]
        journal.done(ROWS[0], {})
        assert synced[1:] == [path.stat().st_size]
