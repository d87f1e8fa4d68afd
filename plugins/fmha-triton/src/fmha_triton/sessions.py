"""Sessions on AMD and NVIDIA devices, through fmha's own drivers. No framework is in the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli import api, plugin
from fmha_triton.arguments import auxiliaries
from fmha_triton.image import Image
from fmha_triton.launching import Prepared, images_of, prepared

UNKNOWN_L2 = 128 << 20


class TritonHipSession(plugin.HipSession[None]):
    """Runs one plan at a time on an AMD device, real or emulated."""

    _images: Mapping[plugin.Stage, Image]
    _kernels: dict[plugin.Stage, plugin.HipKernel]
    _launches: dict[plugin.Stage, Callable[[int], None]]

    def _load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        self._images = images_of(plan, artifacts)
        for stage, image in self._images.items():
            self._kernels[stage] = plugin.HipKernel(self._hip, image.binary, image.symbol)
        super()._load(plan, artifacts)

    def _situation(self, plan: plugin.Plan) -> None:
        return None

    def _auxiliaries(self, plan: plugin.Plan, situation: None) -> Mapping[str, Any]:
        return auxiliaries(plan.problem)

    def _prepare(self, call: plugin.Call[None]) -> None:
        for stage in call.plan.stages:
            image = self._images[stage]
            launch = prepared(stage, image, call, self._device.units)
            block, arguments = (image.threads, 1, 1), plugin.HipArguments(launch.data)
            run = partial(self._kernels[stage].launch, launch.grid, block, image.shared_bytes, arguments)
            self._launches[stage] = _nothing if launch.empty else run

    def _after_upload(self, call: plugin.Call[None], mirror: plugin.Mirror) -> None:
        for name, array in auxiliaries(call.problem).items():
            mirror.write(call.auxiliaries[name], array)

    def _stages(self) -> Sequence[Callable[[int], None]]:
        return tuple(self._launches.values())

    def _before_launch(self, call: plugin.Call[None]) -> None:
        return

    def _unload(self) -> None:
        super()._unload()
        for kernel in getattr(self, "_kernels", {}).values():
            kernel.unload()
        self._images, self._kernels, self._launches = {}, {}, {}


def _nothing(stream: object) -> None:
    return


class TritonCudaSession(plugin.GpuSession[None]):
    """Runs one plan at a time on an NVIDIA device, real or emulated. No real one has run it.

    An emulated device also takes the PTX next to the binary; sizes, symbol and the places of arguments are the
    binary's.
    """

    def __init__(self, device: plugin.DeviceFacts) -> None:
        kind, _, number = ("cuda", ":", "0") if device.emulated else device.id.partition(":")
        if kind != "cuda" or not number.isdigit():
            raise api.EnvironmentProblem(f"{device.id} is not a CUDA device", code="N006", where="--device")
        self._number, self._cuda = int(number), plugin.Cuda.open()
        self._emulated = device.emulated
        self._images: Mapping[plugin.Stage, Image] = {}
        self._kernels: dict[plugin.Stage, plugin.CudaKernel] = {}
        self._launches: list[Callable[[Any], None]] = []
        self._timer: plugin.StageTimer | None = None
        self._single = True
        self._enter()
        super().__init__(device, self._cuda, UNKNOWN_L2)

    def launch(self) -> tuple[int, ...]:
        self._bound()
        single, self._single = self._single, False
        return self._timed().single() if single else self._timed().hot()

    def evict_caches(self) -> None:
        super().evict_caches()
        self._single = True

    def _enter(self) -> None:
        self._cuda.use(self._number)

    def _load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        self._images = images_of(plan, artifacts)
        for (stage, image), path in zip(self._images.items(), artifacts, strict=True):
            code = plugin.emulated_image(path) if self._emulated else image.binary
            kernel = self._kernels[stage] = plugin.CudaKernel(self._cuda, code, image.symbol)
            kernel.allow_shared(image.shared_bytes)

    def _situation(self, plan: plugin.Plan) -> None:
        return None

    def _auxiliaries(self, plan: plugin.Plan, situation: None) -> Mapping[str, Any]:
        return auxiliaries(plan.problem)

    def _prepare(self, call: plugin.Call[None]) -> None:
        self._forget()
        if not call.follows:
            self._launches = []
        for stage in call.plan.stages:
            image = self._images[stage]
            encode, places = partial(plugin.encoded, self._cuda), plugin.parameter_places(image.binary)
            launch = prepared(stage, image, call, self._device.units, encode, places)
            self._launches.append(_nothing if launch.empty else self._queued(stage, launch))

    def _queued(self, stage: plugin.Stage, launch: Prepared) -> Callable[[Any], None]:
        image = self._images[stage]
        shape = plugin.Shape(launch.grid, (image.threads, 1, 1), image.shared_bytes)
        arguments = plugin.PackedArguments(self._cuda.driver, launch.data)
        return partial(self._kernels[stage].launch, shape, arguments)

    def _after_upload(self, call: plugin.Call[None], mirror: plugin.Mirror) -> None:
        for name, array in auxiliaries(call.problem).items():
            mirror.write(call.auxiliaries[name], array)
        self._single = True

    def _timed(self) -> plugin.StageTimer:
        if self._timer is None:
            self._timer = plugin.StageTimer(self._cuda, self._launches)
        return self._timer

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _stream(self) -> Any:
        return self._timed().stream

    def _unload(self) -> None:
        self._forget()
        for kernel in self._kernels.values():
            kernel.unload()
        self._images, self._kernels, self._launches, self._single = {}, {}, [], True
