"""The kernels, form and type of the cache, in the order in which they are taken; and their abilities: rules K982 to K989,
whose texts are in ``rules.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files

from fmha_cli import api, plugin

MAX_BIAS = 8.0
"""The ``max_bias`` of ggml whose slopes are the usual ones."""
EXACT = 1 << 11
"""Whole numbers up to here are exact in fp16, the type of a mask of the fused form."""
TILE = 64
"""From so many queries on, the fused form sums over an f16 cache in fp32."""


class Form(StrEnum):
    """``ggml_flash_attn_ext``; or ``ggml_mul_mat``, ``ggml_soft_max_ext`` and ``ggml_mul_mat``, with V transposed."""

    FLASH = "flash"
    UNFUSED = "unfused"


class Cache(StrEnum):
    """The type in which ggml holds K and V."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"

    @property
    def quantized(self) -> bool:
        """Whether 32 elements of a row share a scale."""
        return self in (Cache.Q8_0, Cache.Q4_0)


@dataclass(frozen=True, kw_only=True)
class GgmlAlgorithm(plugin.Algorithm):
    form: Form
    cache: Cache


FP32, FP16, BF16 = plugin.DType.FP32, plugin.DType.FP16, plugin.DType.BF16
WAYS = (
    (FP32, Form.FLASH, Cache.F32),
    (FP32, Form.UNFUSED, Cache.F32),
    (FP16, Form.FLASH, Cache.F16),
    (FP16, Form.FLASH, Cache.F32),
    (FP16, Form.UNFUSED, Cache.F16),
    (FP16, Form.FLASH, Cache.Q8_0),
    (FP16, Form.FLASH, Cache.Q4_0),
    (BF16, Form.FLASH, Cache.BF16),
    (BF16, Form.UNFUSED, Cache.BF16),
)


def kernels(arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Mask, bias and cache are run-time values, about which the rules decide."""
    any_, key = plugin.Need.ANY, plugin.BiasKey.ANY
    for dtype, form, cache in WAYS:
        signature = plugin.Signature(dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16, bias=key)
        signature = replace(signature, mask=plugin.MaskKey.ANY, cache=plugin.CacheKey.ANY, gqa=any_)
        signature = replace(signature, sink=any_, sink_logits=any_, softcap=any_)
        how = GgmlAlgorithm(form=form, cache=cache)
        yield api.KernelSpec(backend="ggml", family=plugin.Family.FWD, arch=arch, signature=signature, algorithm=how)


def way_of(kernel: api.KernelSpec) -> GgmlAlgorithm:
    assert isinstance(kernel.algorithm, GgmlAlgorithm)
    return kernel.algorithm


def _sums(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    of = way_of(kernel)
    if of != GgmlAlgorithm(form=Form.FLASH, cache=Cache.F16) or p.seqlen_q >= TILE or p.dtype is not FP16:
        return None
    return plugin.Refusal(f"{p.seqlen_q} queries: products with V are summed in fp16", "--dtype bf16")


def _quantized(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    cache = way_of(kernel).cache
    if not cache.quantized or p.dtype is not FP16:
        return None
    return plugin.Refusal(f"Q, K and V are rounded to {8 if cache is Cache.Q8_0 else 4} bits", "--dtype bf16")


def _nothing(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if way_of(kernel).form is Form.FLASH or p.sink_logits or plugin.rows_check(p, kernel, device):
        return None
    text = f"mask {p.mask.text()} for {p.seqlen_q} queries and {p.seqlen_k} keys hides every key from some query"
    return plugin.Refusal(text, f"--seqlen-k {p.seqlen_q}") if plugin.sees_nothing(p) else None


def _bias(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if way_of(kernel).form is Form.UNFUSED or p.bias is plugin.Bias.NONE or p.dtype is FP16:
        return None
    return plugin.Refusal(f"a bias in {p.dtype.value} is rounded to fp16", "--dtype fp16")


def _alibi(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if p.alibi is plugin.Alibi.NONE:
        return None
    if p.alibi is not plugin.Alibi.STANDARD:
        return plugin.Refusal("slopes follow from max_bias and the number of heads", "--alibi")
    longest = max(p.seqlen_q, p.seqlen_k)
    if way_of(kernel).form is Form.UNFUSED or longest <= EXACT:
        return None
    hint = "--seqlen-k" if p.seqlen_k > EXACT else "--seqlen"
    return plugin.Refusal(f"distances up to {longest - 1} are rounded to fp16", f"{hint} {EXACT}")


def _cache(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    linear = p.kv_cache.kind is plugin.CacheKind.LINEAR and not p.append and p.bias is plugin.Bias.NONE
    if linear and way_of(kernel).form is Form.FLASH and p.seqlen_q < TILE:
        return None
    return plugin.full_cache_check(p, kernel, device)


def _rows(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    return None if way_of(kernel).form is Form.FLASH else plugin.rows_check(p, kernel, device)


def _blocks(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if not way_of(kernel).cache.quantized or p.hdim % 32 == p.hdim_v % 32 == 0:
        return None
    return plugin.Refusal(f"hdim {p.hdim}, hdim-v {p.hdim_v}: a block has 32 elements", "--hdim 64")


_TEXTS = files("fmha_ggml").joinpath("rules.json").read_text("utf-8")
_CHECKS = (_sums, _quantized, _nothing, _bias, _alibi, _cache, _rows, _blocks)
RULES = (*plugin.CORE_RULES, *plugin.rules_from(_TEXTS, {f"K{982 + n}": check for n, check in enumerate(_CHECKS)}))
