"""Compiler flags for a CPU kernel."""

from __future__ import annotations

from fmha_cli.arch import ArchSpec
from fmha_cli.build.toolchain import ToolchainKind

_COMMON = (
    "-std=c++17",
    "-O3",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-pthread",
    "-w",
)
"""No -ffast-math: infinities and NaN have meaning here. -w: GCC 12 warns inside its own intrinsic headers."""


def compile_flags(arch: ArchSpec, kind: ToolchainKind) -> tuple[str, ...]:
    """All flags, in order, for one compiler family."""
    return (*_COMMON, *arch.backends["cpu"]["compile"][kind.value])
