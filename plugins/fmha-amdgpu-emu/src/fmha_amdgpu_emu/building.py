"""Build the emulator: one object for each translation unit, linked to a library with the HIP runtime's own name.

``python -m fmha_amdgpu_emu.building`` builds it and prints its path.
"""

from __future__ import annotations

import os
import sys

from fmha_amdgpu_emu.units import core_units
from fmha_cli.api import FmhaError, build_registry
from fmha_cli.plugin import Artifact, BuildContext, build_units, cache_root, emulator_library

SONAME = "libamdhip64.so"
"""A program that opens this name once the library is loaded gets the emulator."""

_SECONDS = 600.0


def build_emulator(context: BuildContext) -> Artifact:
    """The library, from the cache or compiled now by ``context.jobs`` compilers at once.

    Raises:
        KernelFailure: a unit does not compile, or they do not link.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
        Interrupted: ``context.stop`` was set.
    """
    arch = build_registry().backend("cpu").probe().devices[0].archs[0]  # this machine's best CPU architecture
    library = emulator_library("amdgpu_emu", SONAME, arch, core_units())
    return build_units(library, context)


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
