"""The session on an NVIDIA device: one device arena that mirrors the host's, kernels on one stream.

What is timed: the kernels, each stage by itself; a short launch by replays of a CUDA graph (``backends/cuda/timing``).
The first launch after an upload, whose result is judged, and each launch after an eviction are single ones. What is not
timed: uploads, the zeroing of a deterministic backward's ``dq_accum`` (``torch::zeros`` in upstream's host code, before
its kernels), and conversions of LSE and of grouped dK and dV, which are the host's work here.

Where upstream's host code launches nothing (no keys at all), nothing is launched here either: the times are 0 and the
download fills the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli.backends.arena_views import Bytes
from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.errors import CudaError
from fmha_cli.backends.cuda.timing import StageTimer
from fmha_cli.backends.flash_attn.arguments import params_of
from fmha_cli.backends.flash_attn.auxiliary import Array, auxiliaries_of
from fmha_cli.backends.flash_attn.conversions import after_download, before_upload
from fmha_cli.backends.flash_attn.launches import launch_of
from fmha_cli.backends.flash_attn.library import FaLibrary
from fmha_cli.backends.flash_attn.places import Call
from fmha_cli.backends.flash_attn.situation import situation_of
from fmha_cli.backends.flash_attn.zeroing import zeroed
from fmha_cli.device import DeviceFacts
from fmha_cli.errors import DeviceLost, EnvironmentProblem, InternalError
from fmha_cli.plan import Plan
from fmha_cli.protocols import BoundTensor

ALIGN = 256
"""Bytes; what cuMemAlloc promises, and auxiliary arrays keep."""

EVICTION_FACTOR = 2
UNKNOWN_LLC = 128 << 20
"""Bytes of an L2 of which nothing is known: more than the largest so far, that of GB300 (126 MiB)."""


class FaSession:
    """Runs one plan at a time; see ``fmha_cli.protocols.Session`` for the contract of the methods.

    Raises:
        EnvironmentProblem: N002-N005, N007, no driver or none that serves; N006, not this device.
    """

    def __init__(self, device: DeviceFacts) -> None:
        self._device = device
        self._index = _index(device)
        self._cuda = Cuda.open()
        self._enter()
        self._plan: Plan | None = None
        self._libraries: list[FaLibrary] = []
        self._allocations: list[int] = []
        self._call: Call | None = None
        self._arena: Bytes | None = None
        self._arrays: dict[str, Array] = {}
        self._timer: StageTimer | None = None
        self._evictor = (0, 0)
        self._single = True

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.close()
        self._cuda.use(self._index)
        for stage, path in zip(plan.stages, artifacts, strict=True):
            self._libraries.append(FaLibrary(self._cuda, stage.kernel, path))
        self._plan = plan

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        if self._plan is None:
            raise InternalError("bind before load")
        self._cuda.use(self._index)
        plan, situation = self._plan, situation_of(self._plan.problem, self._device)
        self._arena = np.frombuffer(arena, np.uint8)
        base = self._allocate(arena.nbytes)
        self._arrays = {name: np.ascontiguousarray(array) for name, array in auxiliaries_of(situation).items()}
        place = self._allocate(sum(_up(array.nbytes) for array in self._arrays.values())) if self._arrays else 0
        addresses: dict[str, int] = {}
        for name, array in self._arrays.items():
            addresses[name] = place
            place += _up(array.nbytes)
        self._call = call = Call(plan, situation, tensors, base, addresses)
        pairs = zip(self._libraries, plan.stages, strict=True)
        stages = [library.prepared(params_of(stage, call), launch_of(stage, call)) for library, stage in pairs]
        self._timer = StageTimer(self._cuda, stages, self._zero)

    def upload(self) -> None:
        call, arena = self._bound()
        before_upload(call.plan, call.situation, call.tensors, arena)
        self._cuda.copy_in(call.arena, arena.ctypes.data, arena.nbytes)
        for name, array in self._arrays.items():
            if array.nbytes:
                self._cuda.copy_in(call.auxiliaries[name], array.ctypes.data, array.nbytes)
        self._single = True

    def launch(self) -> tuple[int, ...]:
        call, _ = self._bound()
        if self._timer is None:
            raise InternalError("launch before bind")
        if not call.situation.launches:
            return (0,) * len(call.plan.stages)
        single, self._single = self._single, False
        return self._timer.single() if single else self._timer.hot()

    def download(self) -> None:
        call, arena = self._bound()
        self._cuda.copy_out(arena.ctypes.data, call.arena, arena.nbytes)
        after_download(call.plan, call.situation, call.tensors, arena)

    def evict_caches(self) -> None:
        """Write twice the L2. The launch that follows is queued behind it, so that none of the host's time is in it."""
        self._bound()
        assert self._timer is not None
        address, size = self._evictor
        if not size:
            size = EVICTION_FACTOR * (self._device.llc_bytes or UNKNOWN_LLC)
            address = self._allocate(size)
            self._evictor = (address, size)
        self._cuda.fill(address, 1, size, self._timer.stream)
        self._single = True

    def close(self) -> None:
        """Everything but the device's context, which the next session of the process finds ready."""
        if self._allocations or self._libraries or self._timer:
            self._enter()
        if self._timer is not None:
            self._timer.close()
        for library in self._libraries:
            library.unload()
        for address in self._allocations:
            self._cuda.free(address)
        self._libraries, self._allocations, self._arrays = [], [], {}
        self._plan = self._call = self._arena = self._timer = None
        self._evictor, self._single = (0, 0), True

    def _enter(self) -> None:
        """Make the device the current one; two sessions of a process may be on different ones.

        Raises:
            EnvironmentProblem: N006.
        """
        if self._cuda.lost:
            return
        try:
            self._cuda.use(self._index)
        except DeviceLost:
            raise
        except CudaError as fault:
            raise EnvironmentProblem(
                f"{self._device.id} cannot be used: {fault.what}",
                code="N006",
                where="--device",
                why=fault.why,
                help="`fmha devices` lists what is here; nvidia-smi tells whether another program has it alone",
            ) from fault

    def _bound(self) -> tuple[Call, Bytes]:
        if self._call is None or self._arena is None:
            raise InternalError("the session is not bound")
        self._cuda.use(self._index)
        return self._call, self._arena

    def _allocate(self, size: int) -> int:
        address = self._cuda.malloc(size)
        self._allocations.append(address)
        return address

    def _zero(self, stream: Any) -> None:
        """What the kernels expect done before they run, in the stream's order."""
        assert self._call is not None
        for name in zeroed(self._call.plan):
            workspace = self._call.tensor(name)
            self._cuda.fill(self._call.address(name), 0, workspace.shape[0], stream)


def _index(device: DeviceFacts) -> int:
    kind, _, number = device.id.partition(":")
    if kind != "cuda" or not number.isdigit():
        raise EnvironmentProblem(
            f"{device.id} is no CUDA device", code="N006", where="--device", help="cuda:0; `fmha devices` lists them"
        )
    return int(number)


def _up(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
