"""Build the emulator: one object for each translation unit, linked to a library with the CUDA driver's own name.

``python -m fmha_nvptx_emu.building`` builds it and prints its path.
"""

from __future__ import annotations

import os
import sys

from fmha_cli.api import FmhaError, build_registry
from fmha_cli.plugin import Artifact, BuildContext, build_units, cache_root, emulator_library
from fmha_nvptx_emu.units import COLD, core_units, recorder_units

SONAME = "libcuda.so.1"
"""A program that opens this name once the library is loaded gets the emulator."""

_SECONDS = 600.0

_VECTORS = ("-fno-trapping-math",)
"""The emulator reads no floating-point exceptions, and loops with comparisons of floats become vectors without them."""


def build_emulator(context: BuildContext) -> Artifact:
    """The library, from the cache or compiled now by ``context.jobs`` compilers at once.

    Raises:
        KernelFailure: a unit does not compile, or they do not link.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
        Interrupted: ``context.stop`` was set.
    """
    return build_units(
        emulator_library(
            "nvptx_emu", SONAME, _arch(), core_units(), level="-O3", levels=dict.fromkeys(COLD, "-O1"), flags=_VECTORS
        ),
        context,
    )


def build_recorder(context: BuildContext) -> Artifact:
    """The library without the execution of PTX, for tests that only record launches. It compiles in seconds.

    Raises:
        KernelFailure, EnvironmentProblem, Interrupted: like :func:`build_emulator`.
    """
    return build_units(emulator_library("nvptx_emu_recorder", SONAME, _arch(), recorder_units(), level="-O0"), context)


def _arch() -> str:
    """This machine's best CPU architecture."""
    return build_registry().backend("cpu").probe().devices[0].archs[0]


def main() -> int:
    """Build with two compilers at once and print the library's path."""
    context = BuildContext(cache_root=cache_root(), jobs=min(2, os.cpu_count() or 1), timeout=_SECONDS)
    try:
        print(build_emulator(context).path)
    except FmhaError as error:
        print(error, getattr(error, "where", ""), getattr(error, "help", ""), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
