"""Compiler flags of a CK-Tile kernel, each with its source.

"Example" is ``example/ck_tile/01_fmha/CMakeLists.txt`` of the baseline Composable Kernel; "CMake" is the
``CMakeLists.txt`` at its root. Upstream also adds ``-mllvm -amdgpu-function-calls=false``, which is left out. Together
with ``-amdgpu-early-inline-all=true`` it makes LLVM 22.1.8 run forever, and once everything is inlined no call remains
that it could forbid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """One flag: its words on the command line, and its source."""

    words: tuple[str, ...]
    source: str

    @property
    def text(self) -> str:
        """The words as one string: the flag's name in ``RocmToolchain.options``."""
        return " ".join(self.words)


PROBED = (
    Flag(("-fno-offload-uniform-block",), "CMake, HAS_NO_OFFLOAD_UNIFORM_BLOCK"),
    Flag(("-mllvm", "--lsr-drop-solution=1"), "CMake, HAS_LSR_DROP_SOLUTION"),
    Flag(("-mllvm", "-enable-post-misched=0"), "CMake, HAS_ENABLE_POST_MISCHED"),
    Flag(("-mllvm", "-amdgpu-coerce-illegal-types=1"), "CMake, check-coerce"),
    Flag(("-mllvm", "-amdgpu-early-inline-all=true"), "CMake, hip_VERSION_FLAT above 600241132"),
    Flag(("-mllvm", "--amdgpu-kernarg-preload-count=16"), "aiter, jit/core.py: hip_flags"),
    Flag(("--no-offload-compress",), "the code object is read from the library, which a compressed one makes slow"),
)
"""Flags that fail the compile on compilers that do not know them. Each compiler is tried once."""

_COMMON = (
    Flag(("-std=c++20",), "CMake, CMAKE_CXX_STANDARD 20"),
    Flag(("-O3",), "CMake, the release build type"),
    Flag(("-DNDEBUG",), "CMake, the release build type; without it kernels carry device asserts"),
    Flag(("-D__HIP_PLATFORM_AMD__=1",), "CMake, target of amdhip64"),
    Flag(("-DUSE_PROF_API=0",), "HIP, hip_runtime_prof.h: no tracing"),
    Flag(("-fno-math-errno",), "aiter, jit/core.py"),
    Flag(
        ("-fgpu-flush-denormals-to-zero",),
        "Example, FMHA_FWD_PRIVATE_COMPILE_OPTIONS and FMHA_BWD_PRIVATE_COMPILE_OPTIONS",
    ),
    Flag(("-w",), "warnings are upstream's affair"),
)

_FORWARD = (
    Flag(
        ("-DCK_TILE_FMHA_FWD_FAST_EXP2=1",),
        "Example, FMHA_FWD_FAST_EXP2: on for every target; kernels with a soft cap do not compile without it",
    ),
)

_BACKWARD = (
    Flag(("-DCK_TILE_FLOAT_TO_BFLOAT16_DEFAULT=3",), "Example, FMHA_BWD_PRIVATE_COMPILE_OPTIONS: rounding in assembly"),
)


def kernel_flags(family: str, supported: Collection[str]) -> tuple[Flag, ...]:
    """Flags for one family on every architecture, in order, without those that select a target or an output.

    Args:
        supported: texts of the flags of ``PROBED`` that the compiler accepts.
    """
    return (
        *_COMMON,
        *(_BACKWARD if family.startswith("bwd") else _FORWARD),
        *(flag for flag in PROBED if flag.text in supported),
    )


def words(flags: Iterable[Flag]) -> tuple[str, ...]:
    """The flags as a command line takes them."""
    return tuple(word for flag in flags for word in flag.words)
