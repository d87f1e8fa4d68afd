"""Damaged and tampered journals: ``--resume`` refuses each with exit 2 and one line that says where."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fmha_cli import api
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.report.parts import RunRow
from fmha_cli.report.record import Record
from fmha_cli.run.journals import open_journal
from fmha_cli.run.origin import now
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row, plan_rows
from tests.cli.conftest import Fmha
from tests.support.generators.journals import as_lines, lines_of
from tests.support.generators.result_files import DEEP, DEEPER_THAN_DOCUMENTS, resealed, with_member, without_member

SWEEP = ("run", "--backend", "null", "-H", "1", "-s", "16,24", "-d", "8")
PROBLEMS = tuple(Problem.from_cli(f"-H 1 -s {seqlen} -d 8") for seqlen in (16, 24))
FIRST, SECOND = 3, 5
"""Indices of the done lines of the two rows."""


@dataclass(frozen=True)
class Written:
    """A journal of two finished rows, and the rows as this process plans them."""

    lines: list[Any]
    rows: list[Row]
    again: list[Any]
    """The lines of a second journal of the same command line."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder, registry = tmp_path_factory.mktemp("journals"), build_registry()
    journals = []
    for name in ("one", "two"):
        path = folder / name
        api.run(*PROBLEMS, backend="null", registry=registry, journal=str(path), cache_root=str(folder / "cache"))
        journals.append(lines_of(path))
    assert [line["event"] for line in journals[0]] == ["start", "built", "planned", "done", "planned", "done"]
    request = Request(backend="null")
    found = probe_backends(registry, wanted_backends(registry, request.wanted))
    return Written(journals[0], plan_rows(PROBLEMS, request, registry, found), journals[1])


@pytest.fixture
def lines(written: Written) -> list[Any]:
    """The lines of the journal; a test may change them."""
    return copy.deepcopy(written.lines)


@dataclass
class Plant:
    """Writes a damaged journal and resumes it with the rows that it holds."""

    written: Written
    path: Path

    def write(self, lines: list[Any]) -> None:
        self.path.write_text("".join(canonical_json(line) + "\n" for line in lines), "utf-8")

    def resume(self) -> Mapping[str, Record]:
        """The records of the journal, as ``--resume`` takes them over."""
        first = self.written.lines[0]
        run = RunRow(id="f" * 32, command="run", started=now())
        rows, parts = self.written.rows, first["parts"]
        journal = open_journal(rows, Request(resume=str(self.path)), run, lambda: parts)
        assert journal is not None
        with journal:
            return dict(journal.state.records)

    def refused(self, why: str) -> None:
        with pytest.raises(UsageError) as caught:
            self.resume()
        assert caught.value.code == "X030"
        assert caught.value.what.startswith(f"journal {self.path}: ")
        assert "\n" not in caught.value.what
        assert why in caught.value.what


@pytest.fixture
def plant(written: Written, tmp_path: Path) -> Plant:
    return Plant(written, tmp_path / "rows.journal")


def test_an_honest_journal_is_resumed(plant: Plant, lines: list[Any]) -> None:
    plant.write(lines)
    assert len(plant.resume()) == 2
    plant.write(resealed(lines))
    assert len(plant.resume()) == 2, "what resealed() computes is what a journal holds"


@pytest.mark.slow
@pytest.mark.ci
def test_the_command_line_refuses_a_damaged_journal_with_2(fmha: Fmha) -> None:
    assert fmha(*SWEEP, "--journal", "rows.journal").code == 0
    as_lines(Path("rows.journal"))
    with Path("rows.journal").open("a", encoding="utf-8") as file:
        file.write(DEEP + "\n")
    done = fmha(*SWEEP, "--resume", "rows.journal")
    assert done.code == 2
    assert "error[X030]: journal rows.journal: line 7: nested more than" in done.err
    assert done.out == ""


STARTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    **{
        f"without {name}": ((lambda line, name=name: without_member(line, name)), f"line 1: start: lacks {name}")
        for name in ("fmha", "argv", "rows", "run", "parts")
    },
    "rows that are a number": (lambda line: {**line, "rows": 5}, "line 1: start.rows: not a list"),
    "rows that are null": (lambda line: {**line, "rows": None}, "line 1: start.rows: not a list"),
    "rows that are lists": (lambda line: {**line, "rows": [[1]]}, "line 1: start.rows[0]: not an object"),
    "rows that are empty": (lambda line: {**line, "rows": [{}]}, "line 1: start.rows[0]: lacks key, what"),
    "a row twice": (lambda line: {**line, "rows": [line["rows"][0]] * 2}, "line 1 names a row twice"),
    "a command line that is a number": (lambda line: {**line, "argv": 7}, "line 1: start.argv: not a list"),
    "parts that are a list": (lambda line: {**line, "parts": []}, "line 1: start.parts: not an object"),
    "a part that is a number": (lambda line: {**line, "parts": {"a": 1}}, "line 1: start.parts.a: not a text"),
    "an id that is no id": (lambda line: {**line, "run": "x"}, "line 1: start.run: not of the form"),
    "a further member": (lambda line: {**line, "extra": 1}, "line 1: start: unknown: extra"),
    "an event that is a list": (lambda line: {**line, "event": []}, "line 1: not a line of a journal"),
    "an older version": (lambda line: {**line, "schema": "fmha.journal/1"}, "an older or newer fmha wrote it"),
    "another document": (lambda line: {**line, "schema": "fmha.report/1"}, "it is not a journal"),
    "no line of a journal": (lambda line: [], "line 1: not a line of a journal"),
    "done first": (lambda line: {"schema": line["schema"], "event": "planned", "key": "0" * 24}, "does not begin"),
}


@pytest.mark.promise("Damaged files are refused in one line, and only what is asked for is read.")
@pytest.mark.parametrize("name", STARTS)
def test_a_damaged_first_line_is_refused(plant: Plant, lines: list[Any], name: str) -> None:
    change, why = STARTS[name]
    plant.write([change(lines[0]), *lines[1:]])
    plant.refused(why)


LATER: dict[str, tuple[int, str, Any, str]] = {
    "a key that is a list": (FIRST, "rows.0.key", [], "line 4: done.rows[0].key: not a text"),
    "a record that is null": (FIRST, "rows.0.record", None, "line 4: done.rows[0].record: not an object"),
    "a record that is a list": (FIRST, "rows.0.record", [], "line 4: done.rows[0].record: not an object"),
    "done without rows": (FIRST, "rows", [], "line 4 has another checksum"),
    "rows that are numbers": (FIRST, "rows", [1], "line 4: done.rows[0]: not an object"),
    "a checksum that is a number": (FIRST, "sha256", 5, "line 4: done.sha256: not a text"),
    "another checksum": (FIRST, "sha256", "0" * 64, "line 4 has another checksum"),
    "a planned key that is a number": (2, "key", 5, "line 3: planned.key: not a text"),
    "a planned row of another plan": (2, "key", "f" * 24, "line 3 names a row that is not in the plan"),
    "kernels that are a list": (1, "kernels", [], "line 2: built.kernels: not an object"),
    "a kernel that is a number": (1, "kernels", {"a": 5}, "line 2: built.kernels.a: not a text"),
    "another verdict": (FIRST, "rows.0.record.verdict", "WRONG", "line 4 has another checksum"),
    "deep JSON": (FIRST, "rows.0.record.notes", json.loads(DEEPER_THAN_DOCUMENTS), "line 4: nested more than"),
}


@pytest.mark.parametrize("name", LATER)
def test_a_damaged_later_line_is_refused(plant: Plant, lines: list[Any], name: str) -> None:
    index, path, value, why = LATER[name]
    plant.write(with_member(lines, f"{index}.{path}", value))
    plant.refused(why)


RECORDS: dict[str, tuple[str, Any, str]] = {
    "an unknown verdict": ("verdict", "SUPER", "record.verdict: 'SUPER' is not a valid Verdict"),
    "a measurement of another type": ("measurement", 5, "record.measurement: not an object"),
    "a measurement without samples": ("measurement.samples_ns", [], "record.measurement.samples_ns: fewer items"),
    "notes of another type": ("notes", 5, "record"),
    "a further member": ("extra", 1, "record: unknown: extra"),
    "another schema": ("schema", "fmha.report/1", "record: its schema is fmha.report/1"),
    "a problem without members": ("problem", {}, "belongs to another row"),
    "another device": ("device", "cuda:0", "belongs to another row"),
    "another kernel": ("kernel.digest", "0" * 64, "belongs to another row"),
    "another cache mode": ("measurement.cache", "cold", "belongs to another row"),
    "no kernel": ("kernel", None, "belongs to another row"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_damaged_record_is_refused_although_its_checksum_is_right(plant: Plant, lines: list[Any], name: str) -> None:
    path, value, why = RECORDS[name]
    plant.write(resealed(with_member(lines, f"{FIRST}.rows.0.record.{path}", value)))
    plant.refused(why)


def test_the_record_of_another_row_is_refused(plant: Plant, lines: list[Any]) -> None:
    other = lines[SECOND]["rows"][0]["record"]
    swapped = with_member(lines, f"{FIRST}.rows.0.record", other)
    plant.write(swapped)
    plant.refused("line 4 has another checksum")
    plant.write(resealed(swapped))
    plant.refused("belongs to another row")


@pytest.mark.promise("A journal of another invocation is not resumed, nor a record that was changed.")
def test_a_line_of_another_journal_is_refused(plant: Plant, lines: list[Any]) -> None:
    """Same rows, same options, another run: the checksum covers the first line, and with it the run's id."""
    other = plant.written.again[FIRST]
    assert other["rows"][0]["key"] == lines[FIRST]["rows"][0]["key"]
    plant.write([*lines[:FIRST], other, *lines[FIRST + 1 :]])
    plant.refused("line 4 has another checksum")


def test_a_first_line_made_to_fit_is_refused(plant: Plant, lines: list[Any]) -> None:
    """Someone edits the identity to make the journal of another fill fit this invocation."""
    honest = lines[0]["parts"]["--fill-seed"]
    other = resealed(with_member(lines, "0.parts.--fill-seed", "5"))
    plant.write(other)
    plant.refused("--fill-seed is 0 here, 5 in the journal")
    plant.write(with_member(other, "0.parts.--fill-seed", honest))
    plant.refused("line 4 has another checksum")


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_very_deep_json_is_refused_anywhere(plant: Plant, lines: list[Any], where: str) -> None:
    whole = [canonical_json(line) for line in lines]
    at = {"first": 0, "middle": FIRST, "last": len(whole)}[where]
    plant.path.write_text("\n".join([*whole[:at], DEEP, *whole[at:]]) + "\n", "utf-8")
    plant.refused(f"line {at + 1}: nested more than")


def test_numbers_that_are_no_json_are_refused(plant: Plant, lines: list[Any]) -> None:
    for number in ("NaN", "1e999"):
        text = [canonical_json(line) for line in lines]
        text[FIRST] = text[FIRST].replace('"regret":null', f'"regret":{number}')
        plant.path.write_text("\n".join(text) + "\n", "utf-8")
        plant.refused("line 4: not JSON")


@pytest.mark.parametrize("kind", ["folder", "pipe", "missing", "empty", "binary"])
def test_what_is_no_journal_is_refused_at_once(plant: Plant, kind: str) -> None:
    """Opening a pipe that nobody writes to would wait for ever."""
    if kind == "folder":
        plant.path.mkdir()
    elif kind == "pipe":
        os.mkfifo(plant.path)
    elif kind != "missing":
        plant.path.write_bytes(b"\x80\x02GIF\n" if kind == "binary" else b"")
    why = {"missing": "no such file", "empty": "start line", "binary": "line 1: not JSON"}
    plant.refused(why.get(kind, "only a regular file can be read"))


@pytest.mark.slow
@pytest.mark.ci
def test_no_mutation_of_a_journal_is_more_than_a_usage_error(plant: Plant, lines: list[Any]) -> None:
    """Six hundred seeded mutations of any member of any line, with right checksums: read, or refused in one way."""
    rng = random.Random("journals")
    junk = (None, True, -1, 0, 2**70, 1.5, "", "x", "\ud800", [], [[]], {}, {"a": 1}, "9" * 50)
    refusals = 0
    for _ in range(600):
        tree = copy.deepcopy(lines)
        node, key = tree, rng.randrange(len(tree))
        while isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
            node = node[key]
            key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        if rng.random() < 0.3 and isinstance(node, dict):
            del node[key]
        else:
            node[key] = rng.choice(junk)
        try:
            plant.write(resealed(tree))
        except (KeyError, TypeError, ValueError, AttributeError):
            plant.write(tree)
        try:
            for record in plant.resume().values():
                record.to_dict()
        except UsageError:
            refusals += 1
    assert refusals > 300
