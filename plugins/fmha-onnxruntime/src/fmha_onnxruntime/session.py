"""The session: one operator in its own model, on tensors that stay in the arena where their form allows it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fmha_cli import plugin
from fmha_onnxruntime.kernels import Form, Op, native, op_of
from fmha_onnxruntime.model import one_node

BSHD, BHSD = plugin.Layout.BSHD, plugin.Layout.BHSD
OPS = {
    Op.GQA: ("GroupQueryAttention", 0, "q k v past_k past_v last total cos sin - bias sinks"),
    Op.MHA: ("MultiHeadAttention", 0, "q k v - - bias"),
    Op.ATTENTION_24: ("Attention", 24, "q k v bias - - valid"),
    Op.ATTENTION_23: ("Attention", 23, "q k v bias"),
}
"""Name, opset (0: the library's own domain) and inputs of every operator."""


class OrtSession(plugin.LibrarySession):
    """One model with its bound tensors. Its threads do not spin, because other rows may be interleaved with it."""

    failures = (RuntimeError, *(e for e in vars(state).values() if isinstance(e, type) and issubclass(e, Exception)))

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        p, op, arrays = self.problem, op_of(self.plan.main), plugin.HostArrays(self.problem, arena, tensors)
        order, heads, appends = BHSD if op.standard and p.layout is BHSD else BSHD, ("k", "v"), "k_new" in arrays
        first = max(0, p.seqlen_k - p.seqlen_q) if op is Op.GQA and not appends else 0
        new = {n: arrays.given(f"{n}_new" if appends else n, order, slice(first, None)) for n in heads}
        feeds, y = {"q": arrays.given("q", order), **new}, arrays.taken("o", order)
        if order is BSHD:  # heads and dims are one axis
            y, feeds = y.reshape(*y.shape[:2], -1), {n: a.reshape(*a.shape[:2], -1) for n, a in feeds.items()}
        if appends or first:
            rows = slice(None if appends else first)
            feeds |= {f"past_{n}": arrays.given(n, BHSD, rows, written=appends) for n in heads}
        self.arrays = arrays
        attributes = self._options(op, feeds)
        if "bias" in arrays:  # the operators broadcast sequences and heads, not rows
            bias = arrays.view("bias")
            feeds["bias"] = arrays.held(np.broadcast_to(bias, (*bias.shape[:2], p.seqlen_q, bias.shape[3])))
        ends = {"y": y} | {f"present_{n}": feeds[f"past_{n}"] for n in heads if appends}
        outputs = ["y", "present_k", "present_v"] if op is Op.GQA else ["y"]
        name, opset, inputs = OPS[op]
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        for pool in ("intra", "inter"):
            options.add_session_config_entry(f"session.{pool}_op.allow_spinning", "0")
        text = one_node(name, opset, inputs.split(), feeds, outputs, attributes)
        self.session = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        self.bound, self.kept = self.session.io_binding(), (feeds, ends)  # the library has their addresses only
        for name, a in feeds.items():
            self.bound.bind_input(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
        for name in outputs:
            e = ends.get(name)
            where = () if e is None else (0, e.dtype.type, e.shape, e.ctypes.data)
            self.bound.bind_output(name, "cpu", *where)

    def run(self) -> None:
        self.session.run_with_iobinding(self.bound)

    def _options(self, op: Op, feeds: dict[str, np.ndarray]) -> dict[str, float]:
        """The attributes; the inputs other than Q, K, V and a bias are added to ``feeds``."""
        p, found, dtype = self.problem, plugin.mask_forms(self.problem), feeds["q"].dtype
        lengths, plain = np.array(p.key_lengths()), Form.PLAIN in found
        if op is Op.MHA:
            return {"num_heads": p.heads, "scale": p.scale, "unidirectional": int(not plain)}
        attributes: dict[str, float] = {"scale": p.scale, "softcap": float(p.softcap)}
        if op is Op.GQA:
            attributes |= {"num_heads": p.heads, "kv_num_heads": p.kv_heads}
            attributes |= (
                {"local_window_size": p.mask.left + 1} if Form.WINDOW in found and p.mask.left is not None else {}
            )
            feeds |= {"last": (lengths - 1).astype(np.int32), "total": np.array(lengths.max(), np.int32)}
            feeds |= {"sinks": self.arrays.held(self.arrays.view("sink_logits"), dtype)} if p.sink_logits else {}
            if p.rotary.dim:
                steps = p.rotary_base ** (-np.arange(0, p.rotary.dim, 2) / p.rotary.dim)
                angles = np.arange(p.cache_rows)[:, None] * steps
                feeds |= {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
                if p.rotary_cos:  # the operator reads rows up to the last position
                    feeds |= {n: self.arrays.held(self.arrays.view(f"rotary_{n}"), dtype) for n in ("cos", "sin")}
                attributes |= {"do_rotary": 1, "rotary_interleaved": int(p.rotary.style.value == "interleaved")}
            return attributes
        attributes |= {} if p.layout is BHSD else {"q_num_heads": p.heads, "kv_num_heads": p.kv_heads}
        if not native(p, op):
            feeds["bias"] = plugin.visible_keys(p, p.cache_rows)
            return attributes
        if op is Op.ATTENTION_24 and not found & {Form.PLAIN, Form.TOP_LEFT}:
            feeds["valid"] = lengths.astype(np.int64)
        return attributes | {"is_causal": int(not plain)}
