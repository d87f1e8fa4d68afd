"""Compute capabilities, and the architectures that a compiler has dropped."""

from __future__ import annotations

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal

REFUSED = "nvrtc_refuses"
"""The architecture fact that names the version from which on NVRTC refuses the architecture."""


def capability(arch: ArchSpec) -> int:
    """The compute capability of an architecture as one number: 86 for 8.6."""
    major, minor = arch.fact("compute_capability")
    return 10 * int(major) + int(minor)


def refused_by_compiler(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    """A ``KernelCheck``: NVRTC compiles for the architecture."""
    if REFUSED not in arch.facts:
        return None
    return Refusal(f"NVRTC {arch.fact(REFUSED)} does not compile for {kernel.arch}", "a later architecture")
