"""Acceptance 5, in real processes: a faulty kernel affects only its row, and a killed run loses no finished row."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict
from fmha_cli.results.plans import state_of
from tests.support.fakes.rows_plugin import EVERY, FATES, NAME, SLOW_FROM, fate_of
from tests.support.generators.journals import grown, keys_in
from tests.support.processes import finished, installed, start

ROWS, FAULTS = 100, 20
GROWN = (0, 1, 2, 5, 9)
"""Kills in turn wait until the journal has grown by so many lines."""
ROOM = ("--backend", NAME, "-H", "2", "-d", "8", "--seqlen-k", "7", "--dtype", "fp32", "--lse", "--timeout", "3")
WRONG_RESULTS = (Verdict.WRONG, Verdict.OUT_OF_BOUNDS, Verdict.NONDETERMINISTIC, Verdict.MISTRUSTED)

Environment = dict[str, str]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(tmp_path_factory.mktemp("site"))


def swept(seqlens: Iterable[int], env: Environment, folder: Path) -> tuple[int, list[dict[str, object]]]:
    """The exit code and records of one ``fmha validate`` over query lengths."""
    listed = ",".join(map(str, seqlens))
    code, out, err = finished(start("validate", *ROOM, "-s", listed, "--json", env=env, cwd=folder))
    document = json.loads(out)
    assert document["error"] is None, err
    return code, document["records"]


@pytest.mark.slow
@pytest.mark.ci
def test_twenty_faults_cost_twenty_rows(env: Environment, tmp_path: Path) -> None:
    seqlens = range(1, ROWS + 1)
    assert len(FATES) == FAULTS == ROWS // EVERY
    code, records = swept(seqlens, env, tmp_path)
    assert [r["problem"]["seqlen_q"] for r in records] == list(seqlens)
    assert [r["verdict"] for r in records] == [fate_of(n)[1].value for n in seqlens]
    assert code == ExitCode.WRONG
    assert all(r["notes"] == [] for n, r in zip(seqlens, records, strict=True) if n % EVERY)


@pytest.mark.promise("Exit code 6: a kernel crashed, hung, did not build or launch, or ran out of memory.")
def test_without_wrong_results_the_exit_code_is_6(env: Environment, tmp_path: Path) -> None:
    verdicts = {n: fate_of(n)[1] for n in range(1, ROWS + 1)}
    first = {verdict: n for n, verdict in reversed(verdicts.items()) if verdict not in WRONG_RESULTS}
    seqlens = sorted(first.values())
    code, records = swept(seqlens, env, tmp_path)
    assert len(records) == len(first) > 4
    assert [r["verdict"] for r in records] == [fate_of(n)[1].value for n in seqlens]
    assert code == ExitCode.FAILED


@pytest.mark.slow
@pytest.mark.parametrize("kills", [pytest.param(6, marks=pytest.mark.ci), 20])
def test_kills_lose_and_double_no_row(env: Environment, tmp_path: Path, kills: int) -> None:
    """``kill -9`` hits the command line again and again, each time a few rows further on and at a random moment."""
    rng = random.Random("twenty kills")
    journal = tmp_path / "run.jsonl"
    seqlens = range(SLOW_FROM, SLOW_FROM + 8 * kills)
    argv = ["run", *ROOM, "-s", f"{seqlens.start}:{seqlens.stop - 1}:+1", "--json"]
    done: set[str] = set()
    for kill in range(kills):
        process = start(*argv, *_journal(journal), env=env, cwd=tmp_path)
        _kill_later(process, journal, GROWN[kill % len(GROWN)], rng)
        if journal.exists() and journal.stat().st_size:
            now = set(state_of(journal, None)[1].records)
            assert done <= now, "a row that was done is gone"
            done = now
    assert 0 < len(done) < len(seqlens), "the kills came too early or too late to prove anything"
    code, out, err = finished(start(*argv, *_journal(journal), env=env, cwd=tmp_path))
    assert code == ExitCode.OK, err
    records = json.loads(out)["records"]
    assert [r["problem"]["seqlen_q"] for r in records] == list(seqlens)
    assert {r["verdict"] for r in records} == {Verdict.PASSED.value}
    told = Counter(keys_in(journal))
    assert len(told) == len(seqlens)
    assert set(told.values()) == {1}


def _journal(path: Path) -> tuple[str, str]:
    """Arguments that resume an existing journal; one that was killed before its first line is empty."""
    if path.exists() and not path.stat().st_size:
        path.unlink()
    return ("--resume" if path.exists() else "--journal", str(path))


def _kill_later(process: subprocess.Popen[str], journal: Path, lines: int, rng: random.Random) -> None:
    """Kill a process a random moment after the journal has grown by ``lines`` lines."""
    before = grown(journal)
    while process.poll() is None and grown(journal) < before + lines:
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.4 if lines == 0 else 0.06))
    process.kill()
    finished(process)
