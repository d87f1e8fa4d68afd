"""The session: a graph of ggml on tensors that stay in the arena where their type is the cache's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli import api, plugin
from fmha_ggml.kernels import MAX_BIAS, Cache, Form, way_of

BHSD, BSHD = plugin.Layout.BHSD, plugin.Layout.BSHD
TYPES = {"float32": 0, "float16": 1, "bfloat16": 30, Cache.Q4_0: 2, Cache.Q8_0: 8}
"""numpy's names, and types that numpy lacks -> ``ggml_type``."""
BLOCKS = {Cache.Q4_0: 18, Cache.Q8_0: 34}
"""Bytes of 32 elements."""
NODES, QUIET = 16, {"GOMP_SPINCOUNT": "2000"}
Pointer, Float, Int, Size, Text = ctypes.c_void_p, ctypes.c_float, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p


class Tensor(ctypes.Structure):
    """The head of ``struct ggml_tensor``: ``ne`` and ``nb`` start at the innermost axis."""

    _fields_ = (
        ("type", Int), ("buffer", Pointer), ("ne", ctypes.c_int64 * 4), ("nb", Size * 4), ("op", Int), ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32), ("src", Pointer * 10), ("view_src", Pointer), ("view_offs", Size), ("data", Pointer),
    )  # fmt: skip


class Memory(ctypes.Structure):
    """``struct ggml_init_params``."""

    _fields_ = (("size", Size), ("buffer", Pointer), ("no_alloc", ctypes.c_bool))


Node = ctypes.POINTER(Tensor)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "version": (Text,),
    "init": (Pointer, Memory),
    "new_tensor_4d": (Node, Pointer, Int, *[ctypes.c_int64] * 4),
    "flash_attn_ext": (Node, Pointer, Node, Node, Node, Node, Float, Float, Float),
    "flash_attn_ext_add_sinks": (None, Node, Node),
    "mul_mat": (Node, Pointer, Node, Node),
    "scale_inplace": (Node, Pointer, Node, Float),
    "tanh_inplace": (Node, Pointer, Node),
    "soft_max_ext_inplace": (Node, Pointer, Node, Node, Float, Float),
    "soft_max_add_sinks": (None, Node, Node),
    "new_graph": (Pointer, Pointer),
    "build_forward_expand": (None, Pointer, Node),
    "graph_n_nodes": (Int, Pointer),
    "graph_node": (Node, Pointer, Int),
    "op_desc": (Text, Node),
    "quantize_chunk": (Size, Int, Pointer, Pointer, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, Pointer),
    "get_data": (Pointer, Node),
    "backend_cpu_init": (Pointer,),
    "backend_cpu_set_n_threads": (None, Pointer, Int),
    "backend_cpu_buffer_type": (Pointer,),
    "backend_graph_compute": (Int, Pointer, Pointer),
    "gallocr_new": (Pointer, Pointer),
    "gallocr_alloc_graph": (ctypes.c_bool, Pointer, Pointer),
    "gallocr_free": (None, Pointer),
    "backend_free": (None, Pointer),
    "free": (None, Pointer),
}
"""What a function returns, and what it takes."""


@cache
def library() -> Mapping[str, Callable[..., Any]]:
    """The functions by name, without ``ggml_``. Raises KernelFailure: tensors have another form in this release."""
    found = find_spec("xllamacpp")
    folder = Path((found.submodule_search_locations or [""])[0] if found else "")
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # read when it aborts: the trace takes seconds, the message stays
    with plugin.environment(QUIET):  # idle threads sleep, since spinning ones slow the next row
        loaded = ctypes.CDLL(str(next(folder.glob("xllamacpp*.so"))))
    functions = dict[str, Callable[..., Any]]()
    for name, (result, *arguments) in FUNCTIONS.items():
        functions[name] = function = getattr(loaded, f"ggml_{name}")
        function.restype, function.argtypes = result, arguments
    context = functions["init"](Memory(1 << 16, None, False))
    node = functions["new_tensor_4d"](context, TYPES["float32"], 2, 3, 5, 7)
    form, data = ([*node.contents.ne], [*node.contents.nb]), node.contents.data
    same = form == ([2, 3, 5, 7], [4, 8, 24, 120]) and data == functions["get_data"](node)
    functions["free"](context)
    if not same:
        raise api.KernelFailure(
            "tensors of this release of ggml have another form", code="X026", help="fmha doctor ggml"
        )
    return functions


class GgmlSession(plugin.LibrarySession):
    """One graph. K and V of another type than the cache's, and V transposed, are made before the time, as a cache is."""

    owned: tuple[tuple[str, Any], ...] = ()  # what frees each thing; nothing if ``bind`` failed at once

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        p, of, f32 = self.problem, way_of(self.plan.main), np.dtype(np.float32)
        self.ggml, self.arrays = library(), plugin.HostArrays(p, arena, tensors)
        self.context = self._own("free", self.ggml["init"](Memory(1 << 20, None, True)))
        self.cached, self.made = list[tuple[np.ndarray, np.ndarray, Cache]](), 0
        self.mask, self.pieces = self._mask(of.form), list[np.ndarray]()
        q, sinks = self.arrays.view("q", BHSD), None
        q = self._node(q if q.dtype == f32 else self.arrays.held(q, f32))
        k, v = (self._cache(name, of.cache, turned=name == "v" and of.form is Form.UNFUSED) for name in "kv")
        mask = None if self.mask is None else self._node(self.mask)
        if p.sink_logits:
            sinks = self._node(self.arrays.held(self.arrays.view("sink_logits"), f32)[None, None, None])
        max_bias = MAX_BIAS if p.alibi is not plugin.Alibi.NONE else 0.0
        if of.form is Form.FLASH:
            o = self._new("flash_attn_ext", q, k, v, mask, p.scale, max_bias, p.softcap)
            if sinks is not None:
                self.ggml["flash_attn_ext_add_sinks"](o, sinks)
        else:
            scores, scale = self._new("mul_mat", k, q), p.scale
            if p.softcap:
                scores = self._new("scale_inplace", scores, p.scale / p.softcap)
                scores, scale = self._new("tanh_inplace", scores), p.softcap
            if p.softcap and mask is not None:  # soft_max_ext scales before it adds the mask
                scores, scale = self._new("scale_inplace", scores, scale), 1.0
            weights = self._new("soft_max_ext_inplace", scores, mask, scale, max_bias)
            if sinks is not None:
                self.ggml["soft_max_add_sinks"](weights, sinks)
            o = self._new("mul_mat", v, weights)
        order = BSHD if of.form is Form.FLASH else BHSD  # of the result, which is f32 and without gaps
        self.y = self.arrays.held(self.arrays.view("o", order), f32, read=False, written=True)
        o.contents.data = self.y.ctypes.data
        self.graph = self.ggml["new_graph"](self.context)
        self.ggml["build_forward_expand"](self.graph, o)
        space = self._own("gallocr_free", self.ggml["gallocr_new"](self.ggml["backend_cpu_buffer_type"]()))
        if not self.ggml["gallocr_alloc_graph"](space, self.graph):
            raise MemoryError
        self.backend = self._own("backend_free", self.ggml["backend_cpu_init"]())
        self.ggml["backend_cpu_set_n_threads"](self.backend, threads)

    def upload(self) -> None:
        """Fill the cache and the mask from the tensors."""
        for target, source, kind in self.cached:
            if kind.quantized:
                rows = np.ascontiguousarray(source, np.float32)
                count, width, to = rows.size // rows.shape[-1], rows.shape[-1], target.ctypes.data
                self.ggml["quantize_chunk"](TYPES[kind], rows.ctypes.data, to, 0, count, width, None)
            else:
                np.copyto(target, source)
        if self.mask is not None:
            added = self.arrays.view("bias") if "bias" in self.arrays else self.distance
            np.copyto(self.mask, np.where(self.sees, added, -np.inf), casting="unsafe")

    def run(self) -> None:
        if status := self.ggml["backend_graph_compute"](self.backend, self.graph):
            raise RuntimeError(f"ggml_backend_graph_compute returns {status}")

    def remarks(self) -> tuple[str, ...]:
        """The operators that ran, beside the copies."""
        nodes = (self.ggml["graph_node"](self.graph, n) for n in range(self.ggml["graph_n_nodes"](self.graph)))
        ran, of = [self.ggml["op_desc"](node).decode() for node in nodes], way_of(self.plan.main)
        said = f"ggml {self.ggml['version']().decode()} ran {', '.join(ran)}, cache {of.cache.value}"
        first = f"; {self.made:,} bytes of K and V are converted or turned before the time" if self.made else ""
        return (said + first, *super().remarks())

    def close(self) -> None:
        for name, thing in reversed(self.owned):
            self.ggml[name](thing)
        self.owned = ()

    def _own(self, name: str, thing: Any) -> Any:
        self.owned = (*self.owned, (name, thing))
        return thing

    def _new(self, name: str, *arguments: Any) -> Any:
        return self.ggml[name](self.context, *arguments)

    def _node(self, array: np.ndarray, kind: Cache | None = None) -> Any:
        """A tensor on an array's memory. Rows may have gaps between them, and be in any order."""
        sizes = [*array.shape[::-1]] if kind is None else [array.shape[3] // BLOCKS[kind] * 32, *array.shape[2::-1]]
        node = self._new("new_tensor_4d", TYPES[kind or str(array.dtype)], *sizes)
        node.contents.data, self.pieces = array.ctypes.data, [*self.pieces, array]
        for axis, step in enumerate(array.strides[2::-1], 1):
            node.contents.nb[axis] = step
        return node

    def _cache(self, name: str, kind: Cache, *, turned: bool) -> Any:
        """K or V: the tensor itself, or an array that ``upload`` fills; ``turned`` has the keys as its last axis."""
        view = self.arrays.view(name, BHSD)
        source = view.swapaxes(2, 3) if turned else view
        own = {"float32": Cache.F32, "float16": Cache.F16, "bfloat16": Cache.BF16}[str(view.dtype)] is kind
        if own and not turned and view.strides[3] == view.itemsize:
            return self._node(view)
        shape, dtype = source.shape, np.dtype(np.float32) if kind is Cache.F32 else view.dtype
        if kind.quantized:
            shape, dtype = (*shape[:3], shape[3] // 32 * BLOCKS[kind]), np.dtype(np.uint8)
        self.cached.append((array := np.empty(shape, dtype), source, kind))
        self.made += array.nbytes
        return self._node(array, kind if kind.quantized else None)

    def _mask(self, form: Form) -> np.ndarray | None:
        """What is added to the scores: f16 in the fused form, f32 in the other. None adds nothing."""
        p, dtype = self.problem, np.float16 if form is Form.FLASH else np.float32
        self.sees, self.distance = plugin.visible_keys(p, p.cache_rows), np.zeros((1, 1, 1, 1), np.float32)
        if p.alibi is not plugin.Alibi.NONE:
            i, j = np.arange(p.seqlen_q)[:, None], np.arange(p.cache_rows)[None]
            deltas = np.array([p.mask.delta(p.seqlen_q, keys) for keys in p.key_lengths()])
            self.distance = -np.abs(i + deltas[:, None, None, None] - j).astype(np.float32)
        elif "bias" not in self.arrays and self.sees.all():
            return None
        added = self.arrays.view("bias") if "bias" in self.arrays else self.distance
        return np.empty(np.broadcast_shapes(self.sees.shape, added.shape), dtype)
