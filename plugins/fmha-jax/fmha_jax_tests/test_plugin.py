"""The plugin by itself: conformance, its sources, a machine without the library, and rows of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

library = pytest.importorskip("fmha_jax", reason="pip install -e plugins/fmha-jax")
BACKEND = library.BACKEND
LIMIT = 300

needs_library = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="jax is not installed")


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_jax", cache_root=shared_cache)


@pytest.mark.promise(
    "README: JAX, llama.cpp, MLX", "JAX, llama.cpp and MLX run as backends, by rules that the libraries confirm."
)
@needs_library
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], subject: conformance.Subject) -> None:
    check(subject)


def test_it_stays_short_imports_the_api_alone_and_explains_its_codes() -> None:
    conformance.check_sources(Path(library.__file__).parent, LIMIT)
    conformance.check_codes(BACKEND, Path(library.__file__).parent)


def test_the_parent_does_not_import_the_library(subject: conformance.Subject) -> None:
    conformance.check_parent(subject, "jax", "numpy")


def test_without_the_library_it_says_what_to_install() -> None:
    found = conformance.probed(BACKEND)
    assert (found.state, found.devices, found.help) == (plugin.State.MISSING, (), "pip install jax")


@needs_library
@pytest.mark.parametrize(
    ("line", "masking", "products"),
    [
        ("--causal", "is_causal", 2),
        ("--mask window:3,0", "local_window_size", 2),
        ("--causal --seqlen-k 40", "mask", 2),
        ("--causal --direction bwd", "is_causal", 4),
    ],
)
def test_it_tells_what_xla_made_of_each_argument(line: str, masking: str, products: int, shared_cache: Path) -> None:
    problem = api.Problem.from_cli(f"-H 2 -s 33 -d 8 --dtype fp32 {line}")
    (record,) = api.run(problem, backend="jax", cache_root=str(shared_cache))
    assert record.kernel is not None
    assert (record.verdict, record.kernel.algorithm["masking"]) == (api.Verdict.PASSED, masking)
    assert any(f"{products} dot" in note and "copied within the time" in note for note in record.notes), record.notes


@needs_library
@pytest.mark.parametrize("line", ["", "--direction bwd"])
def test_both_layouts_are_taken_without_a_copy_of_the_inputs(line: str, shared_cache: Path) -> None:
    own = 3 if line else 1
    for layout in ("bhsd", "bshd"):
        problem = api.Problem.from_cli(f"-H 2 -s 32 -d 16 --dtype fp32 --layout {layout} {line}")
        (record,) = api.run(problem, backend="jax", cache_root=str(shared_cache))
        assert any(f"{own * 2 * 32 * 16 * 4:,} bytes are copied" in note for note in record.notes), record.notes


THREADS = """
import os
from fmha_jax.session import limit_threads
import jax
for count in (1, 3):
    limit_threads(count)
    jax.numpy.ones(8).block_until_ready()
    names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
    print(sum(name.startswith("tf_XLAEigen") for name in names))
"""


@needs_library
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the threads' names are read from /proc")
def test_the_number_of_threads_is_obeyed_and_can_change() -> None:
    variables = {name: value for name, value in os.environ.items() if name != "NPROC"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=variables, capture_output=True, text=True, check=True)
    one, more = map(int, done.stdout.split())
    assert (one, more) in ((1, 3), (1, 4)), "the thread of the first client may still wait"
