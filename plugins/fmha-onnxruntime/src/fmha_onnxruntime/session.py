"""The session: one operator in a model of its own, on tensors that stay in the arena where their form allows it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

from fmha_cli import api
from fmha_onnxruntime.kernels import Op
from fmha_onnxruntime.model import model
from fmha_onnxruntime.rules import Form, forms, native, op_of

Array = np.ndarray[Any, Any]
FAILURES = tuple(e for e in vars(state).values() if isinstance(e, type) and issubclass(e, Exception))
NAMES = {Op.GQA: "GroupQueryAttention", Op.MHA: "MultiHeadAttention"}
DTYPES = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}


def visible(p: api.Problem, rows: int) -> Array:
    """Which keys a query sees, (batch or 1, 1, seqlen_q, rows)."""
    lengths = [*dict.fromkeys(p.key_lengths())] if len({*p.key_lengths()}) == 1 else p.key_lengths()
    i, j = np.arange(p.seqlen_q)[:, None], np.arange(rows)[None]
    planes = []
    for length in lengths:
        at = i + p.mask.delta(p.seqlen_q, length)
        right = j < length if p.mask.right is None else (j <= at + p.mask.right) & (j < length)
        planes.append(right if p.mask.left is None else right & ((j >= at - p.mask.left) | (j < p.sink)))
    return np.stack([np.broadcast_to(plane, (p.seqlen_q, rows)) for plane in planes])[:, None].copy()


class OrtSession(api.HostSession):
    """One model with its bound tensors."""

    said: tuple[str, ...] = ()

    def load(self, plan: api.Plan, artifacts: Sequence[Path]) -> None:
        self.problem, self.op = plan.problem, op_of(plan.main)

    def bind(self, arena: memoryview, tensors: Mapping[str, api.BoundTensor], threads: int) -> None:
        p, op = self.problem, self.op
        self.into: list[tuple[Array, Array]] = []
        self.out: list[tuple[Array, Array]] = []
        self.kept: list[Array] = []
        self.arena, self.tensors = arena, tensors
        four = op.standard and p.layout is api.Layout.BHSD
        dtype = DTYPES[p.dtype.value]
        past = 0 if op is not Op.GQA or "k_new" in tensors else p.seqlen_k - p.seqlen_q
        new = ("k_new", "v_new") if "k_new" in tensors and op is Op.GQA else ("k", "v")
        feeds = {"q": self._placed("q", four)}
        feeds |= {key: self._placed(name, four, first=past) for key, name in zip("kv", new, strict=True)}
        cached = new != ("k", "v")
        if cached or past > 0:
            feeds |= {f"past_{n}": self._placed(n, True, end=None if cached else past, written=cached) for n in "kv"}
        more, attributes = self._options(threads)
        feeds |= more
        y = self._output(four, dtype)
        outputs = {"y": y} | ({"present_k": feeds["past_k"], "present_v": feeds["past_v"]} if cached else {})
        nodes = ["y", "present_k", "present_v"] if op is Op.GQA else ["y"]
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
        for pool in ("intra", "inter"):
            options.add_session_config_entry(f"session.{pool}_op.allow_spinning", "0")
        order = self._order()
        while order[-1] not in feeds:
            order.pop()
        text = model(
            NAMES.get(op, "Attention"),
            op.opset,
            "" if op.standard else "com.microsoft",
            [name if name in feeds else "" for name in order],
            {name: (str(a.dtype), a.shape) for name, a in feeds.items()},
            nodes,
            str(dtype),
            attributes,
        )
        self.running = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        self.io = self.running.io_binding()
        for name, a in feeds.items():
            self.io.bind_input(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
        for name in nodes:
            if name in outputs:
                a = outputs[name]
                self.io.bind_output(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
            else:
                self.io.bind_output(name, "cpu")
        self.kept = [*feeds.values(), *outputs.values()]
        copied = sum(target.nbytes for target, _ in (*self.into, *self.out))
        if copied:
            self.notes = (f"copies {copied:,} bytes in each launch: the operator takes contiguous tensors in its own order of axes",)

    def launch(self) -> tuple[int, ...]:
        start = time.perf_counter_ns()
        for target, source in self.into:
            np.copyto(target, source)
        try:
            self.running.run_with_iobinding(self.io)
        except FAILURES as fault:
            raise api.KernelFailure(" ".join(str(fault).split()), code="K939") from fault
        for target, source in self.out:
            np.copyto(target, source)
        return (time.perf_counter_ns() - start,)

    def _order(self) -> list[str]:
        """The operator's inputs, in its order."""
        if self.op is Op.MHA:
            return ["q", "k", "v", "", "", "bias"]
        if self.op is Op.GQA:
            return ["q", "k", "v", "past_k", "past_v", "last", "total", "cos", "sin", "", "bias", "sinks"]
        return ["q", "k", "v", "bias", "", "", "valid"]

    def _heads(self, name: str) -> Array:
        """A tensor in the arena as (batch, heads, rows, dims)."""
        p, t = self.problem, self.tensors[name]
        dtype = DTYPES[t.dtype]
        array: Array = np.ndarray(t.shape, dtype, self.arena, t.offset, [dtype.itemsize * step for step in t.strides])
        layout = p.layout_out if name == "o" else p.layout
        return array if name == "bias" or layout is api.Layout.BHSD else array.swapaxes(1, 2)

    def _placed(self, name: str, four: bool, *, first: int = 0, end: int | None = None, written: bool = False) -> Array:
        """Rows ``first`` to ``end`` of a tensor as the operator takes them: where they are, or copied in each launch."""
        view = self._heads(name)[:, :, first:end]
        view = view if four else view.swapaxes(1, 2)
        held = view if view.flags.c_contiguous else np.empty(view.shape, view.dtype)
        if held is not view:
            self.into.append((held, view))
            self.out += [(view, held)] if written else []
        return held if four else held.reshape(*held.shape[:2], -1)

    def _output(self, four: bool, dtype: np.dtype[Any]) -> Array:
        view = self._heads("o")
        view = view if four else view.swapaxes(1, 2)
        held = view if view.flags.c_contiguous else np.empty(view.shape, dtype)
        self.out += [] if held is view else [(view, held)]
        return held if four else held.reshape(*held.shape[:2], -1)

    def _options(self, threads: int) -> tuple[dict[str, Array], dict[str, int | float]]:
        """The further inputs, and the attributes."""
        p, op, feeds = self.problem, self.op, dict[str, Array]()
        found, lengths = forms(p), np.array(p.key_lengths())
        rows = self._heads("k").shape[2]
        if "bias" in self.tensors:
            feeds["bias"] = self._placed("bias", True)
        if op is Op.MHA:
            return feeds, {"num_heads": p.heads, "scale": p.scale, "unidirectional": int(Form.PLAIN not in found)}
        attributes: dict[str, int | float] = {"scale": p.scale, "softcap": float(p.softcap)}
        if op is Op.GQA:
            feeds |= {"last": (lengths - 1).astype(np.int32), "total": np.array(lengths.max(), np.int32)}
            attributes |= {"num_heads": p.heads, "kv_num_heads": p.kv_heads}
            attributes |= {} if p.mask.left is None else {"local_window_size": p.mask.left + 1}
            if p.sink_logits:
                feeds["sinks"] = self._sinks()
            return feeds, attributes | self._rotary(feeds)
        if p.layout is not api.Layout.BHSD:
            attributes |= {"q_num_heads": p.heads, "kv_num_heads": p.kv_heads}
        if not native(p, op):
            return feeds | {"bias": visible(p, rows)}, attributes
        plain = Form.PLAIN in found
        if op is Op.ATTENTION_24 and (lengths.min() < rows or not (plain or Form.TOP_LEFT in found)):
            feeds["valid"] = lengths.astype(np.int64)
        return feeds, attributes | {"is_causal": int(not plain)}

    def _sinks(self) -> Array:
        """The learned sinks in the type of the other tensors; they are fp32 in the arena."""
        t = self.tensors["sink_logits"]
        source: Array = np.ndarray(t.shape, np.float32, self.arena, t.offset)
        if self.problem.dtype is api.DType.FP32:
            return source
        held = np.empty(t.shape, np.float16)
        self.into.append((held, source))
        return held

    def _rotary(self, feeds: dict[str, Array]) -> dict[str, int | float]:
        """The tables of the rotary embedding (base 10000), and its attributes."""
        p = self.problem
        if not p.rotary.dim:
            return {}
        steps = 10000.0 ** (-np.arange(0, p.rotary.dim, 2) / p.rotary.dim)
        angles = np.arange(p.cache_rows)[:, None] * steps
        dtype = DTYPES[p.dtype.value]
        feeds |= {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
        return {"do_rotary": 1, "rotary_interleaved": int(p.rotary.style.value == "interleaved")}
