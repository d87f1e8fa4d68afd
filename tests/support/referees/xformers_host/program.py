"""Builds the program that runs upstream's host code: g++ compiles the fetched sources as plain C++."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sources.store import fetch_source
from tests.support.referees import upstream_host
from tests.support.referees.upstream_host.building import SHARED, key_of, linked
from tests.support.run_cache import once

HERE = Path(__file__).parent
STANDINS = Path(upstream_host.__file__).parent
"""The stand-ins for PyTorch's tensors and CUDA's headers, shared with FlashAttention's."""
FMHA = "xformers/csrc/attention/cuda/fmha"
CUTLASS = "third_party/cutlass/include"
IN_WHEEL = "ATen/native/transformers/cuda/mem_eff_attention"
OPTIONS = ("-O0", "-std=c++20", "-fpermissive")
"""GCC refuses some names of upstream's that change their meaning within a class."""
FORWARDED = (
    "ATen/Context.h",
    "ATen/ScalarOps.h",
    "ATen/Tensor.h",
    "ATen/TensorOperators.h",
    "ATen/core/Generator.h",
    "ATen/core/TensorBody.h",
    "ATen/cuda/CUDAContext.h",
    "ATen/cuda/CUDAGraphsUtils.cuh",
    "ATen/cuda/PhiloxUtils.cuh",
    "c10/core/ScalarType.h",
    "c10/cuda/CUDAGuard.h",
    "c10/util/Exception.h",
    "c10/util/Optional.h",
    "torch/library.h",
)
"""PyTorch's headers, all of them ``torch_host.h`` here."""

LAUNCH = re.compile(r"kernel_fn<<<(.*?)>>>\(p\);", re.DOTALL)
DECLARATION = re.compile(r"(__global__ void __launch_bounds__\([^;]*?Params p\));", re.DOTALL)


def host_program(cache_root: Path, wheel: Path | None = None) -> Path:
    """The program, built once per cache; skips the test, with the reason, if it cannot be built.

    Args:
        wheel: the ``include`` folder of an installed PyTorch, whose kernel types take the place of those of xformers.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ is here: upstream's host code cannot be compiled")
    try:
        tree = fetch_source("xformers", cache_root, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's sources are not here: {fault}")
    if wheel is not None and not (wheel / IN_WHEEL).is_dir():
        pytest.skip("this PyTorch has no headers of the memory-efficient kernels")
    return _built(tree, cache_root, compiler, wheel)


@cache
def _built(tree: Path, cache_root: Path, compiler: str, wheel: Path | None) -> Path:
    key = key_of(compiler, tree, [HERE, STANDINS])
    return once(
        cache_root, "xformers" if wheel is None else "torch", key, lambda work: _build(tree, work, compiler, wheel)
    )


def _build(tree: Path, work: Path, compiler: str, wheel: Path | None) -> Path:
    shims, fmha = work / "shims", tree / FMHA
    for name in FORWARDED:
        _write(shims / name, '#include "torch_host.h"\n')
    if wheel is not None:
        (shims / IN_WHEEL).parent.mkdir(parents=True)
        (shims / IN_WHEEL).symlink_to(wheel / IN_WHEEL)
    folders = (HERE / "include", shims, HERE, STANDINS / "include", fmha, tree / CUTLASS)
    common = (*OPTIONS, "-DHAS_PYTORCH", "-include", "device.h", *(f"-I{folder}" for folder in folders))
    for letter, way in (("F", "forward"), ("B", "backward")):
        dispatch = fmha / f"autogen/cutlass{letter}.h"
        if wheel is not None:
            dispatch = wheel / IN_WHEEL / f"kernels/cutlass{letter}.h"
            _write(shims / f"autogen/cutlass{letter}.h", f"#include <{IN_WHEEL}/kernels/cutlass{letter}.h>\n")
        caller, _, rest = (fmha / f"attention_{way}_generic.cu").read_text().partition("bool has_cutlass")
        caller, count = LAUNCH.subn(r"host::launch(kernel_fn, \1, p);", caller)
        assert rest, "upstream's functions are others than was known"
        assert count == 1, "upstream launches in another way than was known"
        bodies = "".join(f"{text} {{}}\n" for text in DECLARATION.findall(dispatch.read_text()))
        _write(shims / f"attention_{way}_generic.cpp", f"{caller}}}\n{bodies}")
    if wheel is not None:
        for name in ("kernel_forward.h", "kernel_backward.h", "gemm_kernel_utils.h", "pytorch_utils.h"):
            _write(shims / name, f"#include <{IN_WHEEL}/{name}>\n")
    own = [*(HERE / f"{name}.cpp" for name in ("backward", "forward", "main")), *(STANDINS / name for name in SHARED)]
    return linked(compiler, [(source, common) for source in own], work)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
