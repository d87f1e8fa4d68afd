"""``LoadedKernel``: one loaded cubin, ready to launch. Its parameter block has been checked against the host's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.launch import Launch, argument_bytes
from fmha_cli.backends.cuda.modules import CudaKernel, PackedArguments
from fmha_cli.backends.cuda.tables import Expected, check_exports
from fmha_cli.backends.cuda.tensor_maps import encoded
from fmha_cli.backends.gpu.driver import DriverError, DriverLost
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec

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
        fields = check_exports(cubin, kernel, expected).fields
        self.separate = fields if expected.separate else None
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

    def prepared(self, params: Any, launch: Launch, cleared: Sequence[Room] = ()) -> PreparedLaunch:
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
            raise self._refused(fault, f"it needs {launch.shared} bytes of shared memory") from fault
        data = argument_bytes(params, launch.extra, partial(encoded, self._cuda), self.separate)
        return PreparedLaunch(self, launch, PackedArguments(self._cuda.driver, data), cleared)

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
            raise self._refused(fault, f"grid {launch.grid}, block {launch.block}, {launch.shared} bytes") from fault

    def unload(self) -> None:
        """Unload the kernel's code."""
        self._loaded.unload()

    def _refused(self, fault: DriverError, why: str) -> KernelFailure:
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
