"""Sessions on AMD and NVIDIA devices, through fmha's own drivers. No framework is in the worker."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli import plugin
from fmha_triton.arguments import auxiliaries
from fmha_triton.image import Image, read_image
from fmha_triton.launching import packed_arguments
from fmha_triton.plan import grid_of


class _Kernels(plugin.GpuSession[None]):
    """The kernels of a plan on a device of either vendor, real or emulated."""

    _images: Mapping[plugin.Stage, Image] = {}
    _kernels: Mapping[plugin.Stage, Any] = {}
    _launches: Mapping[plugin.Stage, Callable[[Any], None]] = {}

    @abstractmethod
    def _loaded(self, image: Image, path: Path) -> Any:
        """The kernel of an image, which has ``launch`` and ``unload``."""

    def _data(self, stage: plugin.Stage, image: Image, call: plugin.Call[None]) -> bytes:
        """The bytes of a launch's arguments."""
        return packed_arguments(stage, image, call)

    def _load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        for stage, path in zip(plan.stages, artifacts, strict=True):
            image = read_image(path)
            self._images = {**self._images, stage: image}
            self._kernels = {**self._kernels, stage: self._loaded(image, path)}
        super()._load(plan, artifacts)

    def _situation(self, plan: plugin.Plan) -> None:
        return None

    def _auxiliaries(self, plan: plugin.Plan, situation: None) -> Mapping[str, Any]:
        return auxiliaries(plan.problem)

    def _prepare(self, call: plugin.Call[None]) -> None:
        for stage in call.plan.stages:
            image, kernel = self._images[stage], self._kernels[stage]
            grid = grid_of(call.problem, stage.kernel, call.plan.splits, self._device.units)
            shape = plugin.Shape(grid, (image.threads, 1, 1), image.shared_bytes)
            arguments = plugin.PackedArguments(self._data(stage, image, call), self._memory.arguments_end)
            run = _nothing if shape.empty else partial(kernel.launch, shape, arguments)
            self._launches = {**self._launches, stage: run}
        super()._prepare(call)

    def _after_upload(self, call: plugin.Call[None], mirror: plugin.Mirror) -> None:
        for name, array in auxiliaries(call.problem).items():
            mirror.write(call.auxiliaries[name], array)
        super()._after_upload(call, mirror)

    def _stages(self) -> Sequence[Callable[[Any], None]]:
        return tuple(self._launches.values())

    def _unload(self) -> None:
        super()._unload()
        for kernel in self._kernels.values():
            kernel.unload()
        self._images, self._kernels, self._launches = {}, {}, {}


def _nothing(stream: object) -> None:
    return


class TritonHipSession(_Kernels, plugin.HipSession[None]):
    """Runs one plan at a time on an AMD device."""

    def _loaded(self, image: Image, path: Path) -> plugin.HipKernel:
        return plugin.HipKernel(self._hip, image.binary, image.symbol)


class TritonCudaSession(_Kernels, plugin.CudaSession[None]):
    """Runs one plan at a time on an NVIDIA device. No real one has run it.

    An emulated device also takes the PTX next to the binary; sizes, symbol and the places of arguments are the
    binary's.
    """

    def _loaded(self, image: Image, path: Path) -> plugin.CudaKernel:
        code = plugin.emulated_image(path) if self._device.emulated else image.binary
        kernel = plugin.CudaKernel(self._cuda, code, image.symbol)
        kernel.allow_shared(image.shared_bytes)
        return kernel

    def _data(self, stage: plugin.Stage, image: Image, call: plugin.Call[None]) -> bytes:
        encode = partial(plugin.encoded, self._cuda)
        return packed_arguments(stage, image, call, encode, plugin.parameter_places(image.binary))
