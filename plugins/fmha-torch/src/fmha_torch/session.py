"""The session: PyTorch's kernels on the arena's tensors. Imported in the worker alone, and PyTorch with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fmha_cli import plugin
from fmha_torch.attend import Tensor, attend_of, forced
from fmha_torch.kernels import Masking, TorchAlgorithm, Way, limits_at

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
IN_HEADS = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
TOLD = ("_attention", "CompiledFxGraph", "safe_softmax", "_varlen", "triton", "fmha_", "flash_")


class TorchSession(plugin.HostSession):
    """One plan. On a GPU, PyTorch's own memory mirrors the arena."""

    def __init__(self, device: str) -> None:
        self._device, self._host = torch.device(device), device == "cpu"

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        self._problem, self._kernel = plan.problem, plan.main

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        """Make views of the tensors, compile the functions that need it, and run once more under a profiler."""
        torch.set_num_threads(threads)
        self._arena = torch.frombuffer(arena, dtype=torch.uint8)
        self._mirror = self._arena.to(self._device)
        self._views = {name: self._in_heads(name, view_of(self._mirror, t)) for name, t in tensors.items()}
        start, outputs = time.perf_counter(), self._whole()
        ready_s, copied = time.perf_counter() - start, sum(value.nbytes for value in outputs.values())
        self._said = self._remark(observed(self._whole, self._host), ready_s, copied)

    def upload(self) -> None:
        self._mirror.copy_(self._arena)  # on the host they are one
        self._refresh()

    def download(self) -> None:
        self._arena.copy_(self._mirror)

    def launch(self) -> tuple[int, ...]:
        """One pass, or both. PyTorch's results are copied into the tensors after the time was taken."""
        times, outputs = self.passes()
        with torch.no_grad():
            for name, value in outputs.items():
                self._views[name].copy_(value)
        if not self._host:
            torch.cuda.synchronize(self._device)
        return times

    def evict_caches(self) -> None:
        torch.zeros(1 << 30, dtype=torch.uint8, device=self._device)

    def close(self) -> None:
        self.__dict__.clear()

    def remarks(self) -> tuple[str, ...]:
        return (self._said,)

    def _remark(self, ran: Sequence[str], ready_s: float, copied: int) -> str:
        """The kernels that ran, and their cost apart from time. A kernel other than the requested one is a finding."""
        algorithm = self._kernel.algorithm
        assert isinstance(algorithm, TorchAlgorithm)
        asked = limits_at(self._kernel.arch, algorithm.way).runs
        right = any(asked in name for name in ran) or not self._problem.dense_pairs()  # SDPA makes empty tensors itself
        finding = "" if right else f"finding: {asked} was asked for; "
        said = [f"{finding}PyTorch {torch.__version__} ran {', '.join(ran) or 'nothing known'}"]
        if algorithm.way is Way.FLEX_COMPILED:
            said.append(f"torch.compile and the first call took {ready_s:.1f} s")
        if algorithm.masking is Masking.TENSOR:
            said.append("the mask tensor was made before, and is read")
        return "; ".join((*said, f"{copied / 1024:,.0f} KiB of outputs are copied after the time"))

    def _in_heads(self, name: str, view: Tensor) -> Tensor:
        """A tensor of the arena as (batch, heads, rows, dim); packed sequences are one."""
        p = self._problem
        if p.mode is plugin.Mode.GROUP and name in (*IN_HEADS, "lse"):
            view = view[None]
        return view.transpose(1, 2) if p.layout_of(name) is plugin.Layout.BSHD and name in IN_HEADS else view

    def _refresh(self) -> None:
        """Make the objects that depend on the contents of tensors: the mask, and autograd's record of a forward pass."""
        p = self._problem
        names = ("q", "k", *(() if p.v_in_k else ("v",)), *(("bias",) if p.dbias else ()))
        self._wanted = {name: self._views[name].detach().requires_grad_(p.direction.backward) for name in names}
        with torch.set_grad_enabled(p.direction.backward), forced(self._kernel):
            q, k = self._wanted["q"], self._wanted["k"]
            self._qkv = (q, k, k[..., : p.hdim_v] if p.v_in_k else self._wanted["v"])
            self._attend = attend_of(p.passes()[0], self._kernel, {**self._views, **self._wanted})
            self._recorded = None if p.direction.forward else self._attend(*self._qkv)[0]

    def passes(self) -> tuple[tuple[int, ...], dict[str, Tensor]]:
        """Nanoseconds of each pass, and their results. This is what a launch does before it copies."""
        outputs, times, o = dict[str, Tensor](), list[int](), self._recorded
        with torch.set_grad_enabled(self._problem.direction.backward):
            if o is None:
                with forced(self._kernel):
                    (o, lse), ns = self._timed(lambda: self._attend(*self._qkv))
                outputs |= {"o": o} if lse is None else {"o": o, "lse": lse}
                times.append(ns)
            if self._problem.direction.backward:
                wanted, do, again = tuple(self._wanted.values()), self._views["do"], self._recorded is not None
                grads, ns = self._timed(lambda: torch.autograd.grad(o, wanted, do, retain_graph=again))
                outputs |= {f"d{name}": value for name, value in zip(self._wanted, grads, strict=True)}
                times.append(ns)
        return tuple(times), outputs

    def _whole(self) -> dict[str, Tensor]:
        """Everything a launch needs and does, without the copies."""
        self._refresh()
        return self.passes()[1]

    def _timed(self, work: Callable[[], Any]) -> tuple[Any, int]:
        if self._host:
            start = time.perf_counter_ns()
            return work(), time.perf_counter_ns() - start
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        done = work()
        last.record()
        last.synchronize()
        return done, int(first.elapsed_time(last) * 1e6)


def view_of(mirror: Tensor, t: plugin.BoundTensor) -> Tensor:
    """A tensor of the arena, without a copy."""
    dtype = DTYPES[t.dtype]
    if 0 in t.shape:
        return torch.empty(t.shape, dtype=dtype, device=mirror.device)
    elements = 1 + sum((n - 1) * step for n, step in zip(t.shape, t.strides, strict=True))
    return mirror[t.offset : t.offset + elements * dtype.itemsize].view(dtype).as_strided(t.shape, t.strides)


def observed(work: Callable[[], object], host: bool) -> tuple[str, ...]:
    """The names of the attention operators, and of device kernels, that a profile of ``work`` shows."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, *(() if host else (ProfilerActivity.CUDA,))]) as seen:
        work()
    names = (name for event in seen.events() for name in (event.name, *(k.name for k in event.kernels)))
    told = (name for name in names if any(part in name for part in TOLD) and not name.startswith("autograd::"))
    return tuple(dict.fromkeys(name.strip("# ").removeprefix("Call ") for name in told))
