"""Counting kernels and writing lists of them: how much work is done, never how long it takes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.catalogue import count, kernels
from fmha_cli.cli import run
from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.kernel_index import EVERY, join_tables, make_table
from fmha_cli.discovery.registry import BUILTINS, build_registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.report.json_text import json_text
from fmha_cli.run.kernel_tables import StoredTables
from tests.cli.conftest import Fmha

CK = ("list-kernels", "--backend", "ck_tile", "--arch", "gfx942")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[KernelSpec]:
    """Every KernelSpec that is made."""
    found: list[KernelSpec] = []
    original = KernelSpec.__init__

    def noting(self: KernelSpec, **fields: Any) -> None:
        original(self, **fields)
        found.append(self)

    monkeypatch.setattr(KernelSpec, "__init__", noting)
    return found


@pytest.mark.promise("A list of more than 100 kernels is summed up on a terminal, and whole in a pipe.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("revision", "arch"), [("baseline", "gfx942"), ("baseline", "gfx1201"), ("2026-08", "gfx1250")]
)
def test_the_count_is_the_length_of_the_list(revision: str, arch: str) -> None:
    facts = load_arch(arch)
    for family in Family:
        listed = sum(1 for _ in kernels(facts, None, revision, [family]))
        assert count(facts, revision, [family]) == listed, family
    assert count(facts, revision, list(Family)) == sum(1 for _ in kernels(facts, revision=revision))


@pytest.mark.promise("A list of more than 100 kernels is summed up on a terminal, and whole in a pipe.")
def test_counting_makes_few_kernels_and_prints_one_line() -> None:
    code = (
        "import os; from fmha_cli.cli.app import run; from fmha_cli.domain.kernel import KernelSpec as K; "
        "made, make = [], K.__init__; K.__init__ = lambda self, **f: (made.append(1), make(self, **f))[1]; "
        f"run({[*CK, '--count']!r}, os.environ); print(len(made))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, made = map(int, done.stdout.split())
    assert count == 14363
    assert made < count / 3


def test_counting_asks_no_other_backend() -> None:
    code = (
        "import os, sys; from fmha_cli.cli.app import run; "
        f"run({[*CK, '--family', 'fwd', '--count']!r}, os.environ); "
        "print([m for m in sys.modules if m.startswith('fmha_cli.backends.') and m.count('.') == 2])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fmha_cli.backends.ck_tile" in done.stdout
    assert "flash_attn" not in done.stdout
    assert "backends.cpu" not in done.stdout


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--family", "fwd*"),
        pytest.param(("--filter", "-family:bwd*"), marks=pytest.mark.slow),
        ("--filter", "family:*kv"),
    ],
)
def test_every_way_to_count_agrees_with_the_list(fmha: Fmha, more: tuple[str, ...]) -> None:
    where = ("list-kernels", "--arch", "gfx1201")
    listed = fmha(*where, *more, "--jsonl").out.count("\n")
    assert int(fmha(*where, *more, "--count").out) == listed
    document = fmha(*where, *more, "--count", "--json").document
    assert (document["count"], document["kernels"]) == (listed, [])


def test_a_count_of_nothing_says_why(fmha: Fmha) -> None:
    done = fmha(*CK, "--filter", "family:nope", "--count")
    assert (done.code, done.out) == (5, "")
    assert "--filter family:nope matches none of the 14,363 kernels" in done.err
    done = fmha("list-kernels", "--arch", "gfx1100", "--backend", "ck_tile", "--count")
    assert (done.code, done.out) == (5, "")
    assert "F006" in done.err


def test_a_built_in_backend_is_the_same_alone_and_among_all() -> None:
    alone, among = build_registry(), build_registry()
    assert set(BUILTINS) <= set(among.backends)
    for name in BUILTINS:
        assert alone.backend(name) is among.backend(name)


# -- JSON --------------------------------------------------------------------------------------------------------------


def plainly(value: Any, line: str = "\n") -> str:
    """The same text, written without any haste."""
    inner = line + "  "
    if isinstance(value, Mapping) and value:
        parts = [f"{json.dumps(str(k), ensure_ascii=False)}: {plainly(value[k], inner)}" for k in sorted(value)]
        return "{" + inner + f",{inner}".join(parts) + line + "}"
    if isinstance(value, list | tuple) and any(isinstance(v, Mapping | list | tuple) for v in value):
        return "[" + inner + f",{inner}".join(plainly(v, inner) for v in value) + line + "]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def anything(source: random.Random, depth: int = 4) -> Any:
    scalars = (None, True, False, 0, -7, 2**70, 1.5, -0.0, 1e300, 1e-7, "", "é\U0001f600", 'a"b\\c\n\t', "{x}", "%s")
    kind = source.randrange(6) if depth else 0
    if kind < 3:
        return source.choice(scalars)
    size = source.randrange(4)
    if kind == 3:
        return {source.choice('abcdé"') + str(i): anything(source, depth - 1) for i in range(size)}
    made = [anything(source, depth - 1) for _ in range(size)]
    return tuple(made) if kind == 4 else made


def test_the_text_of_a_document_is_byte_for_byte_that_of_json() -> None:
    source = random.Random(12)
    for _ in range(2000):
        value = anything(source)
        assert json_text(value) == plainly(value)
    row = {"b": 1, "a": {"y": [1, 2], "x": [[1], {}]}}
    assert json_text([row, row, {"a": 1}]) == plainly([row, row, {"a": 1}])
    with pytest.raises(ValueError, match="JSON"):
        json_text([1.0, float("inf")])


def test_plain_values_need_no_encoder_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*given: object, **more: object) -> str:
        raise AssertionError("json.dumps makes an encoder for each call")

    monkeypatch.setattr(json, "dumps", called)
    rows = [{"name": str(i), "tile": [i, 2, 3], "words": ["a", "b"], "on": True, "none": None} for i in range(100)]
    assert json_text(rows).count('"name"') == 100


# -- the index ---------------------------------------------------------------------------------------------------------


def test_a_wrong_digest_makes_no_kernel_once_there_is_an_index(
    fmha: Fmha, made: list[KernelSpec], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[KernelSpec] = []
    cache = str(tmp_path / "cache")  # the one that all tests share may have the index already
    original = KernelSpec.digest.fget
    assert original is not None
    monkeypatch.setattr(KernelSpec, "digest", property(lambda self: asked.append(self) or original(self)))
    argv = ("explain", "-s", "64", "--arch", "gfx1201", "--backend", "ck_tile", "--kernel", "12345678")
    first = fmha(*argv, FMHA_CACHE_DIR=cache)
    assert (first.code, first.out) == (2, "")
    assert first.err.startswith("looking through all kernels once, for an index of them in the cache\nerror[E006]: ")
    assert len(asked) > 5000
    asked.clear()
    made.clear()
    second = fmha(*argv, FMHA_CACHE_DIR=cache)
    assert (second.code, second.out) == (2, "")
    assert second.err.startswith("error[E006]: --kernel 12345678: no such kernel\n")
    assert (asked, made) == ([], [])


@pytest.mark.parametrize("plugins", [False, True])
def test_a_digest_that_no_kernel_has_is_refused_before_anything_starts(
    fmha: Fmha, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plugins: bool
) -> None:
    started: list[CliCall] = []
    monkeypatch.setattr(run, "run_points", lambda call: started.append(call) or 0)
    monkeypatch.setattr(run, "installed_entry_points", lambda: ("one",) if plugins else ())
    cache = tmp_path / "cache"
    argv = ("run", "-s", "64", "--kernel", "12345678")
    assert fmha(*argv, FMHA_CACHE_DIR=str(cache)).code == 0
    assert len(started) == 1, "nothing is known without an index"
    StoredTables(cache, print).keep(*EVERY, join_tables([make_table([("ab" * 32, "name")])]))
    refused = fmha(*argv, FMHA_CACHE_DIR=str(cache))
    if plugins:
        assert (refused.code, len(started)) == (0, 2)  # their kernels are in no index
        return
    assert (refused.code, refused.out, len(started)) == (2, "", 1)
    assert refused.err.startswith("error[E006]: --kernel 12345678: no such kernel\n")
    assert fmha(*argv[:-1], "abababab", FMHA_CACHE_DIR=str(cache)).code == 0
    assert fmha(*argv[:-1], "name", FMHA_CACHE_DIR=str(cache)).code == 0
    assert fmha(*argv, "--ck-rev", "later", FMHA_CACHE_DIR=str(cache)).code == 0
