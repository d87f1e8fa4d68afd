"""The session for the kernels of an ``Upstream``, whatever the vendor.

The times exclude uploads, the zeroing of workspaces before the kernels, and the upstream's conversions on the host. They
include what a launch clears itself (``Launch.cleared``).

Where the upstream's host code launches nothing for a pass, the session launches nothing either. The times are then 0, and
the session fills the outputs after the download.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.auxiliary import given_tables
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.driver import Driver, DriverError
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.backends.gpu.mirror import Mirror
from fmha_cli.backends.gpu.session import GpuSession
from fmha_cli.backends.gpu.upstream import Upstream
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem

Room = tuple[int, int]
"""Device address and bytes of some memory."""


class LoadedKernel(Protocol):
    """A kernel's code on the current device."""

    def prepare(self, params: Any, launch: Launch) -> Callable[[Any], None]:
        """One launch, which can be repeated: it queues the kernel in the stream that it is given.

        Args:
            params: of ``Upstream.params_of``.
        """

    def unload(self) -> None:
        """Unload the kernel's code."""


def load_failure(kernel: KernelSpec, path: Path, fault: DriverError, code: str) -> KernelFailure:
    """The failure of a kernel whose code the driver does not load."""
    return KernelFailure(
        f"{kernel.family.value} does not load: {fault.what}",
        code=code,
        where=str(path),
        why=f"{kernel.name} was built for {kernel.arch}",
        help="`fmha devices` lists the architectures that the device accepts",
    )


def launch_failure(kernel: KernelSpec, driver: str, fault: DriverError, why: str, code: str) -> KernelFailure:
    """The failure of a kernel that the driver refuses to launch.

    Args:
        driver: its name for people, ``CUDA`` or ``HIP``.
    """
    return KernelFailure(
        f"{driver} refused to launch {kernel.family.value}: {fault.what}",
        code=code,
        where=kernel.name,
        why=why,
        help="the same launch with --dry-run shows its grid, block and arguments",
    )


class PreparedLaunch:
    """A launch with its arguments, and the memory that it clears. Call it with a stream. It skips a grid without blocks, which
    drivers refuse.
    """

    def __init__(self, launch: Callable[[Any], None], empty: bool, memory: Driver, cleared: Sequence[Room]) -> None:
        self._launch, self._empty, self._memory, self._cleared = launch, empty, memory, tuple(cleared)

    def __call__(self, stream: Any) -> None:
        if not self._empty:
            for address, size in self._cleared:
                self._memory.fill(address, 0, size, stream)
            self._launch(stream)


class UpstreamSession(GpuSession[Any]):
    """Derive from this class and the vendor's session, in this order; ``_upstream`` must be set."""

    _upstream: Upstream
    _kernels: Mapping[Stage, LoadedKernel] = MappingProxyType({})
    _arrays: dict[Problem, Mapping[str, Array]]
    _launches: dict[Stage, PreparedLaunch]

    def launch(self) -> tuple[int, ...]:
        calls, _ = self._bound()
        times, live = dict.fromkeys(self._kernels, 0), self._live(calls)
        times |= zip(live, super().launch(), strict=True) if live else ()
        return tuple(times.values())

    @abstractmethod
    def _load_kernel(self, kernel: KernelSpec, path: Path) -> LoadedKernel:
        """Load an artifact."""

    def _load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        super()._load(plan, artifacts)
        kernels: dict[Stage, LoadedKernel] = {}
        self._kernels, self._arrays, self._launches = kernels, {}, {}
        for stage, path in zip(plan.stages, artifacts, strict=True):
            kernels[stage] = self._load_kernel(stage.kernel, path)

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
            queue = self._kernels[stage].prepare(params, launch)
            self._launches[stage] = PreparedLaunch(queue, launch.empty, self._memory, cleared)
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
        super()._unload()
        for kernel in self._kernels.values():
            kernel.unload()
        self._kernels = {}

    def _live(self, calls: Sequence[Call[Any]]) -> list[Stage]:
        """The stages of the passes for which the host code launches kernels."""
        return [stage for call in calls if self._upstream.launches(call.situation) for stage in call.plan.stages]

    def _zero(self, stream: Any) -> None:
        """Queue the zeroing of the workspaces that the kernels expect to be zero."""
        for call in self._calls:
            for name in self._upstream.list_zeroed(call.plan):
                self._memory.fill(call.address(name), 0, call.tensor(name).shape[0], stream)


def fill_outputs(call: Call[Any], arena: Bytes) -> None:
    """The outputs where there is nothing to attend to: 0, and an LSE of -inf."""
    for name in ("dq", "dk", "dv", "dbias") if call.problem.direction.backward else ("o", "lse"):
        if name in call.tensors:
            view(arena, call.tensor(name))[...] = float("-inf") if name == "lse" else 0
