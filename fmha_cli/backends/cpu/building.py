"""Build one CPU kernel through the cache."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.cpp.library import build_cpp, cpp_key
from fmha_cli.toolchain.cpp.toolchain import Toolchain, ToolchainKind
from fmha_cli.toolchain.kernels import kernel_build

_LIBRARY = ("-std=c++17", "-O3", "-shared", "-fPIC", "-fvisibility=hidden")
_COMMON = (*_LIBRARY, "-fno-math-errno", "-fno-trapping-math", "-fno-tree-vectorize", "-pthread", "-w")
"""No -ffast-math: infinities and NaN have meaning in these kernels. -w: GCC 12 warns inside its own intrinsic headers."""

_GCC = ("-fno-aggressive-loop-optimizations", "-fno-gcse-after-reload")
_GCC_FORWARD = ("-fno-tree-bit-ccp",)
"""Passes of GCC that take 1 to 5 % of a compile each, and whose absence a launch does not notice (results/cpu_compile.md).
Backward needs known bits: without them its vectors on the stack are not aligned, which costs 3 to 4 % of a launch."""


def compile_flags(arch: ArchSpec, kind: ToolchainKind) -> tuple[str, ...]:
    """The flags, in order, that one compiler family takes for an architecture, whatever the text."""
    own = _GCC if kind is ToolchainKind.GCC else ()
    return (*_COMMON, *own, *arch.backends["cpu"]["compile"][kind.value])


def kernel_flags(kernel: KernelSpec, kind: ToolchainKind) -> tuple[str, ...]:
    """All flags, in order, that one compiler family takes for a kernel."""
    forward = kind is ToolchainKind.GCC and algorithm_of(kernel).kind is not LoopKind.BACKWARD
    return (*compile_flags(load_arch(kernel.arch), kind), *(_GCC_FORWARD if forward else ()))


def machine_of(arch: ArchSpec) -> str:
    """The instruction set of the machines that run an architecture's kernels, as ``toolchain_for`` takes it."""
    return str(arch.fact("machine"))


def build_cpu(stage: Stage, context: BuildContext) -> Artifact:
    """The library of a kernel, from the cache or compiled now. Raises as ``build_cpp``."""
    kernel = stage.kernel
    return build_cpp(
        kernel_build(kernel, emit(kernel)), context, _flags(kernel), machine=machine_of(load_arch(kernel.arch))
    )


def cpu_key(stage: Stage, context: BuildContext) -> BuildKey:
    """The key under which :func:`build_cpu` keeps the kernel. Raises as ``cpp_key``."""
    kernel = stage.kernel
    return cpp_key(kernel_build(kernel, emit(kernel)), context, _flags(kernel), machine_of(load_arch(kernel.arch)))


def _flags(kernel: KernelSpec) -> Callable[[Toolchain], tuple[str, ...]]:
    return lambda toolchain: kernel_flags(kernel, toolchain.kind)
