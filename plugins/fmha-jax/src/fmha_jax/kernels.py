"""The kernels: element type, direction, and how the mask is told, in the order in which they are taken; and their
abilities: rules K975 to K979, whose texts are in ``rules.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files

from fmha_cli import api, plugin

PLAIN, TOP_LEFT = plugin.MaskForm.PLAIN, plugin.MaskForm.TOP_LEFT
FP32, FP16, BF16 = plugin.DType.FP32, plugin.DType.FP16, plugin.DType.BF16


class Masking(StrEnum):
    """The argument that holds the mask."""

    FLAG = "is_causal"
    WINDOW = "local_window_size"
    TENSOR = "mask"


class Precision(StrEnum):
    """The type of the tensors that JAX gets; scores and softmax are always fp32."""

    F32 = "f32"
    BF16 = "bf16"


@dataclass(frozen=True, kw_only=True)
class JaxAlgorithm(plugin.Algorithm):
    masking: Masking
    precision: Precision


def kernels(arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Mask, bias and cache are run-time values, about which the rules decide."""
    any_ = plugin.Need.ANY
    for family in (plugin.Family.FWD, plugin.Family.BWD_DQ_DK_DV):
        for dtype, precision in (
            (FP32, Precision.F32),
            (BF16, Precision.BF16),
            (BF16, Precision.F32),
            (FP16, Precision.F32),
        ):
            signature = plugin.Signature(
                dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16, gqa=any_, sink=any_
            )
            signature = replace(signature, mask=plugin.MaskKey.ANY, bias=plugin.BiasKey.ANY)
            if family.backward:
                signature = replace(signature, dbias=any_)
            else:
                lse = any_ if precision is Precision.F32 else plugin.Need.NO  # it has the type of K
                signature = replace(signature, cache=plugin.CacheKey.ANY, lse=lse)
            for masking in Masking:
                how = JaxAlgorithm(masking=masking, precision=precision)
                yield api.KernelSpec(backend="jax", family=family, arch=arch, signature=signature, algorithm=how)


def way_of(kernel: api.KernelSpec) -> JaxAlgorithm:
    assert isinstance(kernel.algorithm, JaxAlgorithm)
    return kernel.algorithm


def _mask(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    masking, mask, bare = way_of(kernel).masking, f"mask {p.mask.text()}", replace(p, sink=0)
    sunk = bare.visible_pairs() != p.visible_pairs()  # a sink that the window reaches anyway changes nothing
    found = plugin.mask_forms(p if sunk else bare)
    if masking is Masking.FLAG and not {PLAIN, TOP_LEFT} & found:
        return plugin.Refusal(f"{mask}: is_causal is the top-left triangle", "--mask causal-tl")
    aligned = p.mask.align.value == "top_left" or p.seqlen_q == p.seqlen_k
    if masking is Masking.WINDOW and PLAIN not in found and (sunk or not aligned):
        return plugin.Refusal(f"{mask}: local_window_size counts from the top left", f"--seqlen-k {p.seqlen_q}")
    return None


def _nothing(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if plugin.rows_check(p, kernel, device) or not plugin.sees_nothing(p):
        return None
    text = f"mask {p.mask.text()} for {p.seqlen_q} queries and {p.seqlen_k} keys hides every key from some query"
    return plugin.Refusal(text, f"--seqlen-k {p.seqlen_q}")


def _dims(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if p.hdim == p.hdim_v:
        return None
    return plugin.Refusal(f"hdim {p.hdim} and hdim-v {p.hdim_v} differ", f"--hdim-v {p.hdim}")


_TEXTS = files("fmha_jax").joinpath("rules.json").read_text("utf-8")
_CHECKS = (_mask, _nothing, _dims, plugin.full_cache_check, plugin.alibi_check)
RULES = (*plugin.CORE_RULES, *plugin.rules_from(_TEXTS, {f"K{975 + n}": check for n, check in enumerate(_CHECKS)}))
