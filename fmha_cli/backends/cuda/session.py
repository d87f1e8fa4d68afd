"""``CudaSession``: the base of sessions on NVIDIA devices. It times each stage of a launch separately.

It times a short launch by replays of a CUDA graph (``timing``). The first launch after an upload, whose result is judged,
and each launch after an eviction are single launches.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.timing import StageTimer
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.devices import device_number
from fmha_cli.backends.gpu.driver import DriverError
from fmha_cli.backends.gpu.mirror import Mirror
from fmha_cli.backends.gpu.session import GpuSession
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, InternalError

S = TypeVar("S")
UNKNOWN_LLC = 128 << 20
"""Bytes to assume for an L2 cache of unknown size: more than the largest so far, GB300's (126 MiB)."""


class CudaSession(GpuSession[S]):
    """A backend's session derives from this class and defines its launches (``GpuSession`` has the other hooks).

    Raises:
        EnvironmentProblem: N002-N005 and N007, there is no usable driver; N006, the device cannot be used.
    """

    def __init__(self, device: DeviceFacts) -> None:
        # an emulator's driver shows the one device that it emulates
        self._number = 0 if device.emulated else device_number(device, "cuda", "N006")
        self._cuda = Cuda.open()
        super().__init__(device, self._cuda, UNKNOWN_LLC)
        self._timer: StageTimer | None = None
        self._single = True
        self._open_device()

    def launch(self) -> tuple[int, ...]:
        self._bound()
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

    def _prepare(self, call: Call[S]) -> None:
        self._forget()

    def _after_upload(self, call: Call[S], mirror: Mirror) -> None:
        self._single = True

    def _stream(self) -> Any:
        return self._timed().stream

    def _unload(self) -> None:
        if self._timer or self._mirror:
            self._open_device()
        self._forget()
        self._single = True

    def _forget(self) -> None:
        """Free the timer of earlier launches. The next one is made when it is needed."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _timed(self) -> StageTimer:
        if self._timer is None:
            if not self._calls:
                raise InternalError("launch before bind")
            self._timer = StageTimer(self._cuda, self._stages(), self._before_launch())
        return self._timer
