"""The session: a model of one operator, on tensors that stay in the arena unless they have gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino as ov

from fmha_cli import plugin
from fmha_openvino.kernels import Precision, precision_of
from fmha_openvino.rules import PLAIN, own_mask

TYPES = {"float32": ov.Type.f32, "float16": ov.Type.f16, "bfloat16": ov.Type.bf16, "bool": ov.Type.boolean}
BHSD = plugin.Layout.BHSD
ops = ov.opset13


def tensor_on(array: np.ndarray) -> ov.Tensor:
    """A tensor on an array's own memory; numpy's bfloat16 is not one of the library's."""
    kind = TYPES[str(array.dtype)]
    if kind is ov.Type.bf16:
        return ov.Tensor(array.view(np.uint16), ov.Shape(array.shape), kind)
    return ov.Tensor(array, shared_memory=True)


class OpenVinoSession(plugin.LibrarySession):
    """One model with its bound tensors."""

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        self.precision = precision_of(self.plan.main)
        p, arrays = self.problem, plugin.HostArrays(self.problem, arena, tensors)
        feeds: list[np.ndarray] = [arrays.given(name, p.layout) for name in "qkv"]
        own = own_mask(p)
        if "bias" in arrays:
            feeds.append(arrays.given("bias"))
        elif not own:
            feeds.append(np.ascontiguousarray(np.tile(plugin.visible_keys(p, p.cache_rows), (1, 1, self._folded(), 1))))
        parameters = [ops.parameter(list(array.shape), TYPES[str(array.dtype)]) for array in feeds]
        model = ov.Model(
            [self._result(parameters, causal=own and PLAIN not in plugin.mask_forms(p))], parameters, "attention"
        )
        config: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": self.precision.value,
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
        }
        compiled = ov.Core().compile_model(model, "CPU", config)
        self.request = compiled.create_infer_request()
        for n, array in enumerate(feeds):
            self.request.set_input_tensor(n, tensor_on(array))
        self.arrays, self.kept = arrays, (feeds, y := arrays.taken("o", p.layout_out))
        self.output, self.divided = y.reshape(compiled.output(0).shape), len(compiled.output(0).shape) > y.ndim
        self.request.set_output_tensor(0, tensor_on(self.output))

    def run(self) -> None:
        if self.divided:  # before 2026.2, among threads: the output has five axes, and four after an inference
            self.request.set_output_tensor(0, tensor_on(self.output))
        self.request.infer()

    def _folded(self) -> int:
        """Query heads of a group that become rows: the operator has one key head for each head."""
        return self.problem.heads // self.problem.kv_heads

    def _result(self, parameters: Sequence[Any], *, causal: bool) -> Any:
        """The operator around its inputs; the library moves the axes."""
        p, wide = self.problem, self.precision is Precision.F32
        kind = ov.Type.f32 if wide else TYPES[{"bf16": "bfloat16", "fp16": "float16"}[p.dtype.value]]
        order = ops.constant([0, 2, 1, 3])
        q, k, v = parameters[:3] if p.layout is BHSD else [ops.transpose(x, order) for x in parameters[:3]]
        if self._folded() > 1:
            q = ops.reshape(q, ops.constant([p.batch, p.kv_heads, self._folded() * p.seqlen_q, p.hdim]), False)
        more = list(parameters[3:])
        scaled = p.scale != p.hdim**-0.5
        more += [ops.constant(0.0, kind)] if scaled and not more else []
        more = [x if x.get_element_type() == ov.Type.boolean else ops.convert(x, kind) for x in more]
        more += [ops.constant(p.scale, kind)] if scaled else []
        o = ops.scaled_dot_product_attention(*(ops.convert(x, kind) for x in (q, k, v)), *more, causal=causal)
        if self._folded() > 1:
            o = ops.reshape(o, ops.constant([p.batch, p.heads, p.seqlen_q, p.hdim_v]), False)
        o = ops.convert(o, TYPES[{"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[p.dtype.value]])
        return o if p.layout_out is BHSD else ops.transpose(o, order)
