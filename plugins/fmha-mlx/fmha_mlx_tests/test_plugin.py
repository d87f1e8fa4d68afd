"""The plugin by itself: conformance, its sources, a machine without the library, and rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

library = pytest.importorskip("fmha_mlx", reason="pip install -e plugins/fmha-mlx")
BACKEND = library.BACKEND
LIMIT = 200

needs_library = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="mlx-cpu is not installed")


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_mlx", cache_root=shared_cache)


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
    conformance.check_parent(subject, "mlx", "numpy")


def test_without_the_library_it_says_what_to_install() -> None:
    found = conformance.probed(BACKEND)
    assert (found.state, found.devices, found.help) == (plugin.State.MISSING, (), "pip install mlx mlx-cpu")


@needs_library
def test_it_tells_the_copies_of_all_arrays(shared_cache: Path) -> None:
    problem = api.Problem.from_cli(
        "-H 4 --kv-heads 2 -s 33 -d 8 --dtype bf16 --causal --sink-logits filled --layout bshd"
    )
    (record,) = api.run(problem, backend="mlx", cache_root=str(shared_cache))
    assert record.verdict is api.Verdict.PASSED
    copied = 33 * 8 * (4 + 2 + 2 + 4) * 2 + 4 * 4
    assert any(f"one thread; {copied:,} bytes are copied" in note for note in record.notes), record.notes
