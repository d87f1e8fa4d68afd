"""Build a matrix of FlashAttention-2 kernels by NVRTC alone and compare what ``fmha`` reads in them with the assembler.

    python benchmarks/fa_matrix.py [--jobs 2] [--only ARCH[:FAMILY]] [--ci] [--json FILE] [--markdown FILE]

The script uses no driver, no GPU and no CUDA toolkit. ``fa_matrix.json`` lists the kernels by upstream's template-ids.
For each kernel, the script reports wall time and peak memory of the compile, registers, spills, shared memory,
occupancy, size of the cubin and counts of instructions. If ``cuobjdump`` and ``nvdisasm`` are installed (a toolkit, or
the packages ``nvidia-cuda-cuobjdump`` and ``nvidia-cuda-nvdisasm``), separate code reads their output and the script
compares the figures. It exits with 1 if a kernel does not build, was not built by NVRTC, contains an unknown
instruction or calls external code, or if a figure differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cuda_figures import cuda_matrix
from fa_templates import kernel_of_template
from matrix_parts import listed_in, run

from fmha_cli.codegen.flash_attn.emit import SYMBOL
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.kernel import Family, KernelSpec

LIST = Path(__file__).with_name("fa_matrix.json")


def kernels_of(rows: Iterable[Mapping[str, Any]], registry: Registry) -> list[KernelSpec]:
    """The kernels of the rows.

    Raises:
        LookupError: upstream does not instantiate a template-id for the architecture, or it belongs to another family.
    """
    found = []
    for row in rows:
        kernel = kernel_of_template(row["kernel"], registry.arch(row["arch"]))
        if kernel.family is not Family(row["family"]):
            raise LookupError(f"{row['kernel']} is of {kernel.family.value}, not of {row['family']}")
        found.append(kernel)
    return found


MATRIX = cuda_matrix(
    "fa_matrix",
    "FlashAttention-2 build matrix",
    lambda kernel: SYMBOL,
    doc=__doc__,
    listed=partial(listed_in, LIST),
    quick="the three kernels of CI",
    kernels_of=kernels_of,
)

if __name__ == "__main__":
    sys.exit(run(MATRIX))
