"""The times of stages in a stream: from one launch between events, or from replays of a graph if a launch is short.

The meaning of a time:

- A *plain* launch is timed by events before, between and after the stages. The time of a stage that is shorter than its
  own launch by the host includes the host's time.
- *Replays* have no such gaps. The graph has many passes. The first pass has an event after every stage; the others have
  one event before and one after all of them. The launch's time is the mean of those others, divided among the stages in
  the proportions of the first pass. The events are nodes of the graph, so no time includes the graph's own start.

After replays of kernels that need something done before every launch (zeroed workspaces), one plain launch follows, so
the outputs come from a launch and can be judged.

A graph is work that is captured from a stream once and replayed by one call, so its kernels follow each other without the
host. Caches are hot in replays. A launch that must be measured cold, or whose result is judged, is therefore a plain launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


REPLAY_BELOW_NS = 200_000
"""Launches shorter than this are replayed. The host's gaps in a plain launch, a few microseconds for each stage, are 1
to 5 % of this time."""

REPLAY_NS = 1_000_000
MOST_PASSES = 200
"""The most passes of a replay. A replay with fewer lasts about a millisecond, against which an event's half microsecond
is negligible."""


class StageTimer:
    """Launches stages in order on its own stream, and times them.

    Args:
        cuda: the driver.
        stages: functions that each queue one stage in a given stream.
        before: queues the untimed work before a launch; None if there is nothing to do.

    Raises:
        DriverError: see ``Cuda``.
        MemoryError: see ``Cuda``.
    """

    def __init__(
        self, cuda: Cuda, stages: Sequence[Callable[[Any], None]], before: Callable[[Any], None] | None = None
    ) -> None:
        self._cuda, self._stages = cuda, tuple(stages)
        self._before: Callable[[Any], None] = before or (lambda stream: None)
        self._alike = before is None
        self.stream: Any = cuda.stream()
        self._events = tuple(cuda.event() for _ in range(len(self._stages) + 2))
        self._graph: Graph | None = None
        self._passes = 0
        self._warm_ns: int | None = None

    def single(self) -> tuple[int, ...]:
        """One plain launch: nanoseconds per stage.

        Raises:
            DriverLost: a kernel ruined the context.
            DriverError: a launch was refused.
            MemoryError: a launch was refused for lack of device memory.
        """
        self._before(self.stream)
        return self._cuda.time_stages(self._stages, self._events[:-1], self.stream)

    def hot(self) -> tuple[int, ...]:
        """One launch with hot caches: replays if a plain launch is short, else a plain launch.

        It raises what :meth:`single` raises.
        """
        if self._warm_ns is None or self._warm_ns >= REPLAY_BELOW_NS:
            times = self.single()
            self._warm_ns = sum(times)
            if self._warm_ns >= REPLAY_BELOW_NS:
                return times
        return self._replay(self._warm_ns)

    def forget(self) -> None:
        """Drop the captured graph, because the stages' launches have changed."""
        if self._graph is not None:
            self._graph.destroy()
            self._graph = None
        self._warm_ns = None

    def close(self) -> None:
        """Free the graph, the events and the stream."""
        self.forget()
        self._cuda.destroy(self._events, self.stream)
        self._events, self.stream = (), None

    def _replay(self, about_ns: int) -> tuple[int, ...]:
        if self._graph is None:
            self._passes = max(2, min(MOST_PASSES, -(-REPLAY_NS // max(1, about_ns))))
            self._graph = Graph(self._cuda, self.stream, self._queue)
        self._before(self.stream)
        self._graph.replay(self.stream)
        self._cuda.synchronize(self.stream)
        *first, rest = self._cuda.elapsed_ns(self._events)
        if not self._alike:
            self.single()
        return divide(round(rest / self._passes), first)

    def _queue(self) -> None:
        """Queue the first pass with its events, then the other passes, then one more event."""
        self._cuda.mark(self._events[0], self.stream)
        for stage, event in zip(self._stages, self._events[1:-1], strict=True):
            stage(self.stream)
            self._cuda.mark(event, self.stream)
        for _ in range(self._passes):
            for stage in self._stages:
                stage(self.stream)
        self._cuda.mark(self._events[-1], self.stream)


def divide(whole: int, parts: Sequence[int]) -> tuple[int, ...]:
    """Divide a time in the proportions of the parts. The results add up exactly."""
    total, done, out = sum(parts), 0, []
    for part in parts[:-1]:
        out.append(whole * part // total if total else 0)
        done += out[-1]
    return (*out, whole - done)
