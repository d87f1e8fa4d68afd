"""Build the memory-efficient kernels by NVRTC alone and compare what ``fmha`` reads in them with the assembler.

    python benchmarks/me_matrix.py [--jobs 2] [--only ARCH[:FAMILY]] [--ci] [--json FILE] [--markdown FILE]

The list has all 107 kernels that NVRTC 13 compiles, on each of six architectures whose blocks may have the shared memory that
they need: 52 for sm_75, and up to 55 for sm_80 and the later ones. What is needed and checked is as in ``fa_matrix.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cuda_figures import cuda_matrix
from matrix_parts import chosen, run

from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CI = {
    "sm_75": "fmha_cutlassF_f16_aligned_64x64_rf_sm75",
    "sm_86": "fmha_cutlassB_bf16_aligned_128x64_k96_sm80",
    "sm_90": "fmha_cutlassB_f32_aligned_64x64_k32_sm80",
    "sm_120": "fmha_cutlassF_bf16_aligned_64x128_rf_sm80",
}
"""The kernels that CI compiles: one for each architecture."""


def listed(only: Sequence[str] = (), ci: bool = False) -> list[dict[str, Any]]:
    """The rows of the list; ``only`` is ``ARCH`` or ``ARCH:FAMILY``."""
    rows = [
        {
            "arch": arch,
            "family": kernel.family.value,
            "kernel": traits_of(kernel).name,
            "shows": traits_of(kernel).name.removeprefix("fmha_cutlass"),
            "ci": CI.get(arch) == traits_of(kernel).name,
        }
        for arch in ARCHS
        for kernel in kernels(load_arch(arch))
        if traits_of(kernel).shared_bytes <= load_arch(arch).fact("shared_per_block_optin")
    ]
    return chosen(rows, only, ci)


def kernels_of(rows: Iterable[Mapping[str, Any]], registry: Registry) -> list[KernelSpec]:
    """The kernels of the rows."""
    named = {(k.arch, traits_of(k).name): k for arch in ARCHS for k in kernels(registry.arch(arch))}
    return [named[row["arch"], row["kernel"]] for row in rows]


MATRIX = cuda_matrix(
    "me_matrix",
    "Memory-efficient attention's build matrix",
    lambda kernel: traits_of(kernel).name,
    doc=__doc__,
    listed=listed,
    quick="the four kernels of CI",
    kernels_of=kernels_of,
)

if __name__ == "__main__":
    sys.exit(run(MATRIX))
