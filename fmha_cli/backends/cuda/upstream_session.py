"""The session for the kernels of an ``Upstream`` on an NVIDIA device, and the cubins that it loads.

The times exclude uploads, the zeroing of workspaces before the kernels, and the upstream's conversions on the host. They
include what a launch clears itself (``Launch.cleared``).

Where the upstream's host code launches nothing for a pass, the session launches nothing either. The times are then 0, and
the session fills the outputs after the download.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.copies import fill_outputs
from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.emulated_image import emulated_image
from fmha_cli.backends.cuda.launch import Launch, argument_bytes
from fmha_cli.backends.cuda.modules import CudaKernel
from fmha_cli.backends.cuda.session import CudaSession
from fmha_cli.backends.cuda.tables import Expected, check_exports
from fmha_cli.backends.cuda.tensor_maps import encoded
from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.auxiliary import given_tables
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.driver import DriverError, DriverLost
from fmha_cli.backends.gpu.launching import PackedArguments
from fmha_cli.backends.gpu.mirror import Mirror
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem

Room = tuple[int, int]
"""Device address and bytes of some memory."""


class LoadedKernel:
    """A kernel's cubin in the current context.

    Args:
        path: the cubin, whose exported tables are checked.
        image: the file that the driver loads in place of the cubin (``emulated_image``).

    Attributes:
        separate: the places of its parameters where each is a field of the block; else None.

    Raises:
        KernelFailure: its exported tables differ from the host's (``check_exports``); N009, it does not load.
        MemoryError: no device memory for its code.
    """

    def __init__(
        self, cuda: Cuda, kernel: KernelSpec, path: Path, expected: Expected, image: bytes | None = None
    ) -> None:
        self._cuda, self.kernel = cuda, kernel
        cubin = path.read_bytes()
        exports = check_exports(cubin, kernel, expected)
        self.separate = exports.fields if expected.separate else None
        self._lead = exports.lead
        try:
            self._loaded = CudaKernel(cuda, cubin if image is None else image, expected.symbol)
        except DriverLost:
            raise
        except DriverError as fault:
            raise KernelFailure(
                f"{kernel.family.value} does not load: {fault.what}",
                code="N009",
                where=str(path),
                why=f"{kernel.name} was built for {kernel.arch}",
                help="`fmha devices` lists the architectures that the device accepts",
            ) from fault

    def prepare(self, params: Any, launch: Launch, cleared: Sequence[Room] = ()) -> PreparedLaunch:
        """One launch, which can be repeated.

        Args:
            cleared: the memory of ``launch.cleared``.

        Raises:
            KernelFailure: N008, the device cannot provide that much shared memory.
            DriverError: N001, the driver makes no descriptor of a tensor (``tensor_maps.encoded``).
        """
        try:
            self._loaded.allow_shared(launch.shared)
        except DriverLost:
            raise
        except DriverError as fault:
            raise self._explain(fault, f"it needs {launch.shared} bytes of shared memory") from fault
        data = argument_bytes(params, launch.extra, partial(encoded, self._cuda), self.separate, self._lead)
        return PreparedLaunch(self, launch, PackedArguments(data, self._cuda.arguments_end), cleared)

    def clear(self, room: Room, stream: Any) -> None:
        """Queue the zeroing of some memory."""
        address, size = room
        self._cuda.fill(address, 0, size, stream)

    def launch(self, launch: Launch, arguments: PackedArguments, stream: Any) -> None:
        """Queue the kernel.

        Raises:
            KernelFailure: N008, CUDA refused the launch.
            DeviceLost: an earlier kernel ruined the context.
            MemoryError: out of device memory.
        """
        try:
            self._loaded.launch(launch, arguments, stream)
        except DriverLost:
            raise
        except DriverError as fault:
            raise self._explain(fault, f"grid {launch.grid}, block {launch.block}, {launch.shared} bytes") from fault

    def unload(self) -> None:
        """Unload the kernel's code."""
        self._loaded.unload()

    def _explain(self, fault: DriverError, why: str) -> KernelFailure:
        return KernelFailure(
            f"CUDA refused to launch {self.kernel.family.value}: {fault.what}",
            code="N008",
            where=self.kernel.name,
            why=why,
            help="the same launch with --dry-run shows its grid, block and arguments",
        )


class PreparedLaunch:
    """A launch with its arguments. Call it with a stream. It skips a grid without blocks, which CUDA would refuse."""

    def __init__(
        self, kernel: LoadedKernel, launch: Launch, arguments: PackedArguments, cleared: Sequence[Room]
    ) -> None:
        self._kernel, self._launch, self._arguments, self._cleared = kernel, launch, arguments, tuple(cleared)

    def __call__(self, stream: Any) -> None:
        if not self._launch.empty:
            for room in self._cleared:
                self._kernel.clear(room, stream)
            self._kernel.launch(self._launch, self._arguments, stream)


class UpstreamSession(CudaSession[Any]):
    """Runs one plan at a time. See ``fmha_cli.domain.protocols.Session`` for the contract of the methods."""

    def __init__(self, upstream: Upstream, device: DeviceFacts) -> None:
        self._upstream = upstream
        self._kernels: dict[Stage, LoadedKernel] = {}
        self._arrays: dict[Problem, Mapping[str, Array]] = {}
        self._launches: dict[Stage, PreparedLaunch] = {}
        super().__init__(device)

    def launch(self) -> tuple[int, ...]:
        calls, _ = self._bound()
        times, live = dict.fromkeys(self._kernels, 0), self._live(calls)
        times |= zip(live, super().launch(), strict=True) if live else ()
        return tuple(times.values())

    def _load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        for stage, path in zip(plan.stages, artifacts, strict=True):
            kernel, image = stage.kernel, emulated_image(path) if self._device.emulated else None
            self._kernels[stage] = LoadedKernel(self._cuda, kernel, path, self._upstream.expect_exports(kernel), image)

    def _situation(self, plan: Plan) -> Any:
        return self._upstream.situation_of(plan.problem, self._device)

    def _auxiliaries(self, plan: Plan, situation: Any) -> Mapping[str, Array]:
        arrays = self._arrays[plan.problem] = self._upstream.auxiliaries_of(situation)
        return arrays

    def _prepare(self, call: Call[Any]) -> None:
        for stage in call.plan.stages:
            launch = self._upstream.launch_of(stage, call)
            cleared = [(call.address(name), call.tensor(name).shape[0]) for name in launch.cleared]
            params = self._upstream.params_of(stage, call)
            self._launches[stage] = self._kernels[stage].prepare(params, launch, cleared)
        super()._prepare(call)

    def _before_upload(self, call: Call[Any], host: Bytes) -> None:
        if self._upstream.launches(call.situation):
            self._upstream.before_upload(call, host)

    def _after_upload(self, call: Call[Any], mirror: Mirror) -> None:
        arrays = self._arrays[call.problem]
        given = given_tables(call.problem, arrays, lambda name: view(mirror.host, call.tensors[name]))
        for name, array in {**arrays, **given}.items():
            mirror.write(call.auxiliaries[name], array)
        super()._after_upload(call, mirror)

    def _after_download(self, call: Call[Any], host: Bytes) -> None:
        finish = self._upstream.after_download if self._upstream.launches(call.situation) else fill_outputs
        finish(call, host)

    def _stages(self) -> Sequence[PreparedLaunch]:
        return [self._launches[stage] for stage in self._live(self._calls)]

    def _before_launch(self) -> Callable[[Any], None] | None:
        return self._zero if any(self._upstream.list_zeroed(call.plan) for call in self._calls) else None

    def _unload(self) -> None:
        if self._kernels:
            self._open_device()
        super()._unload()
        for kernel in self._kernels.values():
            kernel.unload()
        self._kernels, self._arrays, self._launches = {}, {}, {}

    def _live(self, calls: Sequence[Call[Any]]) -> list[Stage]:
        """The stages of the passes for which the host code launches kernels."""
        return [stage for call in calls if self._upstream.launches(call.situation) for stage in call.plan.stages]

    def _zero(self, stream: Any) -> None:
        """Queue the zeroing of the workspaces that the kernels expect to be zero."""
        for call in self._calls:
            for name in self._upstream.list_zeroed(call.plan):
                self._cuda.fill(call.address(name), 0, call.tensor(name).shape[0], stream)
