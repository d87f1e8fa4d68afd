"""Golden texts of the emitter: two forward and two backward kernels that together have every template argument."""

from __future__ import annotations

from fmha_cli.backends.mem_efficient.catalogue import kernels
from fmha_cli.codegen.mem_efficient.emit import block_of, emit
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.arch import load_arch
from tests.support.golden.units import Golden

CHOSEN = {
    "sm_75": ("fmha_cutlassF_f16_notaligned_64x64_rf_sm75",),
    "sm_86": ("fmha_cutlassB_bf16_aligned_128x64_k96_sm80",),
    "sm_90": ("fmha_cutlassF_f32_aligned_32x128_gmem_sm80", "fmha_cutlassB_f16_aligned_64x64_k64_seqaligned_sm80"),
}
KERNELS = {
    f"{traits_of(kernel).name}-{arch}.cu": kernel
    for arch, names in CHOSEN.items()
    for kernel in kernels(load_arch(arch))
    if traits_of(kernel).name in names
}
GOLDEN = Golden(
    folder="mem_efficient",
    emit=emit,
    block_of=block_of,
    symbol_of=lambda kernel: traits_of(kernel).name,
    kernels=KERNELS,
    update="python -m tests.support.golden.mem_efficient",
)

if __name__ == "__main__":
    GOLDEN.write()
