"""The session on an NVIDIA device, for the kernels of an ``Upstream``.

The session times the kernels, each stage separately. It times a short launch by replays of a CUDA graph (``timing``).
The first launch after an upload, whose result is judged, and each launch after an eviction are single launches. The
times exclude uploads, the zeroing of workspaces before the kernels, and the upstream's conversions on the host. They
include what a launch clears itself (``Launch.cleared``).

Where the upstream's host code launches nothing, the session launches nothing either. The times are then 0, and the
upstream fills the outputs after the download.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.loaded import LoadedKernel, PreparedLaunch
from fmha_cli.backends.cuda.timing import StageTimer
from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.backends.gpu.arena_views import Array, Bytes
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.devices import device_number
from fmha_cli.backends.gpu.driver import DriverError
from fmha_cli.backends.gpu.mirror import Mirror
from fmha_cli.backends.gpu.session import GpuSession
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, InternalError
from fmha_cli.domain.plan import Plan, Stage

UNKNOWN_LLC = 128 << 20
"""Bytes to assume for an L2 cache of unknown size: more than the largest so far, GB300's (126 MiB)."""


class CudaSession(GpuSession[Any]):
    """Runs one plan at a time. See ``fmha_cli.domain.protocols.Session`` for the contract of the methods.

    Raises:
        EnvironmentProblem: N002-N005 and N007, there is no usable driver; N006, the device cannot be used.
    """

    def __init__(self, upstream: Upstream, device: DeviceFacts) -> None:
        self._upstream, self._number = upstream, device_number(device, "cuda", "N006")
        self._cuda = Cuda.open()
        super().__init__(device, self._cuda, UNKNOWN_LLC)
        self._kernels: list[LoadedKernel] = []
        self._arrays: Mapping[str, Array] = {}
        self._timer: StageTimer | None = None
        self._single = True
        self._open_device()

    def launch(self) -> tuple[int, ...]:
        call, _ = self._bound()
        if not self._upstream.launches(call.situation):
            return (0,) * len(call.plan.stages)
        single, self._single = self._single, False
        return self._timed().single() if single else self._timed().hot()

    def evict_caches(self) -> None:
        super().evict_caches()
        self._single = True

    def _enter(self) -> None:
        self._cuda.use(self._number)

    def _open_device(self) -> None:
        """Make the device the current one, with an error text for users where that fails.

        Raises:
            EnvironmentProblem: N006, the device cannot be used.
        """
        if self._cuda.lost:
            return
        try:
            self._enter()
        except DeviceLost:
            raise
        except DriverError as fault:
            raise EnvironmentProblem(
                f"{self._device.id} cannot be used: {fault.what}",
                code="N006",
                where="--device",
                why=fault.why,
                help="`fmha devices` lists what is here; nvidia-smi shows whether another program has exclusive use of it",
            ) from fault

    def _load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        for stage, path in zip(plan.stages, artifacts, strict=True):
            kernel = stage.kernel
            self._kernels.append(LoadedKernel(self._cuda, kernel, path, self._upstream.expected(kernel)))

    def _situation(self, plan: Plan) -> Any:
        return self._upstream.situation_of(plan.problem, self._device)

    def _auxiliaries(self, plan: Plan, situation: Any) -> Mapping[str, Array]:
        self._arrays = self._upstream.auxiliaries_of(situation)
        return self._arrays

    def _prepare(self, call: Call[Any]) -> None:
        made = [
            self._prepared(kernel, stage, call) for kernel, stage in zip(self._kernels, call.plan.stages, strict=True)
        ]
        self._timer = StageTimer(self._cuda, made, self._zero if self._upstream.zeroed(call.plan) else None)

    def _prepared(self, kernel: LoadedKernel, stage: Stage, call: Call[Any]) -> PreparedLaunch:
        launch = self._upstream.launch_of(stage, call)
        cleared = [(call.address(name), call.tensor(name).shape[0]) for name in launch.cleared]
        return kernel.prepared(self._upstream.params_of(stage, call), launch, cleared)

    def _before_upload(self, call: Call[Any], host: Bytes) -> None:
        self._upstream.before_upload(call, host)

    def _after_upload(self, call: Call[Any], mirror: Mirror) -> None:
        for name, array in self._arrays.items():
            mirror.write(call.auxiliaries[name], array)
        self._single = True

    def _after_download(self, call: Call[Any], host: Bytes) -> None:
        self._upstream.after_download(call, host)

    def _stream(self) -> Any:
        return self._timed().stream

    def _unload(self) -> None:
        if self._kernels or self._timer or self._mirror:
            self._open_device()
        if self._timer is not None:
            self._timer.close()
        for kernel in self._kernels:
            kernel.unload()
        self._kernels, self._arrays, self._timer, self._single = [], {}, None, True

    def _timed(self) -> StageTimer:
        if self._timer is None:
            raise InternalError("launch before bind")
        return self._timer

    def _zero(self, stream: Any) -> None:
        """Queue the zeroing of the workspaces that the kernels expect to be zero."""
        assert self._call is not None
        for name in self._upstream.zeroed(self._call.plan):
            workspace = self._call.tensor(name)
            self._cuda.fill(self._call.address(name), 0, workspace.shape[0], stream)
