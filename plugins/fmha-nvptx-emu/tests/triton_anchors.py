"""Triton kernels of PyTorch, compiled by Triton for NVIDIA architectures and executed on numpy arrays.

Nobody here wrote them. Their text is read from the installed PyTorch (``torch/sparse/_triton_ops.py``), which defines them only where
it finds a GPU; so each function is cut out of the file and put into a module of its own. Nothing of it is kept.
"""

from __future__ import annotations

import ast
import importlib.util
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ptx_machine import Seen, launch

Array = npt.NDArray[Any]
Random = np.random.Generator
ARCHS = ("sm_80", "sm_89", "sm_90", "sm_120")
TYPES = {"float16": "*fp16", "float32": "*fp32", "int64": "*i64"}
NO_POINTER = np.uint64(0)
"""Triton passes two scratch pointers after the arguments; these kernels use none."""
ROUNDING = 2.0**-11


@dataclass(frozen=True)
class Case:
    """One launch of a kernel.

    Attributes:
        kernel: the function's name in PyTorch.
        arguments: by name, in the function's order; arrays become pointers, numbers i32.
        constants: what is compiled in.
        output: the name of the argument that the kernel writes.
        wanted: what numpy says of it, in float64.
        ragged: whether rows or groups differ in length, and some are empty.
    """

    kernel: str
    size: str
    arguments: Mapping[str, Array | int]
    constants: Mapping[str, Any]
    output: str
    wanted: Array
    grid: tuple[int, int, int]
    warps: int
    ragged: bool


def softmax(random: Random, ragged: bool) -> Case:
    """Softmax of each row's elements; a row's number of blocks is irregular, and one row has none."""
    blocks, tile, most = ([3, 0, 1, 5], 32, 128) if ragged else ([4, 4, 4, 4], 64, 64)
    rows, width = 4, 16
    offsets = np.concatenate(([0], np.cumsum(blocks))).astype(np.int64)
    values = random.normal(0, 3, (rows, int(offsets[-1]) * width)).astype(np.float16)
    wanted = values.astype(np.float64)
    for a, b in pairwise(offsets * width):
        if a < b:
            e = np.exp(wanted[:, a:b] - wanted[:, a:b].max(1, keepdims=True))
            wanted[:, a:b] = e / e.sum(1, keepdims=True)
    arguments = {
        "crow_indices_ptr": offsets, "crow_indices_batch_stride": len(offsets), "crow_indices_stride": 1, "values_ptr": values,
        "values_batch_stride": values.size, "values_row_block_stride": values.shape[1], "values_nnz_col_block_stride": 1,
        "row_block": rows, "col_block": width,
    }  # fmt: skip
    constants = {"MAX_ROW_NNZ": most, "TILE": tile}
    size = f"blocks {blocks}"
    return Case(
        "_bsr_softmax_kernel", size, arguments, constants, "values_ptr", wanted, (len(blocks), rows, 1), 4, ragged
    )


def matmul(random: Random, ragged: bool) -> Case:
    """Sums of products of listed pairs of matrices. The kernel asks for square results; a group may have no pair."""
    side, depth, tile, groups = (32, 16, 16, [2, 0, 1, 4]) if ragged else (64, 64, 32, [2, 2])
    a = random.normal(0, 1, (3, side, depth)).astype(np.float16)
    b = random.normal(0, 1, (3, depth, side)).astype(np.float16)
    pairs = random.integers(0, 3, (sum(groups), 2)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(groups))).astype(np.int64)
    products = a.astype(np.float64)[pairs[:, 0]] @ b.astype(np.float64)[pairs[:, 1]]
    wanted = np.stack([products[i:j].sum(0) for i, j in pairwise(offsets)])
    out = np.zeros((len(groups), side, side), np.float16)
    strides = {
        f"{name}_stride_{axis}": step // array.itemsize
        for name, array, axes in (("blocks", a, "PMK"), ("others", b, "QKN"), ("accumulators", out, "RMN"))
        for axis, step in zip(axes, array.strides, strict=True)
    }
    arguments = {
        "blocks_ptr": a, "others_ptr": b, "accumulators_ptr": out, "pq_offsets_ptr": offsets, "pq_offsets_stride": 1,
        "pq_ptr": pairs, "pq_stride_T": 2, "pq_stride_1": 1, **strides,
    }  # fmt: skip
    constants = {"M": side, "K": depth, "N": side, "TILE_M": tile, "TILE_N": tile, "allow_tf32": True}
    size = f"{side}x{side}x{depth}, groups {groups}"
    grid = (len(groups), (side // tile) ** 2, 1)
    return Case("_scatter_mm2_kernel", size, arguments, constants, "accumulators_ptr", wanted, grid, 2, ragged)


CASES: dict[str, Callable[[Random, bool], Case]] = {"softmax": softmax, "matmul": matmul}


@cache
def _function(name: str) -> Any:
    """The jitted function of this name. Triton reads its text from a file, which lives as long as the process."""
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    text = Path(found.origin).with_name("sparse").joinpath("_triton_ops.py").read_text("utf-8")
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == name]
    assert len(nodes) == 1, f"PyTorch has no kernel {name}"
    first = min(node.lineno for node in (nodes[0], *nodes[0].decorator_list))
    body = textwrap.dedent("\n".join(text.splitlines()[first - 1 : nodes[0].end_lineno]))
    folder = tempfile.TemporaryDirectory(prefix="fmha-anchor-")
    path = Path(folder.name, f"anchor{name}.py")
    path.write_text(f"import triton\nimport triton.language as tl\n\n\n{body}\n", "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    function.anchor_folder = folder  # removed with the function
    return function


def compiled(arch: str, case: Case) -> Any:
    """What Triton makes of a case. No GPU is needed: ptxas comes with Triton's package."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget

    function = _function(case.kernel)
    types = {n: TYPES[str(a.dtype)] if isinstance(a, np.ndarray) else "i32" for n, a in case.arguments.items()}
    names = function.arg_names
    constants = {**case.constants, **({"dot_out_dtype": tl.float32} if "dot_out_dtype" in names else {})}
    assert {*types, *constants} == {*names}
    aligned = {(names.index(n),): [["tt.divisibility", 16]] for n, kind in types.items() if kind.startswith("*")}
    source = triton.compiler.ASTSource(
        function, {n: types.get(n, "constexpr") for n in names}, {(names.index(n),): v for n, v in constants.items()}, aligned
    )  # fmt: skip
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    return triton.compile(source, target=target, options={"num_warps": case.warps, "num_stages": 2})


def execute(arch: str, case: Case, seed: int, change: tuple[str, str] | None = None) -> tuple[Seen, float]:
    """What a launch left, and the largest error of a row divided by the norm of that row; rows of zeros count absolutely.

    Args:
        change: text of the PTX and what takes its place: a planted fault.
    """
    kernel = compiled(arch, case)
    text: str = kernel.asm["ptx"]
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    names = [n for n in _function(case.kernel).arg_names if n in case.arguments]
    given = {n: a.copy() if isinstance(a, np.ndarray) else np.int32(a) for n, a in case.arguments.items()}
    seen = launch(
        text, *(given[n] for n in names), NO_POINTER, NO_POINTER, grid=case.grid, block=(32 * case.warps, 1, 1),
        shared=int(kernel.metadata.shared), kernel=kernel.metadata.name, seed=seed,
    )  # fmt: skip
    got = np.asarray(given[case.output], np.float64)
    norms = np.linalg.norm(case.wanted, axis=-1)
    errors = np.linalg.norm(got - case.wanted, axis=-1) / np.where(norms, norms, 1)
    return seen, float(errors.max())
