"""Mutated command lines: no traceback, no exit code outside the contract, and an end to every one of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.cli.commands import known_options
from tests.support.generators import command_lines as lines
from tests.support.served import Done, Served

LIMIT = 120.0
"""Seconds after which a command line is killed: six times what the slowest may take, because the machine may be busy."""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """With a cache of its own: commands that read every entry would read all that the tests of a run have compiled."""
    monkeypatch.setenv("FMHA_CACHE_DIR", str(tmp_path / "cache"))
    q = np.random.Generator(np.random.PCG64(3)).standard_normal((1, 1, 16, 16)).astype(np.float16)
    np.save(tmp_path / "q.npy", q)
    np.savez(tmp_path / "k.npz", k=q)
    (tmp_path / "junk.npz").write_bytes(b"junk")
    (tmp_path / "folder").mkdir()
    from safetensors.numpy import save_file

    save_file({"v": q}, tmp_path / "t.safetensors")
    one = Served(tmp_path, LIMIT)
    yield one
    one.close()


def faults(worker: Served, seed: int, part: slice, bases: tuple[str, ...]) -> list[str]:
    found = []
    for argv in list(lines.mutated(part.stop, seed, bases, known_options()))[part]:
        done = worker.run(argv)
        if what := done.fault():
            last = done.err.strip().splitlines()[-12:]
            found.append(f"{what}: fmha {shlex.join(argv)!a}\n" + "\n".join(last))
    return found


@pytest.mark.slow
@pytest.mark.ci
def test_the_bases_are_good(worker: Served) -> None:
    for base in lines.QUICK:
        done = worker.run(base.split())
        assert done.fault() is None, (base, done)
        expected = (0, 4) if base.startswith("sources fetch") else (2,) if base.endswith("nope") else (0, 2, 3, 5)
        assert done.code in expected, (base, done)


@pytest.mark.promise(
    "Exit code 2: a bad flag, a name that does not exist, or an impossible problem.",
    "Mutated command lines end soon, without a traceback, with a documented exit code.",
)
@pytest.mark.parametrize(
    "part",
    [slice(70), pytest.param(slice(70, 300), marks=(pytest.mark.slow, pytest.mark.ci))],
    ids=["some", "others"],
)
def test_300_of_them(worker: Served, part: slice) -> None:
    assert faults(worker, 1, part, lines.QUICK) == []


@pytest.mark.promise("Mutated command lines end soon, without a traceback, with a documented exit code.")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.timeout(7200)
def test_3000_of_them(worker: Served, seed: int) -> None:
    assert faults(worker, 100 + seed, slice(300), (*lines.QUICK, *lines.LONGER)) == []


def test_the_judge_sees_what_it_is_for() -> None:
    for code, out, err in (
        (70, "", "error[E070]: internal error: ValueError: x"),
        (1, "", "Traceback (most recent call last):\n"),
        (None, "", ""),
        (-11, "", ""),
        (2, "", ""),
        (130, "", "interrupted"),
    ):
        assert Done(("run",), code, out, err).fault()
    assert Done(("run",), 2, "", "error[E001]: no").fault() is None


@pytest.mark.slow
@pytest.mark.ci
def test_a_command_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    worker = Served(tmp_path, 3.0)
    slow = ["run", "--backend", "null", "--kernel", "behaviour:hang"]
    hang = [*slow[:3], "--seqlen", "16", "--heads", "1", "--hdim", "16", "--kernel", _hanging()]
    assert worker.run(hang).code is None
    assert worker.run(["archs", "gfx942"]).code in (0, None)
    worker.close()


def _hanging() -> str:
    from fmha_null.kernels import Behaviour, null_kernel

    from fmha_cli.domain.dtypes import DType
    from fmha_cli.domain.kernel import Family

    return null_kernel(DType.FP16, Family.FWD, Behaviour.HANG).digest[:16]
