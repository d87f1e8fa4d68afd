"""Golden texts of the FlashAttention-3 emitter: one kernel for each scheduler, two to add parts, three backward and those around them."""

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
    "backward-causal": "90, 128, 64, 128, cutlass::bfloat16_t, true, false, false, false, false, true, 2, 2, true, false, false, 2, 1, 2, 1, false",
    "backward-varlen": "90, 96, 64, 128, cutlass::half_t, false, true, true, true, true, false, 2, 2, true, false, false, 2, 1, 2, 1, true",
    "backward-order": "90, 192, 64, 96, cutlass::half_t, true, false, false, true, true, true, 1, 1, false, true, false, 3, 1, 1, 1, false",
    "dot": "cute::Shape<cute::Int<80>, cute::Int<128>>, cutlass::bfloat16_t, float, cutlass::arch::Sm90, true, true",
    "convert": "Kernel of run_flash_bwd<90, 256, 64, 80, cutlass::half_t, false, false, false, false, false, false, 1, 1, false, true, true, 2, 1, 1, 1, false>",
    "convert-keys": "KerneldKV of run_flash_bwd<90, 64, 96, 128, cutlass::bfloat16_t, false, false, false, false, false, false, 2, 2, true, false, true, 2, 1, 2, 2, false>",
}
"""The template arguments of ``run_flash_fwd`` (the last, ``V_colmajor``, is false), ``run_flash_fwd_combine``,
``prepare_varlen_num_blocks_kernel`` or ``run_flash_bwd``, or those of a kernel before or after the last."""
_FUNCTIONS = {
    "combine": "run_flash_fwd_combine<{}>",
    "prepare": "prepare_varlen_num_blocks_kernel<{}>",
    "backward": "run_flash_bwd<{}>",
    "dot": "flash::FlashAttnBwdPreprocess<{}>",
    "convert": "Postprocess{}",
}
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
