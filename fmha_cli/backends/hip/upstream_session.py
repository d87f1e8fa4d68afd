"""The session for the kernels of a ``CodeObjectUpstream`` on an AMD device, and the code objects that it loads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fmha_cli.backends.gpu.driver import DriverError, DriverLost
from fmha_cli.backends.gpu.launching import Launch, PackedArguments
from fmha_cli.backends.gpu.upstream_session import UpstreamSession, launch_failure, load_failure
from fmha_cli.backends.hip.argument_check import check_arguments
from fmha_cli.backends.hip.runtime import Hip
from fmha_cli.backends.hip.session import HipKernel, HipSession
from fmha_cli.backends.hip.upstream import CodeObjectUpstream
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec


class LoadedCode:
    """A kernel of a code object on the current device. See ``gpu.upstream_session.LoadedKernel``.

    Raises:
        KernelFailure: H008, it does not load.
        MemoryError: no device memory for its code.
    """

    def __init__(self, hip: Hip, kernel: KernelSpec, path: Path, symbol: str) -> None:
        self._hip, self._kernel, self._code, self._symbol = hip, kernel, path.read_bytes(), symbol
        try:
            self._loaded = HipKernel(hip, self._code, symbol)
        except DriverLost:
            raise
        except DriverError as fault:
            raise load_failure(kernel, path, fault, code="H008") from fault

    def prepare(self, params: Any, launch: Launch) -> Callable[[Any], None]:
        """See ``LoadedKernel``.

        Raises:
            KernelFailure: H009, the kernel takes other arguments.
        """
        check_arguments(self._code, self._kernel, self._symbol, params)
        return partial(self._queue, launch, PackedArguments(bytes(pack(params)), self._hip.arguments_end))

    def unload(self) -> None:
        self._loaded.unload()

    def _queue(self, launch: Launch, arguments: PackedArguments, stream: Any) -> None:
        """Queue the kernel.

        Raises:
            KernelFailure: H005, HIP refused the launch.
            DeviceLost: an earlier kernel ruined the context.
            MemoryError: out of device memory.
        """
        try:
            self._loaded.launch(launch, arguments, stream)
        except DriverLost:
            raise
        except DriverError as fault:
            why = f"grid {launch.grid}, block {launch.block}"
            raise launch_failure(self._kernel, "HIP", fault, why, code="H005") from fault


class CodeObjectSession(UpstreamSession, HipSession[Any]):
    """Runs one plan at a time. See ``fmha_cli.domain.protocols.Session`` for the contract of the methods."""

    _upstream: CodeObjectUpstream

    def __init__(self, upstream: CodeObjectUpstream, device: DeviceFacts) -> None:
        self._upstream = upstream
        super().__init__(device)

    def _load_kernel(self, kernel: KernelSpec, path: Path) -> LoadedCode:
        return LoadedCode(self._hip, kernel, path, self._upstream.symbol(kernel))
