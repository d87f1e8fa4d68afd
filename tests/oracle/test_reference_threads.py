"""The reference on several threads: the same bits, one thread for each product, and nothing of it in the worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from fmha_cli.domain.blas import VARIABLE, as_the_user_set_it, use_one_thread, uses_one_thread
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle import reference
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import RowResult, forward
from fmha_cli.oracle.tensors import F64, product
from fmha_cli.run.process import same_code
from fmha_cli.sweeps.leases import Lease
from fmha_cli.sweeps.process import ChildProcess

pytestmark = pytest.mark.promise("The reference does not depend on its threads.")

PROBLEM = Problem.from_cli("-b 1 -H 2 --kv-heads 1 -s 700 -d 16 --causal --dropout 0.2 --lse")


@pytest.mark.parametrize(
    ("threads", "variable", "used"), [(3, "01", True), (3, "1", True), (3, "4", False), (1, "1", False)]
)
def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch, threads: int, variable: str, used: bool) -> None:
    inputs, names = fill(PROBLEM, "normal", 0), set()
    monkeypatch.setenv(VARIABLE, "4")
    alone = forward(PROBLEM, inputs)
    attend = reference.attend

    def watched(*args: object, **named: object) -> RowResult:
        names.add(threading.current_thread().name.rpartition("_")[0])
        return attend(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setenv(VARIABLE, variable)
    monkeypatch.setattr(reference, "usable_cores", lambda: threads)
    monkeypatch.setattr(reference, "attend", watched)
    together = forward(PROBLEM, inputs)
    assert (names == {"reference"}) is used
    for name in (f.name for f in fields(RowResult)):
        assert np.array_equal(getattr(alone, name), getattr(together, name), equal_nan=True)


def test_infinite_scores_warn_on_no_thread(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(reference, "usable_cores", lambda: 2)
    inputs = dict(fill(PROBLEM, "normal", 0))
    inputs["q"] = inputs["q"].copy()
    inputs["q"][0, 0, 5, 0] = np.inf
    forward(PROBLEM, inputs)
    assert not [str(w.message) for w in recwarn.list]


def test_a_variable_of_the_user_is_kept_and_reaches_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"A": "1"}
    use_one_thread(environ)
    assert uses_one_thread(environ)
    assert as_the_user_set_it(environ) == {"A": "1"}
    theirs = {VARIABLE: "2"}
    use_one_thread(theirs)
    assert (theirs, uses_one_thread(theirs), as_the_user_set_it(theirs)) == ({VARIABLE: "2"}, False, theirs)
    monkeypatch.delenv(VARIABLE)
    use_one_thread(os.environ)
    assert VARIABLE not in same_code()
    monkeypatch.setenv(VARIABLE, "1")
    assert same_code()[VARIABLE] == "1"


def test_a_worker_of_a_sweep_starts_with_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules import numpy before any of its code runs: two threads that wait for each other took 2.4 times as long."""
    started: list[dict[str, str]] = []

    def start(command: list[str], *, env: dict[str, str], **more: object) -> None:
        started.append(env)
        raise FileNotFoundError(command[0])

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(FileNotFoundError):
        ChildProcess(cast(Lease, SimpleNamespace(descriptor=0, let_go=lambda: None)), tmp_path / "log")
    assert uses_one_thread(started[0])


def test_the_command_line_chooses_before_numpy_is_imported() -> None:
    code = (
        "import json, os, sys; from fmha_cli.cli import app\n"
        "app.run = lambda argv, environ: print(json.dumps([environ.get('OPENBLAS_NUM_THREADS'), 'numpy' in sys.modules]))\n"
        "app.main()"
    )
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    shown = subprocess.run([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(shown.stdout) == ["01", False]


@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(128, 64, 128), (97, 64, 128), (256, 128, 64), (3, 5, 7), (0, 4, 4)]
)
def test_a_product_in_parts_is_the_product(rows: int, inner: int, columns: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))
    if rows > 90:
        a[90, 1] = np.nan
    np.testing.assert_allclose(product(a, b.copy()), a @ b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(product(a, b.T.copy().T), a @ b, rtol=1e-12, atol=1e-12)


def test_small_products_have_the_parts_that_start_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    multiply = np.matmul

    def counted(a: F64, b: F64, out: F64) -> F64:
        parts.append(a.shape[0] * b.size)
        return multiply(a, b, out=out)

    monkeypatch.setattr(np, "matmul", counted)
    for rows, made in ((32, []), (128, [1 << 18] * 4), (100, [1 << 18] * 3 + [1 << 15]), (1024, [])):
        parts.clear()
        assert (product(np.ones((rows, 64)), np.ones((64, 128))) == 64).all()
        assert parts == made
