"""Golden texts of the emitter: two forward and two backward kernels that together have every template argument.

A file holds the parts that are specific to the kernel. The digest of the whole text pins the tables of the parameter block.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.codegen.mem_efficient.emit import emit
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "mem_efficient"
CHOSEN = {
    "sm_75": ("fmha_cutlassF_f16_notaligned_64x64_rf_sm75",),
    "sm_86": ("fmha_cutlassB_bf16_aligned_128x64_k96_sm80",),
    "sm_90": ("fmha_cutlassF_f32_aligned_32x128_gmem_sm80", "fmha_cutlassB_f16_aligned_64x64_k64_seqaligned_sm80"),
}
DIGESTS = "digests.json"


@cache
def golden_kernels() -> dict[str, KernelSpec]:
    """File name -> kernel."""
    return {
        f"{traits_of(kernel).name}-{arch}.cu": kernel
        for arch, names in CHOSEN.items()
        for kernel in kernels(load_arch(arch))
        if traits_of(kernel).name in names
    }


def own_text(kernel: KernelSpec) -> str:
    """The text without the tables of the parameter block."""
    kept = [line for line in emit(kernel).splitlines() if "FMHA_FIELD(" not in line and "_abi_names" not in line]
    return "\n".join(line for line in kept if "_abi_table" not in line) + "\n"


def digests() -> dict[str, str]:
    """File name -> sha256 of the whole text."""
    return {name: hashlib.sha256(emit(kernel).encode()).hexdigest() for name, kernel in golden_kernels().items()}
