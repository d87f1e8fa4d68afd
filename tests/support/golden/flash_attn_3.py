"""Golden texts of the FlashAttention-3 emitter: one kernel for each scheduler and two to add parts, with every switch in one of them."""

from __future__ import annotations

from fmha_cli.backends.flash_attn_3.catalogue import kernels
from fmha_cli.codegen.flash_attn_3.emit import SYMBOL, emit
from fmha_cli.codegen.flash_attn_3.instance import WRITTEN, instance_of
from fmha_cli.codegen.flash_attn_3.params import block_of
from fmha_cli.domain.arch import load_arch
from tests.support.golden.units import Golden

CHOSEN = {
    "prepare": "4, true",
    "static-cluster": "90, 128, 128, 2, cutlass::half_t, cutlass::half_t, false, false, false, false, false, false, false, false, false",
    "dynamic-causal": "90, 128, 128, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, false, false, false, false, false, false",
    "varlen-append": "90, 192, 128, 1, cutlass::half_t, cutlass::half_t, false, true, true, true, true, true, false, true, true",
    "single-fp8": "90, 128, 128, 1, cutlass::float_e4m3_t, cutlass::bfloat16_t, true, false, false, false, false, false, false, true, true",
    "dynamic-qv": "90, 64, 512, 1, cutlass::bfloat16_t, cutlass::bfloat16_t, true, false, false, false, false, false, true, true, false",
    "combine": "90, 16, 64, 4, false, false, cutlass::half_t, float",
    "combine-varlen": "90, 8, 128, 8, false, true, float, float",
}
"""The template arguments of ``run_flash_fwd`` (the last, ``V_colmajor``, is false), ``run_flash_fwd_combine`` or
``prepare_varlen_num_blocks_kernel``."""
_FUNCTIONS = {"combine": "run_flash_fwd_combine<{}>", "prepare": "prepare_varlen_num_blocks_kernel<{}>"}
_NAMES = {
    _FUNCTIONS.get(name.partition("-")[0], "run_flash_fwd<{}, false>").format(words): f"{name}.cu"
    for name, words in CHOSEN.items()
}
KERNELS = {
    _NAMES[instance_of(kernel).template_id]: kernel
    for kernel in kernels(load_arch("sm_90a"), WRITTEN)
    if instance_of(kernel).template_id in _NAMES
}
GOLDEN = Golden(
    folder="flash_attn_3",
    emit=emit,
    block_of=lambda kernel: block_of(instance_of(kernel)),
    symbol_of=lambda kernel: SYMBOL,
    kernels=KERNELS,
    update="python -m tests.support.golden.flash_attn_3",
)

if __name__ == "__main__":
    GOLDEN.write()
