"""The kernels, operator and element type, in the order in which they are taken; and their abilities: rules K930 to
K938, whose texts are in ``rules.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files

from fmha_cli import api, plugin

Form = plugin.MaskForm


class Op(StrEnum):
    """The operators: two of ONNX Runtime's own, and ONNX's Attention in its two opsets."""

    GQA = "gqa"
    MHA = "mha"
    ATTENTION_24 = "attention24"
    ATTENTION_23 = "attention23"

    @property
    def standard(self) -> bool:
        """Whether it is ONNX's own operator."""
        return self in (Op.ATTENTION_23, Op.ATTENTION_24)


class Scores(StrEnum):
    """The precision in which the scores and the weights are kept."""

    F32 = "f32"
    F16 = "f16"


@dataclass(frozen=True, kw_only=True)
class OrtAlgorithm(plugin.Algorithm):
    op: Op
    scores: Scores


def kernels(arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Mask, bias and cache are run-time values, about which the rules decide."""
    any_, fwd = plugin.Need.ANY, plugin.Family.FWD
    for op in Op:
        for dtype in (plugin.DType.FP32, plugin.DType.FP16):
            signature = plugin.Signature(dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16)
            signature = replace(signature, mask=plugin.MaskKey.ANY, bias=plugin.BiasKey.ANY, cache=plugin.CacheKey.ANY)
            if op is not Op.MHA:
                signature = replace(signature, gqa=any_, softcap=any_)
            if op.standard:
                signature = replace(signature, sink=any_)
            if op is Op.GQA:
                signature = replace(signature, append=any_, sink_logits=any_, rotary=plugin.RotaryKey.ANY)
            how = OrtAlgorithm(op=op, scores=Scores.F16 if op.standard and dtype is plugin.DType.FP16 else Scores.F32)
            yield api.KernelSpec(backend="onnxruntime", family=fwd, arch=arch, signature=signature, algorithm=how)


def op_of(kernel: api.KernelSpec) -> Op:
    assert isinstance(kernel.algorithm, OrtAlgorithm)
    return kernel.algorithm.op


def native(p: api.Problem, op: Op) -> bool:
    """Whether the operator has the mask itself, without a tensor that holds it."""
    found = plugin.mask_forms(p)
    if op is Op.MHA:
        return Form.PLAIN in found or (Form.TOP_LEFT in found and p.seqlen_k <= p.seqlen_q)
    if op is Op.GQA:
        return bool(found & {Form.BOTTOM_RIGHT, Form.WINDOW})
    own = {Form.PLAIN, Form.TOP_LEFT} if op is Op.ATTENTION_23 else {Form.PLAIN, Form.TOP_LEFT, Form.BOTTOM_RIGHT}
    return bool(found & own)


def _mask(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    op, shape = op_of(kernel), f"{p.seqlen_q} queries and {p.seqlen_k} keys"
    if op is Op.GQA and p.seqlen_q > min(p.key_lengths(), default=0):
        return plugin.Refusal(f"{shape}: the operator has a key for each query", f"--seqlen-k {p.seqlen_q}")
    if native(p, op) or (op.standard and p.bias is plugin.Bias.NONE):
        return None
    if op.standard:
        return plugin.Refusal(f"mask {p.mask.text()} and a bias would share one input", "--mask none")
    has, hint = ("bottom-right causal masks", "--causal") if op is Op.GQA else ("one for no more keys", "--mask none")
    return plugin.Refusal(f"mask {p.mask.text()} for {shape}: the operator has {has}", hint)


def _dims(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    step, turned = 16 if p.rotary.dim else 8, p.rotary.dim
    if op_of(kernel) is not Op.GQA or (p.hdim % step == 0 and p.hdim_v == p.hdim and turned % 16 == 0):
        return None
    hint = "--rotary 16" if p.hdim % step == 0 else f"--hdim {-(-p.hdim // step) * step}"
    text = f"hdim {p.hdim}, hdim-v {p.hdim_v}" + (f", rotary {turned}" if turned else "")
    return plugin.Refusal(text, hint if p.hdim_v == p.hdim or p.hdim % step else f"--hdim-v {p.hdim}")


def _past(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if op_of(kernel) is not Op.GQA or 1 in (p.seqlen_q, p.batch) or max(p.key_lengths(), default=0) <= p.seqlen_q:
        return None
    return plugin.Refusal(f"{p.seqlen_q} queries of {p.batch} sequences come after earlier keys", "--batch 1")


def _cache(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if p.append in (0, p.seqlen_q):
        return plugin.full_cache_check(p, kernel, device)
    text = f"{p.append} appended keys for {p.seqlen_q} queries: the operator appends one for each"
    return plugin.Refusal(text, f"--append {p.seqlen_q}")


def _precision(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if kernel.signature.dtype is not plugin.DType.FP16 or p.dtype is not plugin.DType.FP16:
        return None
    if op_of(kernel).standard:
        return plugin.Refusal("the operator keeps the scores and the weights of fp16 tensors in fp16", "--dtype fp32")
    return plugin.Refusal("the operator rounds the sinks to fp16", "--dtype fp32") if p.sink_logits else None


def _scale(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    return None if p.scale else plugin.Refusal("a scale of 0 stands for 1/sqrt(hdim)", "--scale 1")


def _release(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    op = op_of(kernel)
    own = {Form.PLAIN, Form.TOP_LEFT} & plugin.mask_forms(p)
    cases = {
        "opset24": op is Op.ATTENTION_24,
        "window": op is Op.GQA and Form.WINDOW in plugin.mask_forms(p) and p.mask.left is not None,
        "capped": op.standard and p.softcap > 0 and not (Form.PLAIN in own and p.bias is plugin.Bias.NONE),
        "longer": op is Op.ATTENTION_24 and not own and native(p, op),
        "blind": op.standard and plugin.sees_nothing(p),
    }
    return plugin.release_refusal("onnxruntime", RELEASES["facts"], cases)


RELEASES = json.loads(files("fmha_onnxruntime").joinpath("releases.json").read_text("utf-8"))
"""The releases that were tried, and the differences of older ones from today's."""
_TEXTS = files("fmha_onnxruntime").joinpath("rules.json").read_text("utf-8")
_CHECKS = (_mask, _dims, _past, _cache, plugin.alibi_check, plugin.rows_check, _precision, _scale, _release)
_CORE = tuple(rule for rule in plugin.CORE_RULES if rule is not plugin.ANGLES_RULE)
RULES = (*_CORE, *plugin.rules_from(_TEXTS, {f"K{930 + n}": check for n, check in enumerate(_CHECKS)}))
