"""The session for the kernels of a ``CubinUpstream`` on an NVIDIA device, and the cubins that it loads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.emulated_image import emulated_image
from fmha_cli.backends.cuda.launch import argument_bytes
from fmha_cli.backends.cuda.modules import CudaKernel
from fmha_cli.backends.cuda.session import CudaSession
from fmha_cli.backends.cuda.tables import Expected, check_exports
from fmha_cli.backends.cuda.tensor_maps import encoded
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.gpu.driver import DriverError, DriverLost
from fmha_cli.backends.gpu.launching import Launch, PackedArguments
from fmha_cli.backends.gpu.upstream_session import UpstreamSession, launch_failure, load_failure
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec


class LoadedCubin:
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
            raise load_failure(kernel, path, fault, code="N009") from fault

    def prepare(self, params: Any, launch: Launch) -> Callable[[Any], None]:
        """See ``gpu.upstream_session.LoadedKernel``.

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
        return partial(self.launch, launch, PackedArguments(data, self._cuda.arguments_end))

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
        return launch_failure(self.kernel, "CUDA", fault, why, code="N008")


class CubinSession(UpstreamSession, CudaSession[Any]):
    """Runs one plan at a time. See ``fmha_cli.domain.protocols.Session`` for the contract of the methods."""

    _upstream: CubinUpstream

    def __init__(self, upstream: CubinUpstream, device: DeviceFacts) -> None:
        self._upstream = upstream
        super().__init__(device)

    def _load_kernel(self, kernel: KernelSpec, path: Path) -> LoadedCubin:
        image = emulated_image(path) if self._device.emulated else None
        return LoadedCubin(self._cuda, kernel, path, self._upstream.expect_exports(kernel), image)

    def _unload(self) -> None:
        if self._kernels:
            self._open_device()
        super()._unload()
