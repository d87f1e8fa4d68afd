"""Compiler flags of a FlashAttention kernel, places of this machine written as ``${name}``.

Upstream's are those of ``setup.py`` of flash-attn 2.8.3.post2 (``nvcc`` of its extension).
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.build.cuda.toolchain import CudaKind

_NVRTC = (
    "-std=c++17",
    "-use_fast_math",
    # Upstream's functions and constants without a mark are for the device: there is no host.
    "-default-device",
)

_NVCC = (
    "-cubin",
    "-x",
    "cu",
    "-std=c++17",
    "-O3",
    "--use_fast_math",
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
    "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__",
    "-U__CUDA_NO_HALF2_OPERATORS__",
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-w",
)


def cuda_flags(kind: CudaKind, arch: str, headers: Sequence[str], extra: Sequence[str] = ()) -> tuple[str, ...]:
    """All flags of one compile, in order.

    Args:
        arch: with its suffix. headers: names of folders, in the order of the search; CUDA's own come last.
        extra: the toolchain's own.
    """
    if kind is CudaKind.NVCC:
        return ("--nvcc=${nvcc}", f"-arch={arch}", *_NVCC, *extra, *_includes(headers))
    return ("--nvrtc=${nvrtc_library}", f"-arch={arch}", *_NVRTC, *extra, *_includes((*headers, "cuda", "cccl")))


def _includes(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"-I${{{name}}}" for name in names)
