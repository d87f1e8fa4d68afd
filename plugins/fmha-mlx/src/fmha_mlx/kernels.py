"""The kernels: element type of the tensors, and of the arrays that MLX gets; and their abilities: rules K953 to K956, whose
texts are in ``rules.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files

from fmha_cli import api, plugin


class Precision(StrEnum):
    """The type of MLX's arrays, and so of scores and weights."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"


@dataclass(frozen=True, kw_only=True)
class MlxAlgorithm(plugin.Algorithm):
    precision: Precision


FP32, FP16, BF16 = plugin.DType.FP32, plugin.DType.FP16, plugin.DType.BF16
PAIRS = (
    (FP32, Precision.F32),
    (FP16, Precision.F32),
    (FP16, Precision.F16),
    (BF16, Precision.F32),
    (BF16, Precision.BF16),
)
"""Types of the tensors and precisions, in the order in which they are taken."""


def kernels(arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Mask, bias and cache are run-time values, about which the rules decide."""
    any_, fwd = plugin.Need.ANY, plugin.Family.FWD
    for dtype, precision in PAIRS:
        signature = plugin.Signature(dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16, gqa=any_, sink=any_)
        signature = replace(signature, mask=plugin.MaskKey.ANY, bias=plugin.BiasKey.ANY, sink_logits=any_)
        signature, how = replace(signature, cache=plugin.CacheKey.ANY), MlxAlgorithm(precision=precision)
        yield api.KernelSpec(backend="mlx", family=fwd, arch=arch, signature=signature, algorithm=how)


def precision_of(kernel: api.KernelSpec) -> Precision:
    assert isinstance(kernel.algorithm, MlxAlgorithm)
    return kernel.algorithm.precision


def _nothing(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if p.sink_logits or plugin.rows_check(p, kernel, device) or not plugin.sees_nothing(p):
        return None
    text = f"mask {p.mask.text()} for {p.seqlen_q} queries and {p.seqlen_k} keys hides every key from some query"
    return plugin.Refusal(text, f"--seqlen-k {p.seqlen_q}")


def _rounded(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    precision = precision_of(kernel)
    if precision is Precision.F32 or p.dtype is not kernel.signature.dtype:
        return None
    return plugin.Refusal(f"scores and weights are rounded to {precision.value}", "--dtype fp32")


_TEXTS = files("fmha_mlx").joinpath("rules.json").read_text("utf-8")
_CHECKS = (_nothing, _rounded, plugin.full_cache_check, plugin.alibi_check)
RULES = (*plugin.CORE_RULES, *plugin.rules_from(_TEXTS, {f"K{953 + n}": check for n, check in enumerate(_CHECKS)}))
