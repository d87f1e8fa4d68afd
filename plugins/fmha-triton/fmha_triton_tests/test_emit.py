"""The emitted text: pure, complete, and the only thing that decides a build. Triton is imported by the compiling child alone."""

from __future__ import annotations

import ast
import json
from importlib import resources

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton.algorithm import archs, data
from fmha_triton.catalogue import BLACKWELL, HOPPER, KERNELS, function_of, kernels_of
from fmha_triton.emit import MARK, arguments, constants, divisible, emit, parameters

from fmha_cli import api, plugin


def one_of_each(arch: str) -> list[api.KernelSpec]:
    return list({function_of(kernel): kernel for kernel in kernels_of(arch)}.values())


@pytest.mark.parametrize("kernel", [*one_of_each("sm_90a"), one_of_each("sm_100a")[0]], ids=function_of)
def test_the_text_is_python_and_says_how_it_is_built(kernel: api.KernelSpec) -> None:
    text = emit(kernel)
    assert emit(kernel) == text
    functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    build = json.loads(text.rstrip().rsplit("\n", 1)[-1].removeprefix(MARK))
    assert build["function"] in functions
    assert "from fmha_triton" not in text
    named = {name for name, _ in parameters(build["function"])}
    assert {name for name, _ in build["arguments"]} | set(build["constants"]) == named
    assert not {name for name, _ in build["arguments"]} & set(build["constants"])
    assert set(build["divisible"]) <= {name for name, _ in build["arguments"]}


def test_every_choice_of_a_kernel_reaches_the_text() -> None:
    """Two kernels with one text and one target would differ in their names alone."""
    for arch in ("sm_90a", "gfx942"):
        seen: dict[str, api.KernelSpec] = {}
        for kernel in kernels_of(arch):
            if kernel.signature.cache is plugin.CacheKey.LINEAR:
                continue  # the same code as without a cache: where keys start is an argument
            other = seen.setdefault(emit(kernel), kernel)
            alike = (other.signature.qscale, kernel.signature.qscale) == (
                plugin.QScaleKey.TENSOR,
                plugin.QScaleKey.HEAD,
            )
            assert other is kernel or alike, f"{kernel.name}\n{other.name}"


def test_constants_and_promises_follow_the_kernel() -> None:
    narrow = next(k for k in kernels_of("gfx942") if k.signature.dtype.is_fp8)
    assert divisible(narrow)["q_row"] == 16
    assert {a.name: a.type for a in arguments(narrow)}["Q"] == "*fp8e4b8"
    plain = next(k for k in kernels_of("gfx942") if k.signature.bias is plugin.BiasKey.ALIBI)
    assert divisible(plain)["q_row"] == 8
    assert constants(plain)["BIAS"] == 2


@pytest.mark.promise("A compiler of Triton that aborts costs one build.")
def test_triton_is_imported_by_the_compiling_child_alone() -> None:
    importers = set()
    for path in resources.files("fmha_triton").iterdir():
        if not path.name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            importers |= {path.name for name in names if name.split(".")[0] == "triton"}
    assert importers == {"compiling.py"}


def test_the_data_has_configurations_of_every_function_and_names_its_source() -> None:
    assert set(data()["kernels"]) == {*KERNELS.values(), HOPPER, BLACKWELL}
    assert set(archs()) == set(data()["archs"])
    assert data()["source"]
