"""``FaLibrary``: one loaded cubin, its parameter block proven equal to the host's, its kernel ready to launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.errors import CudaError, CudaLost
from fmha_cli.backends.cuda.modules import CudaKernel, PackedArguments, Shape
from fmha_cli.backends.flash_attn.abi import check_abi
from fmha_cli.backends.flash_attn.launches import Launch
from fmha_cli.codegen.flash_attn.emit import SYMBOL
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import pack
from fmha_cli.errors import KernelFailure
from fmha_cli.kernel import KernelSpec

INT_BYTES = 4


def argument_bytes(params: FaFwdParams | FaBwdParams, extra: tuple[int, ...]) -> bytes:
    """A kernel's arguments as it gets them: the block, then its ``int`` parameters.

    The block ends on a multiple of 8, so nothing lies between.
    """
    return bytes(pack(params)) + b"".join(value.to_bytes(INT_BYTES, "little", signed=True) for value in extra)


class FaLibrary:
    """A kernel's cubin in the current context.

    Raises:
        KernelFailure: its exported tables differ from the host's (``check_abi``); N009, it does not load.
        MemoryError: no device memory for its code.
    """

    def __init__(self, cuda: Cuda, kernel: KernelSpec, path: Path) -> None:
        self._cuda, self.kernel = cuda, kernel
        cubin = path.read_bytes()
        check_abi(cubin, kernel)
        try:
            self._loaded = CudaKernel(cuda, cubin, SYMBOL)
        except CudaLost:
            raise
        except CudaError as fault:
            raise KernelFailure(
                f"{kernel.family.value} does not load: {fault.what}",
                code="N009",
                where=str(path),
                why=f"{kernel.name} was built for {kernel.arch}",
                help="`fmha devices` lists the architectures that the device accepts",
            ) from fault

    def prepared(self, params: FaFwdParams | FaBwdParams, launch: Launch) -> PreparedLaunch:
        """One launch, to be made as often as wanted.

        Raises:
            KernelFailure: N008, the device does not give that much shared memory.
        """
        try:
            self._loaded.allow_shared(launch.smem)
        except CudaLost:
            raise
        except CudaError as fault:
            raise self._refused(fault, f"it needs {launch.smem} bytes of shared memory") from fault
        arguments = PackedArguments(self._cuda.driver, argument_bytes(params, launch.extra))
        return PreparedLaunch(self, Shape(launch.grid, launch.block, launch.smem), arguments)

    def launch(self, shape: Shape, arguments: PackedArguments, stream: Any) -> None:
        """Queue the kernel.

        Raises:
            KernelFailure: N008, CUDA refused the launch. DeviceLost: an earlier kernel ruined the context.
            MemoryError: out of device memory.
        """
        try:
            self._loaded.launch(shape, arguments, stream)
        except CudaLost:
            raise
        except CudaError as fault:
            raise self._refused(fault, f"grid {shape.grid}, block {shape.block}, {shape.shared} bytes") from fault

    def unload(self) -> None:
        """Give the kernel's code back."""
        self._loaded.unload()

    def _refused(self, fault: CudaError, why: str) -> KernelFailure:
        return KernelFailure(
            f"CUDA refused to launch {self.kernel.family.value}: {fault.what}",
            code="N008",
            where=self.kernel.name,
            why=why,
            help="the same launch with --dry-run shows its grid, block and arguments",
        )


class PreparedLaunch:
    """A launch with its arguments; call it with a stream. A grid without blocks is none: CUDA would refuse it."""

    def __init__(self, library: FaLibrary, shape: Shape, arguments: PackedArguments) -> None:
        self._library, self.shape, self.arguments = library, shape, arguments

    def __call__(self, stream: Any) -> None:
        if not self.shape.empty:
            self._library.launch(self.shape, self.arguments, stream)
