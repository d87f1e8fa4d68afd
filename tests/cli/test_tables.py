"""Every table on a real terminal of 80 by 24: no line wraps, no column is blank; the options that shape tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Fmha
from tests.cli.test_commands import EVERY, SMALL
from tests.support.models.screen import blank_columns
from tests.support.served import Terminal

SWEEP = ("run", *SMALL, "--seqlen", "8,16", "--mask", "none", "--mask", "window:4,0", "--softcap", "30")
WORDS = {
    **{name: words for name, words in EVERY.items() if name not in ("cache export", "schema report")},
    "sweep": SWEEP,
    "unsupported": ("run", *SMALL, "--dropout", "0.5"),
    "explain gfx942": ("explain", "--arch", "gfx942", "-s", "200", "-d", "80", "--dtype", "bf16"),
    "explain --all": ("explain", "--arch", "x86_64_v4", "--all"),
    "explain --rules": ("explain", "--rules"),
    "plan gfx942": ("plan", "--backend", "ck_tile", "--arch", "gfx942", "--splits", "4"),
    "list-kernels gfx942": ("list-kernels", "--arch", "gfx942", "--family", "fwd_pagedkv"),
    "list-kernels --limit": ("list-kernels", "--arch", "gfx942", "--family", "fwd", "--limit", "9"),
    "wrong": ("run", "--seqlens-q", "1,2", "--seqlen", "4", "--backend", "nul"),
    "no such column": ("list-kernels", "--arch", "null", "--columns", "digset"),
}
LONG = ("doctor",)
"""It builds a kernel of every backend."""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    one = Terminal(tmp_path_factory.mktemp("terminal"), 300.0)
    yield one
    one.close()


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@pytest.mark.sampled(4, ci=16)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in WORDS])
def test_a_terminal_of_80_columns_is_wide_enough(terminal: Terminal, name: str) -> None:
    shown = terminal.run(WORDS[name])
    assert shown.code in (0, 2, 3), shown.screen.text
    assert shown.screen.wrapped == []
    assert blank_columns(shown.screen.lines) == []


@pytest.mark.promise("A list of more than 100 kernels is summed up on a terminal, and whole in a pipe.")
def test_a_long_list_is_summed_up_on_a_terminal_alone(terminal: Terminal, fmha: Fmha) -> None:
    words = ("list-kernels", "--arch", "gfx942", "--family", "fwd_pagedkv")
    shown = terminal.run(words).screen.text
    assert "head dims" in shown
    assert "to narrow: --dtype f" in shown
    assert shown.endswith("120 kernels for gfx942")
    assert len(fmha(*words).out.splitlines()) > 120
    assert len(fmha(*words, "--limit", "5", COLUMNS="80").out.splitlines()) < 20
    assert len(fmha(*words, "--wide", COLUMNS="80").out.splitlines()) > 120
    fewer = fmha(
        "list-kernels", "--arch", "gfx942", "--backend", "ck_tile", "--family", "fwd_appendkv", COLUMNS="80"
    ).out
    assert "99 kernels for gfx942" in fewer
    assert len(fewer.splitlines()) > 99, "up to 100 are listed"


def test_kernels_of_every_architecture_name_theirs(fmha: Fmha) -> None:
    words = ("list-kernels", "--backend", "flash_attn", "--filter", "hdim:64", "--dtype", "bf16", "--family", "fwd")
    heads = fmha(*words).out.splitlines()[0].split()
    assert heads[:2] == ["digest", "arch"]
    assert "arch" not in fmha(*words, "--arch", "sm_90").out.splitlines()[0].split()


@pytest.mark.promise("A list of more than 100 kernels is summed up on a terminal, and whole in a pipe.")
def test_a_pipe_gets_everything_on_one_line_each(fmha: Fmha) -> None:
    wide, narrow = fmha(*SWEEP).out, fmha(*SWEEP, COLUMNS="80").out
    assert "b1 h1 s16 d32 fp16 window:4,0 softcap=30.0" in wide
    assert "all rows" not in wide
    assert narrow.startswith("all rows: batch 1, heads 1, hdim 32, fp16, softcap=30.0, null, ")
    assert max(map(len, narrow.splitlines())) <= 80
    assert fmha(*SWEEP, "--wide", COLUMNS="80").out.split()[:9] == wide.split()[:9]


@pytest.mark.usefixtures("small_cache")
def test_what_does_not_fit_is_named_and_found_by_wide(fmha: Fmha) -> None:
    narrow = " ".join(fmha("cache", "ls", COLUMNS="60").out.split())
    wide = fmha("cache", "ls", "--wide", COLUMNS="60").out
    assert "left out: " in narrow
    assert "--wide shows all" in narrow
    assert "left out" not in wide
    assert "toolchain" in wide


@pytest.mark.promise("Tables fit any terminal: no number is cut, and a column that is left out is named.")
@pytest.mark.slow
@pytest.mark.ci
def test_columns_sort_and_limit_reach_the_table(fmha: Fmha) -> None:
    words = ("run", *SMALL, "--seqlen", "8,16,32")
    done = fmha(*words, "--columns", "problem.seqlen_q,verdict", "--sort", "problem.seqlen_q:desc", "--limit", "2")
    lines = done.out.splitlines()
    assert [line.split() for line in lines[:4:2]] == [["problem.seqlen_q", "verdict"], ["32", "PASSED"]]
    assert lines[3].split() == ["16", "PASSED"]
    assert "1 more row (--limit)" in lines
    rows = list(csv.reader(io.StringIO(fmha(*words, "--limit", "2", "--csv").out)))
    assert len(rows) == 4


def test_an_unknown_column_is_refused_before_any_work(fmha: Fmha, home: Path) -> None:
    done = fmha("run", *SMALL, "--columns", "verdct", "--journal", "j")
    assert done.code == 2
    assert "did you mean verdict" in done.err
    assert not Path("j").exists()
    assert fmha("run", *SMALL, "--limit", "0").code == 2


@pytest.mark.slow
@pytest.mark.ci
def test_options_have_variables(fmha: Fmha) -> None:
    assert fmha("profiles", FMHA_COLUMNS="profile", FMHA_LIMIT="1").out.splitlines()[0] == "profile"
