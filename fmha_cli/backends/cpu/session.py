"""The CPU session: ctypes on the arena, in the worker."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.backends.cpu.arguments import Arguments
from fmha_cli.codegen import abi
from fmha_cli.codegen.struct import ctypes_structure, layout_faults, pack
from fmha_cli.domain.device import DeviceFacts, usable_cores
from fmha_cli.domain.errors import InternalError, KernelFailure
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.protocols import BoundTensor

_DEFAULT_LLC = 64 << 20


class CpuSession:
    """Runs one plan at a time; see ``fmha_cli.domain.protocols.Session`` for the contract of the methods."""

    def __init__(self, device: DeviceFacts) -> None:
        self._device = device
        self._plan: Plan | None = None
        self._library: ctypes.CDLL | None = None
        self._arguments: Arguments | None = None
        self._block: ctypes.Structure | None = None
        self._arena: ctypes.Array[ctypes.c_char] | None = None
        self._evictor: ctypes.Array[ctypes.c_char] | None = None

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.close()
        (path,) = artifacts
        try:
            library = ctypes.CDLL(str(path))
            entry = library[abi.ENTRY]
        except (OSError, AttributeError) as fault:
            raise KernelFailure(f"{plan.main.name} does not load: {fault}", code="K110", where=str(path)) from fault
        faults = layout_faults(library, abi.FmhaCpuArgs, abi.PREFIX, abi.VERSION)
        if faults:
            raise KernelFailure(
                f"{plan.main.name} was compiled for another argument block: {faults[0]}",
                code="K111",
                where=str(path),
                why="; ".join(faults),
                help="fmha cache prune, then build again",
            )
        entry.restype = ctypes.c_int
        entry.argtypes = [ctypes.POINTER(ctypes_structure(abi.FmhaCpuArgs))]
        self._plan, self._library = plan, library

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        if self._plan is None:
            raise InternalError("bind before load")
        self._arena = (ctypes.c_char * arena.nbytes).from_buffer(arena)
        base = ctypes.addressof(self._arena)
        settings = dict(self._device.settings)
        self._arguments = Arguments(self._plan.problem, tensors, base, threads or usable_cores(), settings)
        self._block = pack(self._arguments.block)

    def upload(self) -> None:
        """Nothing to do: the arena is the device's memory."""

    def launch(self) -> tuple[int, ...]:
        if self._library is None or self._block is None:
            raise InternalError("launch before bind")
        entry, argument = self._library[abi.ENTRY], ctypes.byref(self._block)
        start = time.perf_counter_ns()
        status = entry(argument)
        elapsed = time.perf_counter_ns() - start
        if status == abi.Status.OUT_OF_MEMORY:
            raise MemoryError("the kernel's scratch could not be allocated")
        if status != abi.Status.OK:
            raise KernelFailure(f"the kernel refused its arguments (status {status})", code="K112")
        return (elapsed,)

    def download(self) -> None:
        """Nothing to do."""

    def evict_caches(self) -> None:
        if self._evictor is None:
            self._evictor = (ctypes.c_char * (2 * (self._device.llc_bytes or _DEFAULT_LLC)))()
        ctypes.memset(self._evictor, 1, len(self._evictor))

    def close(self) -> None:
        if self._library is not None:
            self._library[abi.RELEASE]()
        self._plan = self._library = self._arguments = self._block = self._arena = None
