"""PyTorch's side of the comparison: its operators, their timing, and the machine's ceilings as PyTorch reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from fa_check.results import Result
from fa_check.speed_points import Point
from fmha_cli.domain.problem import Problem
from fmha_cli.measure.stats import median, median_interval
from fmha_cli.oracle.tensors import Array

GRAPH_NS = 1_000_000
"""The target length of one timed graph, which repeats the operator."""
MOST_IN_GRAPH = 64
GEMM = 8192
COPY_BYTES = 4 << 30
_CEILING_SAMPLES = 15


def operators() -> tuple[Any, Any]:
    """The forward and backward operators of PyTorch's bundled FlashAttention-2.

    Raises:
        ImportError: PyTorch is not installed. AttributeError: this PyTorch lacks the operators.
    """
    import torch

    return torch.ops.aten._flash_attention_forward.default, torch.ops.aten._flash_attention_backward.default


class Torch:
    """One device; after :meth:`operator`, one problem's tensors in layout bshd, drawn from a normal distribution."""

    def __init__(self, index: int) -> None:
        import torch

        self.torch, self.device = torch, f"cuda:{index}"
        torch.cuda.set_device(index)
        self.captured = False
        self.outputs: tuple[str, ...] = ()
        self._tensors: dict[str, Any] = {}

    def operator(self, problem: Problem, point: Point) -> Callable[[], Any]:
        """A call of the operator for a point, on fresh inputs; its outputs are available afterwards."""
        torch, (forward, backward) = self.torch, operators()
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[problem.dtype.value]
        generator = torch.Generator(self.device).manual_seed(1)

        def normal(rows: int, heads: int) -> Any:
            shape = (problem.batch, rows, heads, problem.hdim)
            return torch.randn(shape, generator=generator, device=self.device, dtype=torch.float32).to(kind)

        q, k, v = (normal(problem.seqlen_q, problem.heads), *(normal(problem.seqlen_k, problem.kv_heads) for _ in "kv"))
        sizes = (problem.seqlen_q, problem.seqlen_k)

        def run_forward() -> Any:
            return forward(q, k, v, None, None, *sizes, 0.0, point.causal, False, scale=problem.scale)

        o, lse, rng_state, unused = run_forward()[:4]
        self._tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
        self.outputs = ("o",)
        if point.kind != "backward":
            return run_forward
        do = normal(problem.seqlen_q, problem.heads)

        def run_backward() -> Any:
            given = (do, q, k, v, o, lse, None, None, *sizes, 0.0, point.causal, rng_state, unused)
            return backward(*given, scale=problem.scale)

        self._tensors |= {"do": do} | dict(zip(("dq", "dk", "dv"), run_backward(), strict=True))
        self.outputs = ("dq", "dk", "dv")
        return run_backward

    def arrays(self) -> dict[str, Array]:
        """The tensors on the host."""
        return {name: self._host(tensor) for name, tensor in self._tensors.items()}

    def _host(self, tensor: Any) -> Array:
        if tensor.dtype is self.torch.bfloat16:
            bits: Array = tensor.contiguous().view(self.torch.int16).cpu().numpy()
            return bits.view(ml_dtypes.bfloat16)
        plain: Array = tensor.contiguous().cpu().numpy()
        return plain

    def difference(self, others: Mapping[str, Array]) -> float:
        """The largest difference to this side's outputs, relative to the largest value of each; inf if not finite."""
        worst = 0.0
        for name, array in others.items():
            mine, other = (np.asarray(a, np.float32) for a in (self._host(self._tensors[name]), array))
            off = float(np.abs(mine - other).max() / np.abs(mine).max())
            worst = max(worst, off if np.isfinite(off) else float("inf"))
        return worst

    def timed(self, call: Callable[[], Any]) -> Callable[[int], tuple[tuple[int, ...], ...]]:
        """Nanoseconds of single calls: events around the replay of a graph of several calls, or around one call."""
        torch = self.torch
        once = self.events(call)
        count = min(MOST_IN_GRAPH, max(1, GRAPH_NS // max(1, once)))
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                for _ in range(count):
                    call()
        except RuntimeError:
            self.captured, run, count = False, call, 1
        else:
            self.captured, run = True, graph.replay
        return lambda n: tuple((self.events(run) // count,) for _ in range(n))

    def events(self, run: Callable[[], Any]) -> int:
        """The device time of one call, in nanoseconds."""
        torch = self.torch
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        run()
        last.record()
        last.synchronize()
        return max(1, round(first.elapsed_time(last) * 1e6))

    def forget(self) -> None:
        """Free the tensors."""
        self._tensors = {}
        self.torch.cuda.empty_cache()


def ceilings(side: Torch) -> Iterator[Result]:
    """The best rates of the machine through PyTorch: a large matrix product and a large copy."""
    for measure in (_gemm, _copy):
        yield measure(side)
        side.forget()


def _gemm(side: Torch) -> Result:
    torch = side.torch
    a, b = (torch.randn(GEMM, GEMM, device=side.device).to(torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    return _ceiling(side, f"GEMM {GEMM}^3 bf16", lambda: torch.mm(a, b, out=c), 2 * GEMM**3 / 1e3, "TFLOP/s")


def _copy(side: Torch) -> Result:
    torch = side.torch
    source = torch.randint(0, 255, (COPY_BYTES,), dtype=torch.uint8, device=side.device)
    target = torch.empty_like(source)
    name = f"copy of {COPY_BYTES >> 30} GiB, read and written"
    return _ceiling(side, name, lambda: target.copy_(source), 2 * COPY_BYTES, "GB/s")


def _ceiling(side: Torch, name: str, run: Callable[[], Any], work: float, unit: str) -> Result:
    for _ in range(3):
        run()
    times = [side.events(run) for _ in range(_CEILING_SAMPLES)]
    rate = work / median(times)
    figures = {"ns": median(times), "ci95": median_interval(times), "rate": rate, "unit": unit}
    return Result("ceilings", name, verdict="UNCHECKED", figures={**figures, "line": f"{rate:9.1f} {unit}"})
