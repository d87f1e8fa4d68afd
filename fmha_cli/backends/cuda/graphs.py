"""CUDA graphs: what a stream was told once, replayed by one call.

The kernels of a graph follow each other without the host, so that even a kernel shorter than its own launch can be
timed: by the events around a replay of many.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.cuda.errors import CudaError


class Graph:
    """A captured and instantiated graph.

    Args:
        queue: queues the work in the stream; nothing of it runs yet.

    Raises:
        CudaError: N001, something in it cannot be captured. MemoryError: out of device memory.
    """

    def __init__(self, cuda: Cuda, stream: Any, queue: Callable[[], None]) -> None:
        self._cuda = cuda
        mode = cuda.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        cuda.call("cuStreamBeginCapture", stream, mode)
        try:
            queue()
        except BaseException:
            with suppress(CudaError):  # the capture ends, and says once more that it failed
                cuda.call("cuStreamEndCapture", stream)
            raise
        graph = cuda.call("cuStreamEndCapture", stream)
        try:
            self._exec = cuda.call("cuGraphInstantiate", graph, 0)
        finally:
            if not cuda.lost:
                cuda.call("cuGraphDestroy", graph)

    def replay(self, stream: Any) -> None:
        """Queue it in the stream."""
        self._cuda.call("cuGraphLaunch", self._exec, stream)

    def destroy(self) -> None:
        """Give it back."""
        if not self._cuda.lost:
            self._cuda.call("cuGraphExecDestroy", self._exec)
