"""The emulator's C interface as a class: ctypes outside, numpy arrays inside."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

VGPRS, LANES, SGPRS = 512, 64, 128
VCC, M0, EXEC = 106, 124, 126
"""Numbers of special scalar registers (``core/inst.hpp``)."""

_ROOM = 1 << 20


class _State(ctypes.Structure):
    """``EmuState`` of ``core/capi.hpp``."""

    _fields_ = (
        ("v", ctypes.c_uint32 * (VGPRS * LANES)),
        ("defined", ctypes.c_uint64 * VGPRS),
        ("s", ctypes.c_uint32 * SGPRS),
        ("scc", ctypes.c_uint32),
        ("mode", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),
        ("track", ctypes.c_uint32),
        ("group", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32),
        ("lds", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("scratch_va", ctypes.c_uint64),
        ("lds_bytes", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32),
        ("executed", ctypes.c_uint64),
    )


class Fault(Exception):
    """The emulator stopped: an instruction that cannot be executed, with its address."""


@dataclass
class WaveState:
    """One wave before or after a snippet.

    Attributes:
        v: (512, 64) uint32: v0 to v255, then a0 to a255.
        s: (128,) uint32: the scalar registers by the numbers of ``core/inst.hpp``.
        defined: (512,) uint64: the lanes of each row of ``v`` that hold a value.
        lds: bytes of the workgroup.
        scratch: bytes of private memory, lane after lane.
        scratch_va: the address of ``scratch`` as the wave sees it.
        scc: the scalar condition code.
        mode: the MODE register.
        lanes: 32 or 64.
        wave: the wave's number in its workgroup.
        group: workgroup ids.
        track: whether findings are wanted.
        findings: the emulator's findings (kind, text, lane, ...); empty before the run.
        executed: instructions that ran.
    """

    v: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros((VGPRS, LANES), np.uint32))
    s: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(SGPRS, np.uint32))
    defined: npt.NDArray[np.uint64] = field(default_factory=lambda: np.full(VGPRS, 2**64 - 1, np.uint64))
    lds: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    scratch: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    scratch_va: int = 0
    scc: int = 0
    mode: int = 0
    lanes: int = 64
    wave: int = 0
    group: tuple[int, int, int] = (0, 0, 0)
    track: bool = False
    findings: list[dict[str, Any]] = field(default_factory=list)
    executed: int = 0

    @property
    def exec_mask(self) -> int:
        """The EXEC mask."""
        return self.mask(EXEC)

    @property
    def vcc(self) -> int:
        """The VCC mask."""
        return self.mask(VCC)

    def mask(self, register: int) -> int:
        """The lane mask in a scalar register (wave32) or pair (wave64)."""
        low = int(self.s[register])
        return low | int(self.s[register + 1]) << 32 if self.lanes == 64 else low

    def set_mask(self, register: int, value: int) -> None:
        """Write a lane mask to a scalar register pair."""
        self.s[register], self.s[register + 1] = value & 0xFFFFFFFF, value >> 32


class Core:
    """A loaded emulator library, for one thread at a time."""

    def __init__(self, path: Path | str) -> None:
        """Load the library.

        Raises:
            OSError: it does not load.
        """
        self.path = Path(path)
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
        self._findings = ctypes.create_string_buffer(_ROOM)

    def snippet(self, arch: str, listing: str, state: WaveState) -> WaveState:
        """Run code (``llvm-objdump -d`` text) on one wave, from its first instruction to s_endpgm or the end.

        Returns:
            The state afterwards. ``state`` does not change.

        Raises:
            Fault: an instruction that cannot be executed.
        """
        raw = _State(scc=state.scc, mode=state.mode, lanes=state.lanes, track=state.track, wave=state.wave)
        lds, scratch = np.ascontiguousarray(state.lds).copy(), np.ascontiguousarray(state.scratch).copy()
        _put(raw.v, state.v)
        _put(raw.defined, state.defined)
        _put(raw.s, state.s)
        raw.group[:] = state.group
        raw.lds, raw.lds_bytes = lds.ctypes.data, lds.nbytes
        raw.scratch, raw.scratch_bytes = scratch.ctypes.data, scratch.nbytes // LANES
        raw.scratch_va = state.scratch_va
        message, findings = ctypes.create_string_buffer(4096), self._findings
        status = self._library.emu_snippet(
            arch.encode(),
            listing.encode(),
            ctypes.byref(raw),
            message,
            ctypes.c_size_t(len(message)),
            findings,
            ctypes.c_size_t(_ROOM),
        )
        if status:
            raise Fault(message.value.decode())
        return WaveState(
            v=np.frombuffer(raw.v, np.uint32).reshape(VGPRS, LANES).copy(),
            s=np.frombuffer(raw.s, np.uint32).copy(),
            defined=np.frombuffer(raw.defined, np.uint64).copy(),
            lds=lds,
            scratch=scratch,
            scratch_va=state.scratch_va,
            scc=raw.scc,
            mode=raw.mode,
            lanes=state.lanes,
            wave=state.wave,
            group=state.group,
            track=state.track,
            findings=json.loads(findings.value.decode()),
            executed=raw.executed,
        )

    def describe(self, arch: str, listing: str) -> list[dict[str, Any]]:
        """How each line of code (``llvm-objdump -d`` text) was read and bound, as ``emu_describe`` of ``capi.hpp`` gives it."""
        described: list[dict[str, Any]] = json.loads(self._text(self._library.emu_describe, arch, listing))
        return described

    def unexecutable(self, arch: str, listing: str) -> dict[str, int]:
        """The lines of a listing that cannot be executed: ``MNEMONIC: REASON`` -> count."""
        counted: dict[str, int] = json.loads(self._text(self._library.emu_unexecutable, arch, listing))["problems"]
        return counted

    def _text(self, function: Any, arch: str, listing: str) -> str:
        """The text that a function writes which returns the room that it needs."""
        function.restype = ctypes.c_size_t
        room = 1 << 16
        while True:
            out = ctypes.create_string_buffer(room)
            needed: int = function(arch.encode(), listing.encode(), out, ctypes.c_size_t(room))
            if needed <= room:
                return out.value.decode()
            room = needed


def state_of(
    v: Mapping[int, npt.ArrayLike] | None = None,
    s: Mapping[int, int] | None = None,
    *,
    exec: int | None = None,
    vcc: int = 0,
    m0: int = 0,
    lanes: int = 64,
    **rest: Any,
) -> WaveState:
    """A wave's state from the values that a test names. Everything else is zero and defined.

    Args:
        v: rows of vector registers by number (256 and up are a0 and up). A row is a scalar, or up to 64 lanes of a
            32-bit type. Several rows of 64 go to consecutive registers.
        s: scalar registers by number.
        exec: the EXEC mask; None: all lanes.
        vcc: the VCC mask.
        m0: the register M0.
        lanes: 32 or 64.
        rest: other fields of ``WaveState``.

    Raises:
        TypeError: a row whose elements do not have 32 bits.
    """
    state = WaveState(lanes=lanes, **rest)
    for register, row in (v or {}).items():
        bits = _bits(np.atleast_2d(np.asarray(row)))
        lanes_given = LANES if bits.shape[1] == 1 else bits.shape[1]
        state.v[register : register + len(bits), :lanes_given] = bits
    for number, value in (s or {}).items():
        state.s[number] = value & 0xFFFFFFFF
    state.set_mask(VCC, vcc)
    state.s[M0] = m0 & 0xFFFFFFFF
    state.set_mask(EXEC, (1 << lanes) - 1 if exec is None else exec)
    return state


def _bits(row: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    if row.dtype.itemsize == 4:
        return np.ascontiguousarray(row).view(np.uint32)
    if row.dtype.kind in "iu":
        return (row.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
    raise TypeError(f"a register row has 32-bit elements, not {row.dtype}")


def _put(to: Any, array: npt.NDArray[Any]) -> None:
    ctypes.memmove(to, np.ascontiguousarray(array).ctypes.data, ctypes.sizeof(to))
