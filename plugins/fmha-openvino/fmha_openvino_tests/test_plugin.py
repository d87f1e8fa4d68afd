"""The plugin by itself: conformance, its sources, a machine without the library, and rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin
from fmha_openvino_tests.support.ov_processor import HALVES

library = pytest.importorskip("fmha_openvino", reason="pip install -e plugins/fmha-openvino")
BACKEND = library.BACKEND
LIMIT = 300

needs_library = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="openvino is not installed")


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_openvino", cache_root=shared_cache)


@pytest.mark.promise(
    "README: PyTorch, ONNX Runtime, OpenVINO",
    "PyTorch, ONNX Runtime and OpenVINO run as backends, by rules that the libraries confirm.",
)
@needs_library
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], subject: conformance.Subject) -> None:
    check(subject)


def test_it_stays_short_imports_the_api_alone_and_explains_its_codes() -> None:
    conformance.check_sources(Path(library.__file__).parent, LIMIT)
    conformance.check_codes(BACKEND, Path(library.__file__).parent)


def test_the_parent_does_not_import_the_library(subject: conformance.Subject) -> None:
    conformance.check_parent(subject, "openvino")


def test_without_the_library_it_says_what_to_install() -> None:
    found = conformance.probed(BACKEND)
    assert (found.state, found.devices, found.help) == (plugin.State.MISSING, (), "pip install openvino")


@pytest.mark.promise("A kernel that should not be chosen runs if it is named.")
@needs_library
def test_f16_is_refused_as_fp16_and_wrong_if_it_is_named(shared_cache: Path) -> None:
    problem, root = api.Problem.from_cli("-H 2 -s 64 -d 64 --dtype fp16"), str(shared_cache)
    kernel = next(k for k in BACKEND.listed("generic") if k.algorithm.precision == "f16")
    refusal = next(d for d in BACKEND.decide(problem, BACKEND.probe().devices[0]) if d.kernel == kernel)
    assert [(r.id, r.text) for r in refusal.reasons] == [
        ("K950", '"f16" rounds scores and weights, to bf16 without AVX512_FP16; without AVX-512 it has no effect')
    ]
    (chosen,) = api.run(problem, backend="openvino", cache_root=root)
    assert (chosen.verdict, chosen.kernel.algorithm["precision"]) == (api.Verdict.PASSED, "f32")
    (named,) = api.run(problem, backend="openvino", kernel=kernel.name, cache_root=root)
    assert named.verdict is (api.Verdict.WRONG if HALVES else api.Verdict.PASSED)
    assert [r.id for r in named.reasons] == ["K950"]


@needs_library
@pytest.mark.parametrize("layout", ["bshd", "bhsd", "bhsd:bshd"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_library_works_on_the_arena_itself(layout: str, dtype: str, shared_cache: Path) -> None:
    problem = api.Problem.from_cli(f"-H 4 --kv-heads 2 -s 5 -d 8 --dtype {dtype} --causal --layout {layout}")
    (record,) = api.run(problem, backend="openvino", cache_root=str(shared_cache))
    assert record.verdict is api.Verdict.PASSED
    assert not any("copies" in note for note in record.notes)
