"""The session: PyTorch's kernels on the arena's tensors. Imported in the worker alone, and PyTorch with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import torch

from fmha_cli import api
from fmha_torch.attend import Attend, Tensor, attend_of, forced
from fmha_torch.kernels import Masking, TorchAlgorithm, Way, limits_of

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int32": torch.int32}
R = TypeVar("R")


class TorchSession(api.HostSession):
    """One loaded plan. On a GPU, PyTorch's own memory mirrors the arena."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._host = self._device.type == "cpu"

    def load(self, plan: api.Plan, artifacts: Sequence[Path]) -> None:
        self._plan, self._problem, self._kernel = plan, plan.problem, plan.main

    def bind(self, arena: memoryview, tensors: Mapping[str, api.BoundTensor], threads: int) -> None:
        """Make views of the tensors, compile what is compiled, and run the call once under the profiler."""
        torch.set_num_threads(threads)
        self._arena = torch.frombuffer(arena, dtype=torch.uint8)
        self._mirror = self._arena if self._host else self._arena.to(self._device)
        self._views = {name: self._in_heads(name, _view(self._mirror, t)) for name, t in tensors.items()}
        start = time.perf_counter()
        self._refresh()
        with self._mode(), forced(self._kernel):
            self._attend(*self._leaves)
        self._ready_s = time.perf_counter() - start
        self._seen = observed(self._once, self._host)

    def upload(self) -> None:
        if not self._host:
            self._mirror.copy_(self._arena)
        self._refresh()

    def download(self) -> None:
        if not self._host:
            self._arena.copy_(self._mirror)

    def launch(self) -> tuple[int, ...]:
        """One pass, or both; what PyTorch returns is copied into the tensors after the time was taken."""
        times, outputs = self._timed_passes()
        with torch.no_grad():
            for name, value in outputs.items():
                self._views[name].copy_(value)
        if not self._host:
            torch.cuda.synchronize(self._device)
        return times

    def evict_caches(self) -> None:
        if self._host:
            super().evict_caches()
        else:
            torch.zeros(1 << 30, dtype=torch.uint8, device=self._device)

    def close(self) -> None:
        self.__dict__.clear()

    def remarks(self) -> tuple[str, ...]:
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        wanted, algorithm = limits_of(self._kernel).runs, self._kernel.algorithm
        assert isinstance(algorithm, TorchAlgorithm)
        ran = ", ".join(self._seen) or "no operator"
        if any(wanted in name for name in self._seen):
            yield f"PyTorch {torch.__version__} ran {ran}"
        else:
            yield f"finding: PyTorch {torch.__version__} was told to run {wanted}, and ran {ran}"
        if algorithm.way is Way.FLEX_COMPILED:
            yield f"torch.compile and the first call took {self._ready_s:.1f} s, before the launches that are timed"
        if algorithm.masking is Masking.TENSOR:
            yield "the mask is a tensor: it is made before the time begins, and PyTorch computes and reads all of it"
        yield "PyTorch returns new tensors; they are copied into the outputs after the time was taken"

    def _in_heads(self, name: str, view: Tensor) -> Tensor:
        """A tensor of the arena as (batch, heads, rows, dim); packed sequences are one."""
        p = self._problem
        if p.mode is api.Mode.GROUP and name not in ("bias", "dbias", "alibi_slopes"):
            view = view[None]
        layout = p.layout_out if name in ("o", "do") else p.layout
        rows_first = layout is api.Layout.BSHD and name in ("q", "k", "v", "o", "do", "dq", "dk", "dv")
        return view.transpose(1, 2) if rows_first else view

    def _mode(self) -> Any:
        return torch.enable_grad() if self._problem.direction.backward else torch.no_grad()

    def _refresh(self) -> None:
        """Make what depends on the contents of tensors: the mask, and autograd's record of the forward pass."""
        backward, p = self._problem.direction.backward, self._problem
        names = ["q", "k"] if p.v_in_k else ["q", "k", "v"]
        leaves = {name: self._views[name].detach().requires_grad_(backward) for name in names}
        if p.dbias:
            leaves["bias"] = self._views["bias"].detach().requires_grad_()
        single = p.passes()[0]
        with self._mode():
            values = leaves["k"][..., : p.hdim_v] if p.v_in_k else leaves["v"]
            self._attend: Attend = attend_of(single, self._kernel, {**self._views, **leaves})
            self._leaves = (leaves["q"], leaves["k"], values)
            self._wanted = leaves
            if p.direction is api.Direction.BWD:
                with forced(self._kernel):
                    self._recorded = self._attend(*self._leaves)[0]

    def _timed_passes(self) -> tuple[tuple[int, ...], dict[str, Tensor]]:
        outputs, times, p = dict[str, Tensor](), list[int](), self._problem
        with self._mode():
            if p.direction.forward:
                with forced(self._kernel):
                    (o, lse), ns = self._timed(lambda: self._attend(*self._leaves))
                outputs |= {"o": o} if lse is None else {"o": o, "lse": lse}
                times.append(ns)
            if p.direction.backward:
                o = outputs["o"] if p.direction.forward else self._recorded
                grads, ns = self._timed(lambda: self._gradients(o))
                outputs |= {f"d{name}": value for name, value in zip(self._wanted, grads, strict=True)}
                times.append(ns)
        return tuple(times), outputs

    def _gradients(self, o: Tensor) -> tuple[Tensor, ...]:
        keep = self._problem.direction is api.Direction.BWD
        return torch.autograd.grad(o, tuple(self._wanted.values()), self._views["do"], retain_graph=keep)

    def _once(self) -> None:
        self._timed_passes()

    def _timed(self, work: Callable[[], R]) -> tuple[R, int]:
        if self._host:
            start = time.perf_counter_ns()
            return work(), time.perf_counter_ns() - start
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        done = work()
        last.record()
        last.synchronize()
        return done, int(first.elapsed_time(last) * 1e6)


def _view(mirror: Tensor, t: api.BoundTensor) -> Tensor:
    """A tensor of the arena, without a copy."""
    dtype = DTYPES[t.dtype]
    if 0 in t.shape:
        return torch.empty(t.shape, dtype=dtype, device=mirror.device)
    elements = 1 + sum((n - 1) * step for n, step in zip(t.shape, t.strides, strict=True))
    flat = mirror[t.offset : t.offset + elements * dtype.itemsize].view(dtype)
    return flat.as_strided(t.shape, t.strides)


_TOLD = ("_attention", "CompiledFxGraph", "safe_softmax", "_varlen", "triton", "fmha_", "flash_")


def observed(work: Callable[[], object], host: bool) -> tuple[str, ...]:
    """Names of the attention operators, and of device kernels, that a profile of ``work`` shows."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU] if host else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds) as seen:
        work()
    names = chain.from_iterable((event.name, *(k.name for k in event.kernels)) for event in seen.events())
    short = (name.strip("# ").removeprefix("Call ") for name in names if any(word in name for word in _TOLD))
    return tuple(dict.fromkeys(name for name in short if not name.startswith("autograd::")))
