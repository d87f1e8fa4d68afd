"""``Driver``: the calls of a vendor's runtime that sessions need. Each is checked; errors carry the vendor's own text.

The calls go through the vendor's Python bindings, which are imported when a driver is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.errors import DeviceLost, EnvironmentProblem, FmhaError, KernelFailure

OUT_OF_MEMORY = 2
"""``CUDA_ERROR_OUT_OF_MEMORY`` and ``hipErrorOutOfMemory``."""
_NS_PER_MS = 1e6


class DriverError(KernelFailure):
    """A call that failed.

    Attributes:
        number: the vendor's number of the error.
    """

    number = 0


class DriverLost(DriverError, DeviceLost):
    """A call that failed because a kernel ruined the context. Nothing can be freed any more."""


class Driver(ABC):
    """One process's runtime of a vendor. Addresses are device addresses; sizes are bytes.

    Once a kernel has ruined the context, the methods that free resources do nothing. The process's end frees them.

    Args:
        bindings: the vendor's module of calls. A call returns its status, then its values.

    Attributes:
        prefix: how the names of the vendor's calls begin.
        memory: the names, after the prefix, of the calls that allocate and free device memory.
        fatal: numbers of the errors after which every further call of the process fails.
        code: the code of the error of a failed call.
        arguments_end: ends the array of a launch that passes packed arguments (``CU_LAUNCH_PARAM_END``).
    """

    prefix: str
    memory: tuple[str, str]
    fatal: Collection[int]
    code: str
    arguments_end: int

    def __init__(self, bindings: Any) -> None:
        self.driver = bindings
        self.lost = False
        """Whether a call has reported that the context is dead."""

    def call(self, name: str, *arguments: Any) -> Any:
        """The value of a call: None if it returns none, a tuple if it returns several.

        Raises:
            MemoryError: out of device memory.
            DriverLost: the context is dead.
            DriverError: any other error.
        """
        try:
            number, known, values = self.ask(name, *arguments)
        except RuntimeError as fault:  # the library lacks the function
            raise DriverError(f"{name} is not available", code=self.code, where=name, why=str(fault)) from fault
        self.check(name, number, known)
        return values[0] if len(values) == 1 else tuple(values) or None

    def check(self, name: str, number: int, known: str | None = None) -> None:
        """Raise the error that a call's status means, unless it is 0.

        Args:
            known: the vendor's name of the status.

        Raises:
            MemoryError, DriverLost, DriverError: as :meth:`call`.
        """
        if number == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: {self.error_text(number)}")
        if number:
            self.lost = self.lost or number in self.fatal
            kind = DriverLost if number in self.fatal else DriverError
            error = kind(f"{name} failed: {self.error_text(number)}", code=self.code, where=name, why=known)
            error.number = number
            raise error

    def ask(self, name: str, *arguments: Any) -> tuple[int, str | None, list[Any]]:
        """The number and name of a call's status, and its values.

        Raises:
            RuntimeError: the library does not load, or lacks the function.
        """
        try:
            status, *values = getattr(self.driver, name)(*arguments)
        except KeyError as fault:  # cuda-python: a number that its own release does not know
            return int(fault.args[0]), None, []
        return int(status), str(status.name), values

    @abstractmethod
    def error_text(self, number: int) -> str:
        """The vendor's text for an error number, followed by the number."""

    @abstractmethod
    def version(self) -> str:
        """The release of the runtime."""

    @abstractmethod
    def devices(self) -> Sequence[Any]:
        """Every device with its attributes."""

    @abstractmethod
    def use(self, index: int) -> None:
        """Make a device the current one."""

    def malloc(self, size: int) -> int:
        """Address of a new allocation.

        Raises:
            MemoryError: out of device memory.
        """
        return int(self.call(f"{self.prefix}{self.memory[0]}", max(size, 1)))

    def free(self, address: int) -> None:
        """Free an allocation."""
        if not self.lost:
            self.call(f"{self.prefix}{self.memory[1]}", address)

    @abstractmethod
    def copy_in(self, device: int, host: int, size: int) -> None:
        """Copy from host to device. Later work in any stream made by :meth:`stream` runs after the copy."""

    @abstractmethod
    def copy_out(self, host: int, device: int, size: int) -> None:
        """Copy from device to host, and wait."""

    @abstractmethod
    def copy_within(self, to: int, source: int, size: int, stream: Any) -> None:
        """Copy from device to device, in the stream's order."""

    @abstractmethod
    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        """Set every byte to ``value``, in the stream's order."""

    @abstractmethod
    def stream(self) -> Any:
        """A new stream."""

    @abstractmethod
    def event(self) -> Any:
        """A new event with timing."""

    def record(self, event: Any, stream: Any) -> None:
        """Record the event in the stream."""
        self.call(f"{self.prefix}EventRecord", event, stream)

    def synchronize(self, stream: Any) -> None:
        """Wait for the stream. If a kernel that ran in it failed, this call raises the error."""
        self.call(f"{self.prefix}StreamSynchronize", stream)

    def elapsed_ns(self, events: Sequence[Any]) -> tuple[int, ...]:
        """Nanoseconds between neighbouring events. All of them must have happened."""
        name = f"{self.prefix}EventElapsedTime"
        return tuple(round(self.call(name, a, b) * _NS_PER_MS) for a, b in pairwise(events))

    def time_stages(
        self, stages: Sequence[Callable[[Any], None]], events: Sequence[Any], stream: Any
    ) -> tuple[int, ...]:
        """Launch stages in order and wait: nanoseconds per stage. There is one event more than stages."""
        self.record(events[0], stream)
        for stage, event in zip(stages, events[1:], strict=True):
            stage(stream)
            self.record(event, stream)
        self.synchronize(stream)
        return self.elapsed_ns(events)

    def destroy(self, events: Sequence[Any], stream: Any) -> None:
        """Destroy events and a stream."""
        if self.lost:
            return
        for event in events:
            self.call(f"{self.prefix}EventDestroy", event)
        if stream is not None:
            self.call(f"{self.prefix}StreamDestroy", stream)


def probe(
    opened: Callable[[], Driver],
    facts_of: Callable[[Any], DeviceFacts],
    states: Mapping[str, State],
    *,
    runtime: str,
    tool: str,
) -> Availability:
    """The state of a runtime and its devices.

    Args:
        opened: opens the driver.
        facts_of: the facts of one of its devices that selection needs.
        states: the state that the code of an ``EnvironmentProblem`` means; BROKEN for any other code.
        runtime: the name of the runtime.
        tool: the vendor's program that may say more.
    """
    try:
        driver = opened()
        found, version = driver.devices(), driver.version()
    except EnvironmentProblem as fault:
        why = f"{fault.what} ({fault.why})" if fault.why else fault.what
        return Availability(state=states.get(fault.code, State.BROKEN), why=why, help=fault.help)
    except (FmhaError, MemoryError) as fault:
        return Availability(state=State.BROKEN, why=str(fault), help=f"`{tool}` may say more")
    if not found:
        return Availability(state=State.NO_DEVICE, why=f"{runtime} sees no device", version=version)
    return Availability(state=State.OK, devices=tuple(facts_of(device) for device in found), version=version)
