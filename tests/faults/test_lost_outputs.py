"""Outputs that are lost on the way: a journal's disk that fills, a reader that goes away, an input that an error would replace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_cli.results import journal
from fmha_cli.results.store import Store, unusable
from tests.cli.conftest import Fmha
from tests.cli.test_commands import SMALL

PROGRAM = (sys.executable, "-m", "fmha_cli")
SWEEP = ("run", *SMALL, "--softcap", "1:4:+1")


@pytest.mark.promise("An output that cannot be written is reported before any work, or costs no row later.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("named", "code"), [(True, 4), (False, 0)])
def test_a_disk_that_fills_under_the_journal_costs_no_row(
    fmha: Fmha, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, code: int
) -> None:
    monkeypatch.setenv("FMHA_CACHE_DIR", str(tmp_path / "cache"))
    put, kept = journal.put_record, list[str]()

    def filling(store: Store, db: Any, run: Any, record: Any, key: str) -> bool:
        if kept:
            raise unusable(store.path, "no space")
        kept.append(key)
        return put(store, db, run, record, key)

    monkeypatch.setattr(journal, "put_record", filling)
    ran = fmha(*SWEEP, "--json", *(("--journal", str(tmp_path / "j")) if named else ()))
    assert ran.code == code
    assert [r["verdict"] for r in ran.document["records"]] == ["PASSED"] * 4
    assert "the journal cannot be written any more, and the rows go on without it" in ran.err
    assert len(kept) == 1


@pytest.mark.slow
@pytest.mark.ci
def test_a_reader_that_goes_away_at_the_last_row_interrupts_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environ = {**os.environ, "FMHA_NO_STORE": "1", "FMHA_CACHE_DIR": str(tmp_path / "cache")}
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [*PROGRAM, "run", *SMALL, "--jsonl"], stdout=pipe, stderr=subprocess.PIPE, env=environ, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.promise("Pipes are written to, inputs are never replaced, and one failing file costs one note.")
def test_no_document_of_an_error_replaces_an_input(fmha: Fmha, tmp_path: Path) -> None:
    source = tmp_path / "q.npy"
    np.save(source, np.zeros((1, 1, 8, 16), np.float16))
    before = source.read_bytes()
    done = fmha("run", "--backend", "null", "--q", str(source), "--json", "-o", str(source))
    assert (done.code, done.document["error"]["code"]) == (2, "E038")
    assert source.read_bytes() == before
