"""The null backend's session: numpy on the arena, in the worker."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import ml_dtypes  # noqa: F401 - registers bfloat16 with numpy
import numpy as np

from fmha_cli import api, plugin
from fmha_null.attention import F32, Array, OneSequence, combine, partial
from fmha_null.behaviour import after_launch, before_launch
from fmha_null.kernels import Behaviour, NullAlgorithm
from fmha_null.use import use_of

O_ACC, LSE_ACC = "o_acc", "lse_acc"
"""Workspaces of a split plan: fp32 (splits, rows x heads, hdim_v) and fp32 (splits, rows x heads)."""

_NUMPY = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int32": "int32", "uint8": "float32"}
"""Element types of the arena; this backend keeps float32 in its workspaces."""


class NullSession:
    """Computes one plan; see ``fmha_cli.plugin.Session`` for the contract of the methods."""

    def __init__(self, device: str = "null") -> None:
        self._use = use_of(device)
        self._plan: plugin.Plan | None = None
        self._tensors: dict[str, Array] = {}
        self._behaviour, self._threads = Behaviour.HONEST, 1
        self._launches = 0

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        for stage, path in zip(plan.stages, artifacts, strict=True):
            if json.loads(path.read_text("utf-8"))["kernel"] != stage.kernel.name:
                raise api.KernelFailure(f"{path} is not the artifact of {stage.kernel.name}", code="K951")
        algorithm = plan.main.algorithm
        assert isinstance(algorithm, NullAlgorithm)
        self._plan, self._behaviour = plan, algorithm.behaviour

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        self._threads = threads
        self._tensors = {name: _array(arena, tensor) for name, tensor in tensors.items()}

    def upload(self) -> None:
        """Nothing to do: the arena is the device's memory."""

    def launch(self) -> tuple[int, ...]:
        assert self._plan is not None
        with self._use():
            return self._launch()

    def _launch(self) -> tuple[int, ...]:
        assert self._plan is not None
        start = time.perf_counter_ns()
        times = [start]
        if before_launch(self._behaviour):
            if len(self._plan.stages) == 1:
                self._whole()
            else:
                self._split()
                times.append(time.perf_counter_ns())
                self._combine()
            after_launch(self._behaviour, self._tensors, self._launches)
        self._launches += 1
        times.append(time.perf_counter_ns())
        return tuple(b - a for a, b in pairwise(times))

    def download(self) -> None:
        """Nothing to do."""

    def evict_caches(self) -> None:
        """Nothing to do: this backend makes no claim about speed."""

    def close(self) -> None:
        self._tensors = {}

    def _heads(self) -> list[tuple[OneSequence, int]]:
        assert self._plan is not None
        p = self._plan.problem
        views = [OneSequence(p, self._tensors, b) for b in range(p.batch)]
        return [(view, h) for view in views for h in range(p.heads)]

    def _whole(self) -> None:
        for view, h in self._heads():
            cuts = [0, *self._cuts(view), view.seqlen_k]
            parts = [partial(view, h, first, end) for first, end in pairwise(cuts)]
            self._store(view, h, *combine(parts, view.sink_logit(h)))

    def _cuts(self, view: OneSequence) -> list[int]:
        """Where a planted order cuts the keys of a sequence."""
        keys = view.seqlen_k
        match self._behaviour:
            case Behaviour.ORDER_BY_THREADS:
                return [keys * n // self._threads for n in range(1, self._threads)]
            case Behaviour.TILE_BY_PLACE:
                return [min(keys, 1 + view.b)]
        return []

    def _split(self) -> None:
        """Stage ``fwd_splitkv``: writes each split's O and LSE to the workspaces."""
        at = 0
        for view, h in self._heads():
            for split, (o_acc, lse_acc) in enumerate(self._accumulators(at, view.seqlen_q)):
                first, end = self._range(split, view.seqlen_k)
                o_acc[...], lse_acc[...] = partial(view, h, first, end)
            at += view.seqlen_q

    def _combine(self) -> None:
        """Stage ``fwd_splitkv_combine``."""
        at = 0
        for view, h in self._heads():
            self._store(view, h, *combine(self._accumulators(at, view.seqlen_q), view.sink_logit(h)))
            at += view.seqlen_q

    def _accumulators(self, at: int, rows: int) -> list[tuple[F32, F32]]:
        assert self._plan is not None
        p, splits = self._plan.problem, self._plan.splits
        o_acc = self._tensors[O_ACC].reshape(splits, -1, p.hdim_v)
        lse_acc = self._tensors[LSE_ACC].reshape(splits, -1)
        return [(o_acc[n, at : at + rows], lse_acc[n, at : at + rows]) for n in range(splits)]

    def _range(self, split: int, keys: int) -> tuple[int, int]:
        assert self._plan is not None
        each = -(-keys // self._plan.splits)
        return min(split * each, keys), min((split + 1) * each, keys)

    def _store(self, view: OneSequence, h: int, o: F32, lse: F32) -> None:
        target = view.rows("o", h)
        target[...] = o.astype(target.dtype)
        if "lse" in self._tensors:
            view.lse(h)[...] = lse


def _array(arena: memoryview, tensor: plugin.BoundTensor) -> Array:
    dtype = np.dtype(_NUMPY[tensor.dtype])
    if tensor.dtype == "uint8":
        return np.frombuffer(arena, dtype, tensor.shape[0] // dtype.itemsize, tensor.offset)
    rows = np.frombuffer(arena, dtype, (len(arena) - tensor.offset) // dtype.itemsize, tensor.offset)
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    return np.ndarray(tensor.shape, dtype, rows, strides=strides)
