"""The session on an AMD device: one device arena that mirrors the host's, kernels launched between events.

What is timed: each stage from one event to the next, on one stream. What is not: uploads, zeroing and copies that a
launch needs first (``dq_acc`` before an accumulating backward, ``dbias``, and the copy of Q that the append kernel
rotates in place), and conversions of results. Upstream's example does not time them either: it zeroes ``dq_acc`` once,
before its timed loop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli.backends.arena_views import Bytes, extent, is_dense, view
from fmha_cli.backends.ck_tile.arguments import block_of
from fmha_cli.backends.ck_tile.auxiliary import Array, auxiliaries_of
from fmha_cli.backends.ck_tile.conversions import Patch, blanked, finish, patches_for
from fmha_cli.backends.ck_tile.library import CkLibrary
from fmha_cli.backends.ck_tile.places import Call
from fmha_cli.backends.ck_tile.quantisation import Scales, scales_of
from fmha_cli.backends.ck_tile.zeroing import zeroed
from fmha_cli.backends.hip.runtime import Hip
from fmha_cli.device import DeviceFacts
from fmha_cli.errors import EnvironmentProblem, InternalError
from fmha_cli.features import QScale
from fmha_cli.plan import Plan
from fmha_cli.protocols import BoundTensor

ALIGN = 256
"""Bytes; what hipMalloc promises, and auxiliary arrays keep."""

EVICTION_FACTOR = 2
UNKNOWN_LLC = 256 << 20
"""Bytes of a last-level cache of which nothing is known: that of MI300's Infinity Cache, the largest so far."""

_DESCALES = ("q_descale", "k_descale", "v_descale")


class CkSession:
    """Runs one plan at a time; see ``fmha_cli.protocols.Session`` for the contract of the methods.

    Args:
        library: a certain libamdhip64 instead of the system's.

    Raises:
        EnvironmentProblem: H002-H004, no runtime or no device; H006, not this device.
    """

    def __init__(self, device: DeviceFacts, library: Path | None = None) -> None:
        self._device = device
        self._hip = Hip.open(library)
        self._hip.use(_index(device))
        self._plan: Plan | None = None
        self._libraries: tuple[CkLibrary, ...] = ()
        self._tensors: Mapping[str, BoundTensor] = {}
        self._arena: Bytes | None = None
        self._allocations: list[int] = []
        self._base = 0
        self._auxiliaries: dict[str, int] = {}
        self._blocks: tuple[ctypes.Structure, ...] = ()
        self._patches: tuple[Patch, ...] = ()
        self._scales: Scales | None = None
        self._blanks: dict[str, int] = {}
        self._evictor = (0, 0)
        self._stream: Any = None
        self._events: tuple[Any, ...] = ()

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.close()
        pairs = zip(plan.stages, artifacts, strict=True)
        self._libraries = tuple(CkLibrary(s.kernel, path, self._hip.error_text) for s, path in pairs)
        self._plan = plan
        self._stream = self._hip.stream()
        self._events = tuple(self._hip.event() for _ in range(len(plan.stages) + 1))

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        if self._plan is None:
            raise InternalError("bind before load")
        self._arena, self._tensors = np.frombuffer(arena, np.uint8), tensors
        self._base = self._allocate(arena.nbytes)
        sizes = {name: array.nbytes for name, array in auxiliaries_of(self._plan, None).items()}
        place = self._allocate(sum(_up(size) for size in sizes.values())) if sizes else 0
        for name, size in sizes.items():
            self._auxiliaries[name] = place
            place += _up(size)
        for name in zeroed(self._plan):
            if name in tensors and not is_dense(tensors[name]):
                self._blanks[name] = self._allocate(extent(tensors[name]))

    def upload(self) -> None:
        plan, arena = self._bound()
        self._patches = patches_for(plan, self._tensors, arena)
        self._hip.copy_in(self._base, arena.ctypes.data, arena.nbytes)
        for patch in self._patches:
            if len(patch.patched):
                self._hip.copy_in(self._base + patch.offset, patch.patched.ctypes.data, patch.patched.nbytes)
        for name, array in auxiliaries_of(plan, self._read).items():
            dense = np.ascontiguousarray(array)
            if dense.nbytes:
                self._hip.copy_in(self._auxiliaries[name], dense.ctypes.data, dense.nbytes)
        for name, address in self._blanks.items():
            image = blanked(arena, self._tensors[name])
            self._hip.copy_in(address, image.ctypes.data, image.nbytes)
        self._scales = scales_of(plan.problem, plan.main, self._descales())
        call = Call(plan, self._tensors, self._base, self._auxiliaries, self._scales)
        pairs = zip(self._libraries, plan.stages, strict=True)
        self._blocks = tuple(library.packed(block_of(stage, call)) for library, stage in pairs)

    def launch(self) -> tuple[int, ...]:
        plan, _ = self._bound()
        if not self._blocks:
            raise InternalError("launch before upload")
        self._prepare(plan)
        stream = int(self._stream)
        self._hip.record(self._events[0], self._stream)
        for library, block, event in zip(self._libraries, self._blocks, self._events[1:], strict=True):
            library.launch(block, stream)
            self._hip.record(event, self._stream)
        self._hip.synchronize(self._stream)
        return self._hip.elapsed_ns(self._events)

    def download(self) -> None:
        plan, arena = self._bound()
        if self._scales is None:
            raise InternalError("download before upload")
        self._hip.copy_out(arena.ctypes.data, self._base, arena.nbytes)
        for patch in self._patches:
            patch.undo(arena)
        finish(plan, self._tensors, arena, self._scales)

    def evict_caches(self) -> None:
        """Write twice the last-level cache (the Infinity Cache where there is one), and wait."""
        address, size = self._evictor
        if not size:
            size = EVICTION_FACTOR * (self._device.llc_bytes or UNKNOWN_LLC)
            address = self._allocate(size)
            self._evictor = (address, size)
        self._hip.fill(address, 1, size, self._stream)
        self._hip.synchronize(self._stream)

    def close(self) -> None:
        for address in self._allocations:
            self._hip.free(address)
        self._hip.destroy(self._events, self._stream)
        self._allocations, self._auxiliaries, self._blanks = [], {}, {}
        self._events, self._stream = (), None
        self._plan = self._arena = self._scales = None
        self._libraries, self._blocks, self._patches, self._evictor = (), (), (), (0, 0)

    def _bound(self) -> tuple[Plan, Bytes]:
        if self._plan is None or self._arena is None:
            raise InternalError("the session is not bound")
        return self._plan, self._arena

    def _allocate(self, size: int) -> int:
        address = self._hip.malloc(size)
        self._allocations.append(address)
        return address

    def _prepare(self, plan: Plan) -> None:
        """What the kernels expect done before they run, in the stream's order, ahead of the first event."""
        for name in zeroed(plan):
            if name not in self._tensors:
                continue
            start, size = self._base + self._tensors[name].offset, extent(self._tensors[name])
            if name in self._blanks:
                self._hip.copy_within(start, self._blanks[name], size, self._stream)
            elif size:
                self._hip.fill(start, 0, size, self._stream)
        if "q_rotated" in self._tensors:
            q, copy = self._tensors["q"], self._tensors["q_rotated"]
            self._hip.copy_within(self._base + copy.offset, self._base + q.offset, extent(q), self._stream)

    def _read(self, name: str) -> Array:
        _, arena = self._bound()
        return view(arena, self._tensors[name])

    def _descales(self) -> dict[str, float]:
        return dict(_single_values(self._bound(), self._tensors))


def _single_values(bound: tuple[Plan, Bytes], tensors: Mapping[str, BoundTensor]) -> Iterator[tuple[str, float]]:
    """The descales of ``--qscale tensor``: one number each."""
    plan, arena = bound
    if plan.problem.qscale is QScale.TENSOR:
        for name in _DESCALES:
            yield name, float(np.float32(view(arena, tensors[name]).reshape(-1)[0]))


def _index(device: DeviceFacts) -> int:
    if device.emulated:  # an emulator's runtime shows this one device
        return 0
    kind, _, number = device.id.partition(":")
    if kind != "hip" or not number.isdigit():
        raise EnvironmentProblem(
            f"{device.id} is no HIP device",
            code="H006",
            where="--device",
            help="hip:0, or emu:gfx942; `fmha devices` lists them",
        )
    return int(number)


def _up(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
