"""``GpuSession``: the common part of all GPU sessions, whatever the vendor.

A session derives from it and implements the hooks, whose docstrings say when they are called. Hooks that are not
abstract do nothing by default. A session runs one plan at a time: ``load``, ``bind``, then ``upload``, ``launch``,
``download`` in a loop, and ``close``.

A plan has one or two passes (``Plan.passes``), and each has its own ``Call``: a hook that takes a call is called for
every pass in launch order, and sees the pass as a plan of one direction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from fmha_cli.backends.gpu.arena_views import Array, Bytes
from fmha_cli.backends.gpu.call import Call, calls_of
from fmha_cli.backends.gpu.driver import Driver
from fmha_cli.backends.gpu.mirror import Mirror
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.protocols import BoundTensor

S = TypeVar("S")


class GpuSession(ABC, Generic[S]):
    """A session on a GPU: it mirrors the arena, copies it, and evicts caches. The vendor's session, ``CudaSession`` or ``HipSession``, makes the
    device current, launches and times. A subclass of that implements ``_load(plan, artifacts)``, ``_situation(plan)`` (what its host code derives
    from the problem, or None), ``_prepare(call)`` (the launches of a pass), ``_stages()`` (one function for each stage, which queues it in the
    stream it is given) and ``_unload()``. ``call.tensor(name)`` has shape and strides, ``call.address(name)`` is the device address of element 0.
    Kernels that need additional small arrays, or conversions on the host, override ``_auxiliaries``,
    ``_before_upload``, ``_after_upload`` or ``_after_download``.

    See ``fmha_cli.domain.protocols.Session`` for the contract of the public methods.

    Args:
        device: the device to run on.
        memory: the vendor's calls.
        unknown_cache: bytes to assume for the last-level cache when the device's facts do not state its size. It should
            be larger than any existing cache.
    """

    def __init__(self, device: DeviceFacts, memory: Driver, unknown_cache: int) -> None:
        self._device, self._memory = device, memory
        self._cache_bytes = device.llc_bytes or unknown_cache
        self._plan: Plan | None = None
        self._calls: tuple[Call[S], ...] = ()
        self._mirror: Mirror | None = None

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.close()
        self._enter()
        self._load(plan, artifacts)
        self._plan = plan

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        if self._plan is None:
            raise InternalError("bind before load")
        self._enter()
        self._mirror = mirror = Mirror(self._memory, arena)

        def places_of(plan: Plan, situation: S) -> Mapping[str, int]:
            return mirror.places(self._auxiliaries(plan, situation))

        self._calls = calls_of(self._plan, self._situation, tensors, mirror.base, places_of)
        for call in self._calls:
            self._prepare(call)

    def upload(self) -> None:
        calls, mirror = self._bound()
        for call in calls:
            self._before_upload(call, mirror.host)
        mirror.upload()
        for call in calls:
            self._after_upload(call, mirror)

    @abstractmethod
    def launch(self) -> tuple[int, ...]:
        """Run all stages once and wait: nanoseconds per stage."""
        return ()

    def download(self) -> None:
        calls, mirror = self._bound()
        mirror.download()
        for call in calls:
            self._after_download(call, mirror.host)

    def evict_caches(self) -> None:
        """Write twice the size of the last-level cache. The next launch is queued behind it in the same stream."""
        _, mirror = self._bound()
        mirror.evict(self._cache_bytes, self._stream())

    def close(self) -> None:
        """Free everything except the device's context, which the next session of the process reuses."""
        self._unload()
        if self._mirror is not None:
            self._mirror.close()
        self._plan = self._mirror = None
        self._calls = ()

    def _bound(self) -> tuple[tuple[Call[S], ...], Mirror]:
        """The calls of the current binding, in launch order. Its device becomes the current one.

        Raises:
            InternalError: the session is not bound.
        """
        if not self._calls or self._mirror is None:
            raise InternalError("the session is not bound")
        self._enter()
        return self._calls, self._mirror

    @abstractmethod
    def _enter(self) -> None:
        """Make the device the current one. Two sessions of a process may use different devices."""

    @abstractmethod
    def _load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        """Load one artifact for each stage."""
        return

    @abstractmethod
    def _situation(self, plan: Plan) -> S:
        """The values that the host code derives from the problem of a pass, for ``Call.situation``."""

    def _auxiliaries(self, plan: Plan, situation: S) -> Mapping[str, Array]:
        """The small arrays that the kernels of a pass read in addition to the tensors. ``bind`` uses only their sizes."""
        return {}

    @abstractmethod
    def _prepare(self, call: Call[S]) -> None:
        """Prepare the launches of a new binding."""
        return

    @abstractmethod
    def _stages(self) -> Sequence[Callable[[Any], None]]:
        """One function for each stage that is launched, in order, which queues it in a stream. It is empty where the launches are not
        prepared yet.
        """

    def _before_launch(self) -> Callable[[Any], None] | None:
        """A function that queues, in a stream, what the kernels require before each launch. It is not timed."""
        return None

    def _before_upload(self, call: Call[S], host: Bytes) -> None:
        """Prepare the host's arena just before it is copied to the device."""
        return

    def _after_upload(self, call: Call[S], mirror: Mirror) -> None:
        """Write the auxiliary arrays and zeros, once the arena is on the device."""
        return

    def _after_download(self, call: Call[S], host: Bytes) -> None:
        """Convert the outputs to the contract's conventions, once they are in the host's arena."""
        return

    @abstractmethod
    def _stream(self) -> Any:
        """The stream of the launches."""

    @abstractmethod
    def _unload(self) -> None:
        """Release what ``_load`` and ``_prepare`` acquired. Called even when they acquired nothing or failed midway."""
        return
