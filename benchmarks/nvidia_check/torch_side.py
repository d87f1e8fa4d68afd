"""PyTorch's side of the comparison: the inputs, the timing of its operators, and the machine's ceilings as PyTorch reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from fmha_cli.bench.stats import median, median_interval
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import bias_shape
from fmha_cli.oracle.tensors import Array
from nvidia_check.results import Result
from nvidia_check.rivals import RIVALS, Inputs
from nvidia_check.speed_points import Point

GRAPH_NS = 1_000_000
"""The target length of one timed graph, which repeats the operator."""
MOST_IN_GRAPH = 64
GEMM = 8192
COPY_BYTES = 4 << 30
_CEILING_SAMPLES = 15


class Torch:
    """One device; after :meth:`draw`, one problem's tensors in layout bshd, drawn from a normal distribution."""

    def __init__(self, index: int) -> None:
        import torch

        self.torch, self.device = torch, f"cuda:{index}"
        torch.cuda.set_device(index)
        self.captured = False
        self.outputs: tuple[str, ...] = ()
        self._tensors: dict[str, Any] = {}
        self._inputs: Inputs | None = None

    def draw(self, problem: Problem, point: Point) -> None:
        """Make the inputs of a point."""
        torch = self.torch
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[problem.dtype.value]
        generator = torch.Generator(self.device).manual_seed(1)

        def normal(*shape: int) -> Any:
            return torch.randn(shape, generator=generator, device=self.device, dtype=torch.float32).to(kind)

        rows, keys = (problem.batch, problem.seqlen_q), (problem.batch, problem.seqlen_k)
        q = normal(*rows, problem.heads, problem.hdim)
        k, v = (normal(*keys, problem.kv_heads, dim) for dim in (problem.hdim, problem.hdim_v))
        do = normal(*rows, problem.heads, problem.hdim_v) if point.kind == "backward" else None
        shape = bias_shape(problem)
        bias = None if shape is None else normal(*shape)
        self._tensors = {"q": q, "k": k, "v": v} | ({} if bias is None else {"bias": bias})
        whole = None if bias is None else bias.expand(problem.batch, problem.heads, *bias.shape[2:])
        self._inputs = Inputs(q, k, v, whole, do, point.causal, problem.scale)

    def operator(self, name: str, problem: Problem, point: Point) -> Callable[[], Any]:
        """A call of a rival's operator on the inputs. That of the first rival gives the outputs to compare with."""
        x, rival, first = self._inputs, RIVALS[name], not self.outputs
        assert x is not None
        # FlashAttention's kernels write the LSE in any case.
        forward = rival.forward(x, lse=point.kind == "backward" or problem.lse)
        saved = forward()
        if point.kind != "backward":
            self._keep(first, {"o": saved[0]})
            return forward
        backward = rival.backward(x, saved)
        found = dict(zip(("dq", "dk", "dv", "dbias"), backward(), strict=False))
        if first:
            self._tensors |= {"o": saved[0], "lse": saved[1][..., : problem.seqlen_q], "do": x.do}
        if not problem.dbias:
            found.pop("dbias", None)
        elif first:
            found["dbias"] = found["dbias"].float().sum_to_size(bias_shape(problem))
        self._keep(first, found)
        return backward

    def _keep(self, first: bool, outputs: Mapping[str, Any]) -> None:
        if first:
            self._tensors |= outputs
            self.outputs = tuple(outputs)

    def kernels(self, call: Callable[[], Any]) -> list[str]:
        """The kernels that a call launches, as PyTorch's profiler names them; none if it cannot see them."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
            call()
            self.torch.cuda.synchronize()
        cuda = self.torch.autograd.DeviceType.CUDA
        return [event.name for event in seen.events() if event.device_type == cuda]

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
        self._tensors, self._inputs, self.outputs = {}, None, ()
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
