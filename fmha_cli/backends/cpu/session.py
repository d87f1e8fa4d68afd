"""The CPU session: ctypes on the arena, in the worker."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fmha_cli.backends.cpu.arguments import Arguments, interface_of
from fmha_cli.codegen import abi
from fmha_cli.codegen.struct import c_fields, ctypes_structure, layout_faults, pack
from fmha_cli.domain.device import DeviceFacts, usable_cores
from fmha_cli.domain.errors import EnvironmentProblem, InternalError, KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor

_DEFAULT_LLC = 64 << 20


@dataclass
class _StageLaunch:
    """One stage: its pass's problem, its library and function, how that is called, and its argument once tensors are bound; of placed
    tensors also the members of the block that hold each one's address."""

    problem: Problem
    library: ctypes.CDLL
    entry: Callable[[object], int]
    interface: abi.Interface
    arguments: Arguments | None = None
    block: ctypes.Structure | None = None
    argument: object = None
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def pack(self, arguments: Arguments) -> None:
        """Keep the arguments, and the block that holds them, for all launches."""
        self.arguments, self.block = arguments, pack(arguments.block)
        self.argument = ctypes.byref(self.block)

    def run(self) -> int:
        """Launch once. Returns nanoseconds. Raises as ``Session.launch``."""
        if self.argument is None:
            raise InternalError("launch before bind")
        entry, argument = self.entry, self.argument
        start = time.perf_counter_ns()
        status = entry(argument)
        elapsed = time.perf_counter_ns() - start
        if status == abi.EntryStatus.OUT_OF_MEMORY:
            raise MemoryError("the kernel's scratch could not be allocated")
        if status == abi.EntryStatus.NOT_PERMITTED:
            raise EnvironmentProblem(
                "the system does not let this process use the processor's matrix tiles",
                code="K115",
                why="Linux refused arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)",
                help="run with --arch x86_64_v4_bf16, which needs no tiles",
            )
        if status != abi.EntryStatus.OK:
            raise KernelFailure(f"the kernel refused its arguments (status {status})", code="K112")
        return elapsed


class CpuSession:
    """Runs one plan at a time; see ``fmha_cli.domain.protocols.Session`` for the contract of the methods."""

    def __init__(self, device: DeviceFacts) -> None:
        self._device = device
        self._plan: Plan | None = None
        self._launches: list[_StageLaunch] = []
        self._arena: ctypes.Array[ctypes.c_char] | None = None
        self._evictor: ctypes.Array[ctypes.c_char] | None = None

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.close()
        parts = [(part.problem, stage.kernel) for part in plan.passes() for stage in part.stages]
        self._launches = [_load_stage(*part, path) for part, path in zip(parts, artifacts, strict=True)]
        self._plan = plan

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        if self._plan is None:
            raise InternalError("bind before load")
        self._arena = (ctypes.c_char * arena.nbytes).from_buffer(arena)
        for launch in self._launches:
            launch.pack(self._arguments(launch, tensors, threads, ctypes.addressof(self._arena)))

    def _arguments(
        self, launch: _StageLaunch, tensors: Mapping[str, BoundTensor], threads: int, base: int = 0
    ) -> Arguments:
        cores, settings = threads or usable_cores(), dict(self._device.settings)
        return Arguments(launch.interface.block, launch.problem, tensors, base, cores, settings)

    def place(self, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        """See ``fmha_cli.domain.protocols.Placed``. A member of the block belongs to a tensor if it moves with it."""
        if self._plan is None:
            raise InternalError("place before load")
        for launch in self._launches:
            kind: type = launch.interface.block
            still = self._arguments(launch, tensors, threads)
            members = {}
            for name, tensor in tensors.items():
                moved = {**tensors, name: replace(tensor, offset=tensor.offset + 1)}
                block = self._arguments(launch, moved, threads).block
                members[name] = tuple(n for n, _ in c_fields(kind) if getattr(block, n) == getattr(still.block, n) + 1)
            launch.members = members
            launch.pack(still)

    def move(self, addresses: Mapping[str, int]) -> None:
        for launch in self._launches:
            for name, address in addresses.items():
                for member in launch.members[name]:
                    setattr(launch.block, member, address)

    def upload(self) -> None:
        """Nothing to do: the arena is the device's memory."""

    def launch(self) -> tuple[int, ...]:
        if self._plan is None:
            raise InternalError("launch before load")
        return tuple(launch.run() for launch in self._launches)

    def download(self) -> None:
        """Nothing to do."""

    def evict_caches(self) -> None:
        if self._evictor is None:
            self._evictor = (ctypes.c_char * (2 * (self._device.llc_bytes or _DEFAULT_LLC)))()
        ctypes.memset(self._evictor, 1, len(self._evictor))

    def close(self) -> None:
        for launch in self._launches:
            launch.library[abi.RELEASE]()
        self._launches = []
        self._plan = self._arena = None


def _load_stage(problem: Problem, kernel: KernelSpec, path: Path) -> _StageLaunch:
    """The library of a kernel, whose argument block is the host's. Raises as ``Session.load``."""
    interface = interface_of(kernel)
    block: type = interface.block
    try:
        library = ctypes.CDLL(str(path))
        entry = library[interface.entry]
    except (OSError, AttributeError) as fault:
        raise KernelFailure(f"{kernel.name} does not load: {fault}", code="K110", where=str(path)) from fault
    faults = layout_faults(library, block, interface.prefix, abi.VERSION)
    if faults:
        raise KernelFailure(
            f"{kernel.name} was compiled for another argument block: {faults[0]}",
            code="K111",
            where=str(path),
            why="; ".join(faults),
            help="fmha cache prune, then build again",
        )
    entry.restype = ctypes.c_int
    entry.argtypes = [ctypes.POINTER(ctypes_structure(block))]
    return _StageLaunch(problem, library, entry, interface)
