"""The kernels: operator x element type, in the order in which ``auto`` takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from fmha_cli import api


class Op(StrEnum):
    """An operator, by the domain ``com.microsoft`` (MHA, GQA) or the opset that has it."""

    GQA = "gqa"
    MHA = "mha"
    ATTENTION_24 = "attention24"
    ATTENTION_23 = "attention23"

    @property
    def opset(self) -> int:
        """The version of the default domain that a model with it names."""
        return 23 if self is Op.ATTENTION_23 else 24

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
    """The operator, and the precision of its scores: ONNX's own one keeps those of fp16 tensors in fp16."""

    op: Op
    scores: Scores


def kernels_for(backend: str, arch: str) -> Iterator[api.KernelSpec]:
    """Every kernel. Their masks and biases are run-time values, about which the rules decide."""
    any_, half = api.Need.ANY, api.DType.FP16
    for op in Op:
        for dtype in (api.DType.FP32, half):
            signature = api.Signature(dtype=dtype, dtype_out=dtype, hdim=1 << 16, hdim_v=1 << 16)
            signature = replace(signature, mask=api.MaskKey.ANY, bias=api.BiasKey.ANY, cache=api.CacheKey.ANY)
            if op is not Op.MHA:
                signature = replace(signature, gqa=any_, softcap=any_)
            if op.standard:
                signature = replace(signature, sink=any_)
            if op is Op.GQA:
                signature = replace(signature, append=any_, sink_logits=any_, rotary=api.RotaryKey.ANY)
            scores = Scores.F16 if op.standard and dtype is half else Scores.F32
            yield api.KernelSpec(
                backend=backend,
                family=api.Family.FWD,
                arch=arch,
                signature=signature,
                algorithm=OrtAlgorithm(op=op, scores=scores),
            )
