"""The kernels: operator and element type, in the order in which they are taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from fmha_cli import api


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
class OrtAlgorithm(api.Algorithm):
    op: Op
    scores: Scores


def kernels(arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Mask, bias and cache are run-time values, about which the rules decide."""
    any_, fwd = api.Need.ANY, api.Family.FWD
    for op in Op:
        for dtype in (api.DType.FP32, api.DType.FP16):
            signature = api.Signature(dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16)
            signature = replace(signature, mask=api.MaskKey.ANY, bias=api.BiasKey.ANY, cache=api.CacheKey.ANY)
            if op is not Op.MHA:
                signature = replace(signature, gqa=any_, softcap=any_)
            if op.standard:
                signature = replace(signature, sink=any_)
            if op is Op.GQA:
                signature = replace(signature, append=any_, sink_logits=any_, rotary=api.RotaryKey.ANY)
            how = OrtAlgorithm(op=op, scores=Scores.F16 if op.standard and dtype is api.DType.FP16 else Scores.F32)
            yield api.KernelSpec(backend="onnxruntime", family=fwd, arch=arch, signature=signature, algorithm=how)


def op_of(kernel: api.KernelSpec) -> Op:
    assert isinstance(kernel.algorithm, OrtAlgorithm)
    return kernel.algorithm.op
