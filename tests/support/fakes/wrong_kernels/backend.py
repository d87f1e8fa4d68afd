"""The backend: its sessions commit the faults that are a matter of launches and times."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from fmha_cli import api, plugin
from tests.support.fakes.wrong_kernels.attention import Array, head, rounded
from tests.support.fakes.wrong_kernels.faults import Fault

NAME = "wrong"
WAIT_S = 0.02
GATE = "WRONG_KERNELS_GATE"
"""Names a file: a thread that writes late waits for it, so a test decides when."""
_DTYPES = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
_RESULTS: dict[str, dict[str, Array]] = {}
"""The first result of each problem in this process."""


@dataclass(frozen=True, kw_only=True)
class WrongAlgorithm(plugin.Algorithm):
    """The free choice: which fault."""

    fault: Fault = Fault.NONE


class Session(plugin.HostSession):
    """Computes one plan with the fault of its kernel."""

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        assert isinstance(plan.main.algorithm, WrongAlgorithm)
        self.problem, self.fault = plan.problem, plan.main.algorithm.fault
        self.launches = 0
        self.kept: dict[str, Array] = {}
        self.closed = threading.Event()

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        self.bytes = np.frombuffer(arena, np.uint8)
        self.tensors: dict[str, Array] = {}
        for name, t in tensors.items():
            dtype = _DTYPES[t.dtype]
            self.tensors[name] = np.ndarray(t.shape, dtype, arena, t.offset, [dtype.itemsize * s for s in t.strides])
        o = tensors["o"]
        self.behind = o.offset + _DTYPES[o.dtype].itemsize * (
            1 + sum((n - 1) * step for n, step in zip(o.shape, o.strides, strict=True))
        )

    def launch(self) -> tuple[int, ...]:
        if self.fault is Fault.WAITS_BEFORE:
            time.sleep(WAIT_S)
        start = time.perf_counter_ns()
        later, self.launches = self.launches > 0, self.launches + 1
        if not (later and self.fault is Fault.SKIPS_LATER):
            for name, array in self._result(later).items():
                self.tensors[name][...] = array
        self._afterwards(later)
        return (self._reported(time.perf_counter_ns() - start),)

    def close(self) -> None:
        self.closed.set()

    def _result(self, later: bool) -> dict[str, Array]:
        match self.fault:
            case Fault.STALE_BUFFER:
                self.kept = self.kept or self._computed()
                return self.kept
            case Fault.STALE_MODULE:
                return _RESULTS.setdefault(self.problem.repro(), self._computed())
            case Fault.STALE_LAUNCH:
                now = self._computed()
                before, self.kept = self.kept or now, now
                return before
        return self._computed()

    def _computed(self) -> dict[str, Array]:
        p, t = self.problem, self.tensors
        out = {name: np.empty(t[name].shape, t[name].dtype) for name in ("o", "lse")}
        for b in range(p.batch):
            for h in range(p.heads):
                o, lse = head(p, self.fault, t, b, h)
                out["o"][b, h], out["lse"][b, h] = rounded(o, t["o"].dtype, self.fault), lse
        return out

    def _afterwards(self, later: bool) -> None:
        match self.fault:
            case Fault.SEVENS_LATER if later:
                self.tensors["o"][...] = 7
            case Fault.GUARD_LATER if later:
                self.bytes[self.behind : self.behind + 2] = 0
            case Fault.INPUT_LATER if later:
                self.tensors["k"][...] = 0
            case Fault.GUARD_SAME_BITS:
                self.bytes[self.behind : self.behind + 2] = self.bytes[self.behind : self.behind + 2].copy()
            case Fault.LATE_THREAD:
                threading.Thread(target=self._write_late, daemon=True).start()

    def _write_late(self) -> None:
        """Write for a while after the launch; with a gate, once the file is there, and answer with another file."""
        gate = os.environ.get(GATE)
        while gate and not Path(gate).exists():
            if self.closed.wait(0.002):
                return
        if gate:
            self.tensors["o"][0, 0, 0] = 7
            Path(gate).with_suffix(".done").touch()
        for _ in range(100):
            if self.closed.wait(0.002):
                return
            self.tensors["o"][0, 0, 0] = 7

    def _reported(self, ns: int) -> Any:
        match self.fault:
            case Fault.NO_TIME:
                return 0
            case Fault.ONE_NS:
                return 1
            case Fault.SOME_ONE_NS:
                return ns if self.launches % 3 else 1
            case Fault.HUGE_TIME:
                return 1e30
            case Fault.NAN_TIME:
                return float("nan")
            case Fault.NEGATIVE_TIME:
                return -ns
            case Fault.HALF_TIME:
                return ns // 2
        return ns


class WrongBackend:
    """See ``fmha_cli.plugin.Backend`` for the contract of the methods."""

    name = NAME
    algorithm: type[plugin.Algorithm] = WrongAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = False

    def probe(self) -> plugin.Availability:
        return plugin.Availability(state=plugin.State.OK, devices=(plugin.DeviceFacts(id="cpu", archs=self.archs()),))

    def archs(self) -> tuple[str, ...]:
        return ("generic",)

    def kernels(self, arch: plugin.ArchSpec) -> Iterator[api.KernelSpec]:
        for dtype in (plugin.DType.FP16, plugin.DType.BF16):
            yield kernel(Fault.NONE, dtype)
        yield from (kernel(fault) for fault in list(Fault)[1:])

    def rules(self) -> tuple[plugin.Rule, ...]:
        return plugin.CORE_RULES

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
        for rank, spec in enumerate(self.kernels(plugin.load_arch("generic"))):
            reasons = tuple(plugin.reasons_against(self.rules(), problem, spec, device))
            fault = fault_of(spec)
            if not reasons and fault is not Fault.NONE and problem != fault.problem:
                reasons = (api.Reason("K990", "its fault shows on another problem", fault.problem.repro()),)
            yield api.Unsupported(NAME, spec.arch, spec, reasons) if reasons else api.Supported(spec, (rank,))

    def plan(self, problem: api.Problem, spec: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
        return plugin.Plan(problem, (plugin.Stage(spec),))

    def build(self, stage: plugin.Stage, context: plugin.BuildContext) -> plugin.Artifact:
        return plugin.no_build(stage, context)

    def cache_key(self, stage: plugin.Stage, context: plugin.BuildContext) -> object:
        return plugin.no_build_key(stage)

    def inspect(self, spec: api.KernelSpec, artifact: plugin.Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, spec: api.KernelSpec) -> str | None:
        return None

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        return Session()


def kernel(fault: Fault, dtype: plugin.DType | None = None) -> api.KernelSpec:
    """The kernel with a fault; without one, of a dtype."""
    element = dtype or fault.problem.dtype
    base = plugin.Signature(dtype=element, dtype_out=element, hdim=1 << 20, hdim_v=1 << 20)
    signature = replace(
        base,
        mask=plugin.MaskKey.ANY,
        softcap=plugin.Need.ANY,
        gqa=plugin.Need.ANY,
        lse=plugin.Need.ANY,
        sink=plugin.Need.ANY,
    )
    algorithm = WrongAlgorithm(fault=fault)
    return api.KernelSpec(
        backend=NAME, family=plugin.Family.FWD, arch="generic", signature=signature, algorithm=algorithm
    )


def fault_of(spec: api.KernelSpec) -> Fault:
    """The fault of a kernel."""
    assert isinstance(spec.algorithm, WrongAlgorithm)
    return spec.algorithm.fault


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [WrongBackend()]
