"""Builds: the child that compiles as a compiler of the cache, and the figures of its output."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import sys
from importlib import resources
from typing import Any

from fmha_cli import api, plugin
from fmha_triton.algorithm import target_of
from fmha_triton.catalogue import BLACKWELL, function_of
from fmha_triton.emit import emit
from fmha_triton.image import read_image
from fmha_triton.tensor_figures import tensor_memory_figures

INSTALL_HELP = "pip install triton"


def triton_version() -> str | None:
    """Triton's version without importing it; None if it is not installed."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return None


def compiler() -> plugin.Compiler:
    """The child, as the cache sees a compiler.

    Raises:
        EnvironmentProblem: K972, Triton is not installed.
    """
    version = triton_version()
    if version is None:
        raise api.EnvironmentProblem("Triton is not installed", code="K972", where="triton", help=INSTALL_HELP)
    program = resources.files("fmha_triton").joinpath("compiling.py").read_bytes()
    argv0 = (sys.executable, "-m", "fmha_triton.compiling")
    return plugin.Compiler(argv0=argv0, version=f"triton {version}", headers_digest=hashlib.sha256(program).hexdigest())


def prepare(context: plugin.BuildContext) -> plugin.Compiler:
    """The compiler, so that all builds of a run fail at once without it."""
    return compiler()


def compile_bytes(kernel: api.KernelSpec) -> int:
    """Peak memory of one compile: 0.5 GB was seen for the largest kernels, with Triton itself."""
    return 1 << 30


def build(stage: plugin.Stage, context: plugin.BuildContext) -> plugin.Artifact:
    """The artifact of a stage's kernel (``image``)."""
    return plugin.build_by_program(_spec(stage), compiler(), context)


def cache_key(stage: plugin.Stage, context: plugin.BuildContext) -> object:
    """The cache key of a stage's kernel."""
    return plugin.program_key(_spec(stage), compiler())


def _spec(stage: plugin.Stage) -> Any:
    return plugin.kernel_build(stage.kernel, emit(stage.kernel))


def inspect(kernel: api.KernelSpec, artifact: plugin.Artifact) -> dict[str, object]:
    """Registers, spills, memory, occupancy and instructions, read from the binary."""
    image = read_image(artifact.path)
    if target_of(kernel.arch).kind == "hip":
        found = plugin.code_object_figures(image.binary, kernel.arch, image.shared_bytes)
    else:
        found = plugin.cubin_figures(image.binary, kernel.arch, image.threads, image.shared_bytes)
    ptx = artifact.path.with_name("kernel.ptx")
    if function_of(kernel) == BLACKWELL and ptx.exists():  # an imported artifact may come without
        found |= tensor_memory_figures(kernel, ptx.read_text("utf-8"), found)
    return {**found, "compiler": f"triton {triton_version()}", "symbol": image.symbol}
