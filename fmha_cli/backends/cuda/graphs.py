"""CUDA graphs: work that is captured from a stream once and replayed by one call.

The kernels of a graph follow each other without the host. Events around a replay of many passes can therefore time even
a kernel that is shorter than its own launch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fmha_cli.backends.cuda.driver import Cuda
from fmha_cli.backends.gpu.driver import DriverError


class Graph:
    """A captured and instantiated graph.

    Args:
        cuda: the driver.
        stream: the stream to capture.
        queue: queues the work in the stream. None of it runs during the capture.

    Raises:
        DriverError: N001, some of the work cannot be captured.
        MemoryError: out of device memory.
    """

    def __init__(self, cuda: Cuda, stream: Any, queue: Callable[[], None]) -> None:
        self._cuda = cuda
        mode = cuda.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        cuda.call("cuStreamBeginCapture", stream, mode)
        try:
            queue()
        except BaseException:
            with suppress(DriverError):  # ending the capture reports the same failure again
                cuda.call("cuStreamEndCapture", stream)
            raise
        graph = cuda.call("cuStreamEndCapture", stream)
        try:
            self._exec = cuda.call("cuGraphInstantiate", graph, 0)
        finally:
            if not cuda.lost:
                cuda.call("cuGraphDestroy", graph)

    def replay(self, stream: Any) -> None:
        """Queue the graph in the stream."""
        self._cuda.call("cuGraphLaunch", self._exec, stream)

    def destroy(self) -> None:
        """Free the graph."""
        if not self._cuda.lost:
            self._cuda.call("cuGraphExecDestroy", self._exec)
