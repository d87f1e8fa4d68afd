"""The kernels: element type of the tensors, and the precision that the library should use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from fmha_cli import api, plugin


class Precision(StrEnum):
    """What ``INFERENCE_PRECISION_HINT`` asks for. The library may compute in another one (rule K950)."""

    F32 = "f32"
    BF16 = "bf16"
    F16 = "f16"


@dataclass(frozen=True, kw_only=True)
class OpenVinoAlgorithm(plugin.Algorithm):
    precision: Precision


FP32, BF16, FP16 = plugin.DType.FP32, plugin.DType.BF16, plugin.DType.FP16
PAIRS = (
    (FP32, Precision.F32),
    (BF16, Precision.BF16),
    (BF16, Precision.F32),
    (FP16, Precision.F16),
    (FP16, Precision.F32),
)
"""Types of the tensors and precisions, in the order in which they are taken."""


def kernels(arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Mask, bias and cache are run-time values, about which the rules decide."""
    for dtype, precision in PAIRS:
        signature = plugin.Signature(dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16, sink=plugin.Need.ANY)
        signature = replace(
            signature, mask=plugin.MaskKey.ANY, bias=plugin.BiasKey.ANY, gqa=plugin.Need.ANY, cache=plugin.CacheKey.ANY
        )
        how, fwd = OpenVinoAlgorithm(precision=precision), plugin.Family.FWD
        yield api.KernelSpec(backend="openvino", family=fwd, arch=arch, signature=signature, algorithm=how)


def precision_of(kernel: api.KernelSpec) -> Precision:
    assert isinstance(kernel.algorithm, OpenVinoAlgorithm)
    return kernel.algorithm.precision
