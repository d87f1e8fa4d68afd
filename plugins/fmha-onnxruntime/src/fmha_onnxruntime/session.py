"""The session: one operator in a model of its own, on tensors that stay in the arena where their form allows it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fmha_cli import api
from fmha_onnxruntime.kernels import Op, op_of
from fmha_onnxruntime.model import one_node
from fmha_onnxruntime.rules import Form, native

FAILURES = (RuntimeError, *(e for e in vars(state).values() if isinstance(e, type) and issubclass(e, Exception)))
BSHD, BHSD = api.Layout.BSHD, api.Layout.BHSD
OPS = {
    Op.GQA: ("GroupQueryAttention", 0, "q k v past_k past_v last total cos sin - bias sinks"),
    Op.MHA: ("MultiHeadAttention", 0, "q k v - - bias"),
    Op.ATTENTION_24: ("Attention", 24, "q k v bias - - valid"),
    Op.ATTENTION_23: ("Attention", 23, "q k v bias"),
}
"""Name, opset (0: the library's own domain) and inputs of every operator."""


class OrtSession(api.HostSession):
    """One model with its bound tensors. Its threads do not spin, because other rows may be timed in turns with it."""

    def load(self, plan: api.Plan, artifacts: Sequence[Path]) -> None:
        self.problem, self.op = plan.problem, op_of(plan.main)

    def bind(self, arena: memoryview, tensors: Mapping[str, api.BoundTensor], threads: int) -> None:
        p, op, arrays = self.problem, self.op, api.HostArrays(self.problem, arena, tensors)
        self.arrays, appends = arrays, op is Op.GQA and "k_new" in arrays
        order = BHSD if op.standard and p.layout is BHSD else BSHD
        feeds = {"q": arrays.given("q", order), **self._keys(order, appends=appends)}
        feeds = {name: array if order is BHSD else array.reshape(*array.shape[:2], -1) for name, array in feeds.items()}
        if appends:
            feeds |= {f"past_{n}": arrays.given(n, BHSD, written=True) for n in "kv"}
        elif op is Op.GQA and p.seqlen_k > p.seqlen_q:
            feeds |= {f"past_{n}": arrays.given(n, BHSD, slice(p.seqlen_k - p.seqlen_q)) for n in "kv"}
        attributes = self._options(feeds)
        if "bias" in arrays:
            feeds["bias"] = arrays.given("bias")
        y = arrays.taken("o", order)
        ends = {"y": y if order is BHSD else y.reshape(*y.shape[:2], -1)}
        ends |= {f"present_{n}": feeds[f"past_{n}"] for n in "kv" if appends}
        outputs = ["y", "present_k", "present_v"] if op is Op.GQA else ["y"]
        name, opset, inputs = OPS[op]
        text = one_node(name, opset, inputs.split(), feeds, outputs, attributes)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        for pool in ("intra", "inter"):
            options.add_session_config_entry(f"session.{pool}_op.allow_spinning", "0")
        self.running = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        self.bound = self.running.io_binding()
        for name, a in feeds.items():
            self.bound.bind_input(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
        for name in outputs:
            if name in ends:
                a = ends[name]
                self.bound.bind_output(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
            else:
                self.bound.bind_output(name, "cpu")
        self.kept = (feeds, ends)  # the library has their addresses only

    def launch(self) -> tuple[int, ...]:
        start = time.perf_counter_ns()
        self.arrays.before()
        try:
            self.running.run_with_iobinding(self.bound)
        except FAILURES as fault:
            raise api.KernelFailure(" ".join(str(fault).split()), code="K939") from fault
        self.arrays.after()
        return (time.perf_counter_ns() - start,)

    def remarks(self) -> tuple[str, ...]:
        return self.arrays.remarks()

    def _keys(self, order: api.Layout, *, appends: bool) -> dict[str, np.ndarray]:
        """K and V of the operator's own inputs: all keys, or those that come with the queries."""
        if appends:
            return {n: self.arrays.given(f"{n}_new", order) for n in "kv"}
        first = max(0, self.problem.seqlen_k - self.problem.seqlen_q) if self.op is Op.GQA else 0
        return {n: self.arrays.given(n, order, slice(first, None)) for n in "kv"}

    def _options(self, feeds: dict[str, np.ndarray]) -> dict[str, float]:
        """The attributes; the inputs besides Q, K, V and a bias are added to ``feeds``."""
        p, op, found, lengths = (
            self.problem,
            self.op,
            api.mask_forms(self.problem),
            np.array(self.problem.key_lengths()),
        )
        if op is Op.MHA:
            return {"num_heads": p.heads, "scale": p.scale, "unidirectional": int(Form.PLAIN not in found)}
        attributes: dict[str, float] = {"scale": p.scale, "softcap": float(p.softcap)}
        if op is Op.GQA:
            feeds |= {"last": (lengths - 1).astype(np.int32), "total": np.array(lengths.max(), np.int32)}
            if p.sink_logits:
                feeds["sinks"] = self.arrays.held(self.arrays.view("sink_logits"), feeds["q"].dtype)
            if p.rotary.dim:
                steps = 10000.0 ** (-np.arange(0, p.rotary.dim, 2) / p.rotary.dim)
                angles = np.arange(p.cache_rows)[:, None] * steps
                feeds |= {
                    name: turn(angles).astype(feeds["q"].dtype) for name, turn in (("cos", np.cos), ("sin", np.sin))
                }
                attributes |= {"do_rotary": 1, "rotary_interleaved": int(p.rotary.style.value == "interleaved")}
            window = {} if p.mask.left is None or Form.WINDOW not in found else {"local_window_size": p.mask.left + 1}
            return {"num_heads": p.heads, "kv_num_heads": p.kv_heads, **attributes, **window}
        if p.layout is BSHD:
            attributes |= {"q_num_heads": p.heads, "kv_num_heads": p.kv_heads}
        if not native(p, op):
            feeds["bias"] = api.visible_keys(p, p.cache_rows)
            return attributes
        own = found & {Form.PLAIN, Form.TOP_LEFT}
        if op is Op.ATTENTION_24 and (not own or min(p.key_lengths()) < p.cache_rows):
            feeds["valid"] = lengths.astype(np.int64)
        return attributes | {"is_causal": int(Form.PLAIN not in found)}
