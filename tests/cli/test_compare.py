"""``fmha compare``: exit codes, formats, and interleaved commands."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.report.documents.report import report_document
from fmha_cli.report.parts import NO_ENVIRONMENT
from fmha_cli.report.record import Record
from tests.cli.conftest import Fmha
from tests.support.generators.runs_to_compare import failed, processes, timed
from tests.support.schema_checks import validator

pytestmark = pytest.mark.promise("README: Did my change slow anything down?")

CALM, SLOW, NOISY = processes(1_000_000, 1), processes(1_100_000, 2), processes(1_000_000, 3, noise=0.2)


def saved(name: str, *records: Record) -> str:
    Path(name).write_text("".join(json.dumps(record.to_dict()) + "\n" for record in records), "utf-8")
    return name


@pytest.mark.promise("Fresh processes alone decide a suspicious row, and a verdict that became worse ends with 1.")
@pytest.mark.parametrize(
    ("after", "options", "code"),
    [
        (timed(CALM), (), 0),
        (timed(SLOW), (), 1),
        (timed(SLOW), ("--fail-on", "wrong"), 0),
        (timed(SLOW), ("--tolerance", "20"), 0),
        (timed(NOISY), (), 0),
        (timed(NOISY), ("--fail-on", "slower,unsure"), 1),
        (failed(), (), 1),
        (failed(), ("--fail-on", "slower"), 0),
        (timed(SLOW, seqlen=128), (), 5),
        (timed(SLOW), ("--filter", "seqlen_q:64"), 1),
        (timed(SLOW), ("--filter", "seqlen_q:9"), 5),
        (timed(SLOW, backend="torch", kernel="b"), (), 5),
        (timed(SLOW, backend="torch", kernel="b"), ("--by", "problem"), 1),
    ],
)
def test_exit_codes(fmha: Fmha, after: Record, options: tuple[str, ...], code: int) -> None:
    done = fmha("compare", saved("old.jsonl", timed(CALM)), saved("new.jsonl", after), *options)
    assert done.code == code, done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("old.jsonl",), "E002"),
        ((), "E002"),
        (("old.jsonl", "none.jsonl"), "E050"),
        (("old.jsonl", "bad.jsonl"), "E050"),
        (("old.jsonl", "old.jsonl", "--by", "proble"), "E055"),
        (("old.jsonl", "old.jsonl", "--fail-on", "slow"), "E008"),
        (("old.jsonl", "old.jsonl", "--alpha", "1"), "E002"),
        (("old.jsonl", "old.jsonl", "--filter", "hdin:1"), "F001"),
        (("--run", "true"), "E002"),
        (("--run", "true", "--run", "'"), "E002"),
        (("--run", "true", "--run", ""), "E002"),
        (("--run", "true", "--run", "true", "--processes", "0"), "E002"),
        (("--run", "false", "--run", "false", "--processes", "1"), "E058"),
    ],
)
def test_what_cannot_be_compared_is_exit_2(fmha: Fmha, words: tuple[str, ...], code: str) -> None:
    saved("old.jsonl", timed(CALM))
    Path("bad.jsonl").write_text("{}", "utf-8")
    done = fmha("compare", *words)
    assert done.code == 2
    assert f"error[{code}]" in done.err
    assert done.out == ""


@pytest.mark.promise("`compare` says which rows are surely slower, and the smallest slowdown it could have detected.")
def test_the_table_says_what_is_sure_and_what_is_not(fmha: Fmha) -> None:
    old = saved("old.jsonl", timed(CALM), timed(NOISY, seqlen=128), timed(CALM, seqlen=256))
    new = saved("new.jsonl", timed(SLOW), timed(CALM, seqlen=128), timed(CALM, seqlen=512))
    done = fmha("compare", old, new)
    assert "s64 d128 fp16" in done.out
    assert " SLOWER" in done.out
    assert "UNSURE (" in done.out
    assert "not interleaved" in done.out
    assert "only before: b1 h8 s256" in done.out
    assert done.out.endswith("2 rows: 1 slower, 1 unsure; 1 only before, 1 only after\n")


def test_every_format_has_every_row(fmha: Fmha) -> None:
    old, new = saved("old.jsonl", timed(CALM)), saved("new.jsonl", timed(SLOW))
    document = fmha("compare", old, new, "--json").document
    validator("compare").validate(document)
    (row,) = document["rows"]
    assert [json.loads(line) for line in fmha("compare", old, new, "--jsonl").out.splitlines()] == [row]
    (cells,) = csv.DictReader(io.StringIO(fmha("compare", old, new, "--csv").out))
    assert float(cells["difference.ratio"]) == row["difference"]["ratio"]
    assert fmha("compare", old, new, "--md").out.startswith("| point")


def test_reports_and_lines_are_read_alike(fmha: Fmha) -> None:
    """Eight runs of one process in one file, and one run of eight processes."""
    old = saved("old.jsonl", *(timed([process]) for process in CALM))
    Path("new.json").write_text(json.dumps(to_json(report_document([timed(CALM)], NO_ENVIRONMENT))), "utf-8")
    done = fmha("compare", old, "new.json")
    assert "1 row: 1 same" in done.out


def test_too_few_processes_are_unsure(fmha: Fmha) -> None:
    done = fmha("compare", saved("old.jsonl", timed(CALM[:4])), saved("new.jsonl", timed(SLOW[:4])))
    assert done.code == 0
    assert "UNSURE (4 of 5 processes)" in done.out
    told = " ".join(done.out.split())
    assert "no row can be sure: it needs 5 processes or more a side" in told
    assert "fmha bench --processes 5" in told
    assert "p10: the median over the processes of their 10 % quantiles" in told


SCRIPT = """
import json, os, random, sys
from pathlib import Path

rows = json.loads(Path(sys.argv[1]).read_text())
only = os.environ.get("FMHA_ONLY")
count = Path(sys.argv[1] + (".again" if only else ".first"))
turn = int(count.read_text()) if count.exists() else 0
count.write_text(str(turn + 1))
for line in rows[turn]:
    print(line)
"""


def played(name: str, *turns: tuple[Record, ...]) -> str:
    """A command that prints the records of one turn each time it is called."""
    Path("play.py").write_text(SCRIPT, "utf-8")
    lines = [[json.dumps(record.to_dict()) for record in turn] for turn in turns]
    Path(name).write_text(json.dumps(lines), "utf-8")
    return shlex.join((sys.executable, "play.py", name))


@pytest.mark.promise("Fresh processes alone decide a suspicious row, and a verdict that became worse ends with 1.")
@pytest.mark.slow
@pytest.mark.ci
def test_commands_in_turns_confirm_what_is_suspicious(fmha: Fmha) -> None:
    """Two rows, one of them slowed down: 5 turns screen both, 12 more decide the suspicious one."""
    calm, other = processes(1_000_000, 5, 17), processes(1_000_000, 6, 17)
    slow = processes(1_100_000, 7, 17)
    a = played("a.json", *((timed([calm[i]]), timed([other[i]], seqlen=128)) for i in range(17)))
    b = played("b.json", *((timed([slow[i]]), timed([other[-1 - i]], seqlen=128)) for i in range(17)))
    done = fmha("compare", "--run", a, "--run", b, "--processes", "5", "--json")
    assert done.code == 1, done.err
    document = done.document
    validator("compare").validate(document)
    assert document["interleaved"]
    assert "1 suspicious row: run again, 12 processes a side" in done.err
    assert [row["difference"]["speed"] for row in document["rows"]] == ["slower", "same"]
    assert [row["difference"]["processes_after"] for row in document["rows"]] == [12, 5]
    assert Path("a.json.first").read_text() == "5"
    assert Path("a.json.again").read_text() == "12"


@pytest.mark.slow
@pytest.mark.ci
def test_stored_runs_are_confirmed_by_commands(fmha: Fmha) -> None:
    """What two stored runs made suspicious is decided by fresh processes: here nothing is left of it."""
    calm, other = processes(1_000_000, 5, 12), processes(1_000_000, 6, 12)
    a, b = (played(f"{n}.json", *((timed([process]),) for process in of)) for n, of in (("a", calm), ("b", other)))
    names = (saved("old.jsonl", timed(CALM)), saved("new.jsonl", timed(SLOW)))
    assert "1 suspicious row: --run 'CMD' --run 'CMD'" in fmha("compare", *names).err
    done = fmha("compare", *names, "--run", a, "--run", b)
    assert done.code == 0
    assert "1 row run again" in done.out
    assert "1 row: 1 same" in done.out
    assert not Path("a.json.first").exists()


def test_no_confirmation_where_none_is_wanted(fmha: Fmha) -> None:
    slow, calm = processes(1_100_000, 5, 5), processes(1_000_000, 6, 5)
    a, b = (played(f"{n}.json", *((timed([process]),) for process in of)) for n, of in (("a", calm), ("b", slow)))
    done = fmha("compare", "--run", a, "--run", b, "--processes", "5", "--confirm", "0")
    assert done.code == 1
    assert not Path("b.json.again").exists()


@pytest.mark.slow
@pytest.mark.ci
def test_bench_is_such_a_command_and_runs_only_what_is_asked(fmha: Fmha) -> None:
    words = ("bench", "--backend", "null", "-H", "1", "-s", "16,32", "-d", "8", "--budget", "0.05")
    bench = shlex.join((sys.executable, "-m", "fmha_cli", *words))
    done = fmha("compare", "--run", bench, "--run", bench, "--processes", "1", "--json")
    assert done.code == 0, done.err
    problems = [row["problem"] for row in done.document["rows"]]
    assert [problem["seqlen_q"] for problem in problems] == [16, 32]

    only = fmha(*words, "--jsonl", FMHA_ONLY=digest_of(problems[1])[:16])
    (record,) = [json.loads(line) for line in only.out.splitlines() if '"fmha.record/' in line]
    assert record["problem"] == problems[1]
    assert fmha(*words, "--only", "0123456789").code == 5
