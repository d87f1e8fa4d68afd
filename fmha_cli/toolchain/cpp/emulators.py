"""The common build settings of all emulators' libraries."""

from __future__ import annotations

from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cpp.many import UnitsLibrary
from fmha_cli.toolchain.cpp.units import Units

_FLAGS = ("-c", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off", "-pthread", "-w")
"""-ffp-contract=off: a product and a sum round separately, unless the instruction fuses them. -w: GCC 12 warns inside its
own intrinsic headers."""


def emulator_library(name: str, soname: str, arch: str, units: Units, *, level: str = "-O2") -> UnitsLibrary:
    """The library of an emulator.

    Args:
        name: of its entries in the cache.
        soname: of the runtime that it stands in for.
        arch: the CPU architecture that executes it.
        level: of optimisation, as compilers spell it.
    """
    return UnitsLibrary(
        name=name,
        kind=BuildKind.EMULATOR,
        soname=soname,
        arch=arch,
        flags=("-std=c++20", level, *_FLAGS),
        flags_of=load_arch(arch).backends["cpu"]["compile"],
        units=units,
        notice="building the emulator ({count} files, about a minute on two cores), once for this machine",
    )
