"""A plugin like one for PyTorch or Triton: it compiles nothing, has its own dropout stream and computes with numpy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli import api, plugin

STREAM = "checkers"


def kept(problem: api.Problem, b: int, h: Any, i: Any, first: int, end: int) -> Any:
    """The kept elements of P: a chessboard pattern that alternates by head and sequence."""
    return (b + h[:, None] + i[:, None] + np.arange(first, end)) % 2 == 0


class Session(plugin.HostSession):
    """Computes attention with numpy in the arena."""

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        self.problem = plan.problem
        if json.loads(artifacts[0].read_text("utf-8")) != {"kernel": plan.main.name}:
            raise api.KernelFailure("the artifact is another kernel's", code="K991")

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        """Store each tensor as (batch, heads, rows, dims), whatever its layout."""
        self.tensors = {}
        for name, t in tensors.items():
            array = np.ndarray(t.shape, "float32", arena, t.offset, [4 * step for step in t.strides])
            layout = self.problem.layout_out if name == "o" else self.problem.layout
            self.tensors[name] = array.swapaxes(1, 2) if layout is plugin.Layout.BSHD else array

    def remarks(self) -> tuple[str, ...]:
        return ("numpy was bound",)

    def launch(self) -> tuple[int, ...]:
        start = time.perf_counter_ns()
        p, t = self.problem, self.tensors
        rows = np.arange(p.seqlen_q)
        for b in range(p.batch):
            for h in range(p.heads):
                g = h * p.kv_heads // p.heads
                s = t["q"][b, h] @ t["k"][b, g].T * np.float32(p.scale)
                weights = np.exp(s - s.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                if p.dropout:
                    weights = weights * kept(p, b, np.full_like(rows, h), rows, 0, p.seqlen_k) / (1 - p.dropout)
                t["o"][b, h] = weights @ t["v"][b, g]
        return (time.perf_counter_ns() - start,)


class Backend:
    """Forward attention in fp32, without masks."""

    name = "framework"
    algorithm: type[plugin.Algorithm] = plugin.Algorithm
    dropout_stream = STREAM
    probes_in_parent = True
    automatic = False

    def probe(self) -> plugin.Availability:
        return plugin.Availability(state=plugin.State.OK, devices=(plugin.DeviceFacts(id="cpu", archs=self.archs()),))

    def archs(self) -> tuple[str, ...]:
        return ("generic",)

    def kernels(self, arch: plugin.ArchSpec) -> Iterator[api.KernelSpec]:
        base = plugin.Signature(dtype=plugin.DType.FP32, dtype_out=plugin.DType.FP32, hdim=1 << 20, hdim_v=1 << 20)
        signature = replace(base, gqa=plugin.Need.ANY, dropout=plugin.Need.ANY)
        yield api.KernelSpec(
            backend=self.name,
            family=plugin.Family.FWD,
            arch=arch.name,
            signature=signature,
            algorithm=plugin.Algorithm(),
        )

    def rules(self) -> tuple[plugin.Rule, ...]:
        return plugin.CORE_RULES

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
        for kernel in self.kernels(plugin.load_arch("generic")):
            reasons = tuple(plugin.reasons_against(self.rules(), problem, kernel, device))
            if reasons:
                yield api.Unsupported(self.name, kernel.arch, kernel, reasons)
            else:
                yield api.Supported(kernel, (0,))

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
        return plugin.Plan(problem, (plugin.Stage(kernel),))

    def build(self, stage: plugin.Stage, context: plugin.BuildContext) -> plugin.Artifact:
        return plugin.no_build(stage, context)

    def cache_key(self, stage: plugin.Stage, context: plugin.BuildContext) -> object:
        return plugin.no_build_key(stage)

    def inspect(self, kernel: api.KernelSpec, artifact: plugin.Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        return Session()


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [Backend()]


@plugin.hookimpl
def fmha_register_dropout_streams() -> dict[str, Any]:
    return {STREAM: kept}
