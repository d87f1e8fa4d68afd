"""The plugin by itself: conformance, its sources, a machine without the library, and rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

library = pytest.importorskip("fmha_onnxruntime", reason="pip install -e plugins/fmha-onnxruntime")
BACKEND = library.BACKEND
LIMIT = 340

needs_library = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="onnxruntime is not installed")


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_onnxruntime", cache_root=shared_cache)


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
    conformance.check_parent(subject, "onnxruntime")


def test_without_the_library_it_says_what_to_install() -> None:
    found = conformance.probed(BACKEND)
    assert (found.state, found.devices, found.help) == (plugin.State.MISSING, (), "pip install onnxruntime")


@needs_library
@pytest.mark.parametrize(("line", "copied"), [("--layout bshd", 0), ("--layout bhsd", 4 * 5 * 8 * 4 * 2)])
def test_copies_are_counted_and_told(line: str, copied: int, shared_cache: Path) -> None:
    problem = api.Problem.from_cli(f"-H 2 -s 5 -d 8 --dtype fp32 --causal {line}")
    (record,) = api.run(problem, backend="onnxruntime", cache_root=str(shared_cache))
    assert record.verdict is api.Verdict.PASSED
    assert any(f"copies {copied:,} bytes" in note for note in record.notes) is bool(copied)


@needs_library
def test_a_decode_step_appends_to_the_cache_in_place(shared_cache: Path) -> None:
    line = "-b 2 -H 4 --kv-heads 2 -s 1 -d 16 --dtype fp32 --causal --kv-cache linear --cache-seqlens 9,4 --append 1 --rotary 16"
    (record,) = api.run(api.Problem.from_cli(line), backend="onnxruntime", cache_root=str(shared_cache))
    assert record.verdict is api.Verdict.PASSED
    assert not any("copies" in note for note in record.notes)


@needs_library
def test_the_models_are_those_that_the_package_onnx_reads() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
    np = pytest.importorskip("numpy")
    model = pytest.importorskip("fmha_onnxruntime.model")
    feeds = {"q": np.zeros((1, 300, 8), np.float16), "last": np.zeros(2, np.int32)}
    text = model.one_node("Op", 0, ["q", "", "last", "bias"], feeds, ["y", "z"], {"a": 300, "b": 0.5})
    read = onnx.load_from_string(text)
    (node,) = read.graph.node
    assert (node.op_type, node.domain, list(node.input), list(node.output)) == (
        "Op",
        "com.microsoft",
        ["q", "", "last"],
        ["y", "z"],
    )
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {"a": 300, "b": 0.5}
    assert [d.dim_value for d in read.graph.input[0].type.tensor_type.shape.dim] == [1, 300, 8]
    assert {o.domain: o.version for o in read.opset_import} == {"": 21, "com.microsoft": 1}
