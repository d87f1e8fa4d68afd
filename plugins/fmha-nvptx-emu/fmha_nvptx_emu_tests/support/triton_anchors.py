"""Triton kernels that nobody here wrote, compiled by Triton for NVIDIA architectures and executed on numpy arrays.

Their text is read from the file that has them. Such files define them only where they find a GPU; so the functions are cut out of the file
and put into a module of their own. Nothing of it is kept.
"""

from __future__ import annotations

import ast
import importlib.util
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_nvptx_emu_tests.support.ptx_machine import Seen, launch
from fmha_nvptx_emu_tests.test_tensor_copy import encode

Array = npt.NDArray[Any]
Random = np.random.Generator
ARCHS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
PARAMETERS = {"sm_90": 0x210, "sm_100": 0x380, "sm_103": 0x380, "sm_120": 0x380}
"""Where parameters begin in the constant bank: the alignment of tensor maps counts from there."""
WITH_MAPS = ("sm_90", "sm_100", "sm_103", "sm_120")
"""Where a descriptor is a tensor map, and its copies are TMA's."""
TYPES = {"float16": "fp16", "float32": "fp32", "int32": "i32", "int64": "i64"}
NO_POINTER = np.uint64(0)
"""Triton passes two scratch pointers after the arguments; these kernels use none."""
ROUNDING = 2.0**-11
MARKS = {
    "mma": "mma.sync", "wgmma": "wgmma.mma_async", "tcgen05": "tcgen05.mma", "cp.async": "cp.async.c", "TMA": "cp.async.bulk.tensor", "mbarrier": "mbarrier.init",
    "setmaxnreg": "setmaxnreg", "atomic": "atom.",
}  # fmt: skip
"""Classes of instructions, and text that shows each."""


@dataclass(frozen=True)
class TritonLaunch:
    """One launch of a kernel.

    Attributes:
        files: that have the kernel and what it calls.
        kernel: the function's name.
        arguments: by name; arrays become pointers, numbers what their type says, int i32.
        constants: what is compiled in.
        wanted: what numpy says of the arrays that the kernel writes, in float64.
        ragged: whether sizes fill no tile, or rows or groups differ in length and some are empty.
        budget: the largest error of a row divided by its norm.
        blocks: shapes of the blocks of arguments that are descriptors on ``WITH_MAPS``, and pointers elsewhere.
        archs: where it runs.
    """

    files: Path | tuple[Path, ...]
    kernel: str
    size: str
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    wanted: Mapping[str, Array]
    grid: tuple[int, int, int]
    ragged: bool
    warps: int = 4
    stages: int = 2
    budget: float = ROUNDING
    blocks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    archs: tuple[str, ...] = ARCHS


Maker = Callable[[Random, bool, str], TritonLaunch]
"""A case from random numbers, whether it is ragged (or of a second size), and the architecture."""


def jitted(text: str) -> str:
    """A module with the functions of a text that ``triton.jit`` decorates, without other decorators."""
    lines = text.splitlines()
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(d) for d in node.decorator_list)
    ]
    bodies = [textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])) for node in found]
    return "\n\n\n".join(("import triton\nimport triton.language as tl", *(f"@triton.jit\n{b}" for b in bodies), ""))


@cache
def _module(files: Path | tuple[Path, ...]) -> ModuleType:
    """The files' kernels. Triton reads their text from a file, which lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="fmha-anchor-")
    path = Path(folder.name, "anchor.py")
    texts = [one.read_text("utf-8") for one in ((files,) if isinstance(files, Path) else files)]
    path.write_text("\n\n".join(jitted(text) for text in texts), "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.folder = folder  # type: ignore[attr-defined]  # removed with the module
    return module


def _type(case: TritonLaunch, name: str, arch: str) -> str:
    """The type of an argument, as Triton writes it."""
    value = case.arguments[name]
    if not isinstance(value, np.ndarray):
        return TYPES[value.dtype.name] if isinstance(value, np.generic) else "i32"
    element = TYPES[value.dtype.name]
    if name in case.blocks and arch in WITH_MAPS:
        return f"tensordesc<{element}[{', '.join(map(str, case.blocks[name]))}]>"
    return f"*{element}"


def compiled(arch: str, case: TritonLaunch) -> Any:
    """What Triton makes of a case. No GPU is needed: ptxas comes with Triton's package.

    As Triton's launcher does it, an integer of 1 is compiled in, and multiples of 16 are known as such.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    function = getattr(_module(case.files), case.kernel)
    names = function.arg_names
    ones = {n: 1 for n, v in case.arguments.items() if isinstance(v, int) and v == 1}
    constants = {**case.constants, **ones}
    types = {n: _type(case, n, arch) for n in case.arguments if n not in ones}
    assert {*types, *constants} == {*names}
    aligned = {
        (names.index(n),): [["tt.divisibility", 16]]
        for n, kind in types.items()
        if kind.startswith("*") or (kind == "i32" and case.arguments[n] % 16 == 0)
    }
    source = triton.compiler.ASTSource(
        function, {n: types.get(n, "constexpr") for n in names}, {(names.index(n),): v for n, v in constants.items()}, aligned
    )  # fmt: skip
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    return triton.compile(source, target=target, options={"num_warps": case.warps, "num_stages": case.stages})


def _descriptor(array: Array, meta: Mapping[str, Any]) -> list[Any]:
    """A descriptor's arguments: the tensor map, the sizes and the strides."""
    answer, map_ = encode(array, tuple(meta["block_size"]), int(meta["swizzle"]))
    assert answer == 0
    strides = [np.int64(step // array.itemsize) for step in array.strides]
    return [np.void(map_.tobytes()), *(np.int32(size) for size in array.shape), *strides]


@dataclass(frozen=True)
class Ran:
    """What a launch left.

    Attributes:
        error: the largest of a row, divided by the norm of that row; rows of zeros count absolutely.
        ptx: what was executed.
    """

    seen: Seen
    error: float
    ptx: str

    @property
    def marks(self) -> list[str]:
        """What the PTX has of MARKS."""
        return [mark for mark, text in MARKS.items() if text in self.ptx]


def execute(arch: str, case: TritonLaunch, seed: int, change: tuple[str, str] | None = None) -> Ran:
    """Compile, launch and compare a case.

    Args:
        change: text of the PTX and what takes its place: a planted fault.
    """
    kernel = compiled(arch, case)
    text: str = kernel.asm["ptx"]
    if change is not None:
        assert change[0] in text
        text = text.replace(*change)
    ones = {n for n, v in case.arguments.items() if isinstance(v, int) and v == 1}
    names = [n for n in getattr(_module(case.files), case.kernel).arg_names if n in case.arguments and n not in ones]
    given = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in case.arguments.items()}
    metas = iter(getattr(kernel.metadata, "tensordesc_meta", None) or ())
    passed: list[Any] = []
    behind_maps = []
    for name in names:
        value = given[name]
        if name in case.blocks and arch in WITH_MAPS:
            passed += _descriptor(value, next(metas))
            behind_maps.append(value)
        else:
            passed.append(np.int32(value) if isinstance(value, int) else value)
    seen = launch(
        text, *passed, NO_POINTER, NO_POINTER, *behind_maps, grid=case.grid, block=(32 * warps_of(kernel, case), 1, 1),
        shared=int(kernel.metadata.shared), kernel=kernel.metadata.name, seed=seed, base=PARAMETERS.get(arch, 0),
    )  # fmt: skip
    errors = [worst(np.asarray(given[name], np.float64), wanted) for name, wanted in case.wanted.items()]
    return Ran(seen, max(errors), text)


def warps_of(kernel: Any, case: TritonLaunch) -> int:
    """Warps of a block: a warp-specialised kernel has more than were asked for."""
    return max(case.warps, int(getattr(kernel.metadata, "num_warps", 0)))


def worst(got: Array, wanted: Array) -> float:
    """The largest error of a row (the last axis) divided by its norm."""
    norms = np.linalg.norm(wanted, axis=-1)
    errors = np.linalg.norm(got - wanted, axis=-1) / np.where(norms, norms, 1)
    return float(np.max(np.where(np.isnan(errors), np.inf, errors)))
