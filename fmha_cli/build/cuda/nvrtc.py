"""NVRTC by its C interface: text to cubin inside this process. Needs neither a driver nor a CUDA toolkit.

Source of names and meanings: ``nvrtc.h`` of CUDA 13.0. Used in a process of its own for each compile, because a
compile cannot be stopped from within and keeps gigabytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARY, BUILTINS = "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"
_SUCCESS = 0


class NvrtcProblem(Exception):
    """NVRTC does not load, or a call of it fails that cannot be the text's fault; the message says which."""


@dataclass(frozen=True)
class Compiled:
    """What a compile came to: NVRTC's log (UTF-8), and the cubin; None when the text does not compile."""

    log: str
    cubin: bytes | None


class Nvrtc:
    """The library in a folder.

    Raises:
        NvrtcProblem: it does not load.
    """

    def __init__(self, folder: Path) -> None:
        try:
            # NVRTC opens its builtins by their bare name, which the loader knows only once they are loaded.
            self._builtins = ctypes.CDLL(str(folder / BUILTINS))
            self._library = ctypes.CDLL(str(folder / LIBRARY))
        except OSError as fault:
            raise NvrtcProblem(f"{LIBRARY} does not load: {fault}") from fault
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def capabilities(self) -> tuple[int, ...]:
        """The architectures that it compiles for, as 10 x major + minor, ascending."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        return tuple(sorted(found))

    def compile(self, text: bytes, options: Sequence[str], name: str) -> Compiled:
        """Compile one text.

        Args:
            options: with ``-arch=sm_…``, so that the result is a cubin. name: of the text in messages and symbols.

        Raises:
            NvrtcProblem: a call fails for another reason than the text.
        """
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, name.encode(), 0, None, None)
        try:
            words = [option.encode() for option in options]
            given = (ctypes.c_char_p * len(words))(*words)
            status = self._library.nvrtcCompileProgram(program, len(words), given)
            log = self._bytes("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program)
            said = log.rstrip(b"\0").decode("utf-8", "replace")
            cubin = self._bytes("nvrtcGetCUBINSize", "nvrtcGetCUBIN", program) if status == _SUCCESS else None
            return Compiled(said if said.strip() or cubin is not None else self._words(status), cubin)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, size: str, get: str, program: ctypes.c_void_p) -> bytes:
        count = ctypes.c_size_t()
        self._call(size, program, ctypes.byref(count))
        room = ctypes.create_string_buffer(count.value)
        self._call(get, program, room)
        return room.raw

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != _SUCCESS:
            raise NvrtcProblem(f"{name} failed: {self._words(status)}")

    def _words(self, status: int) -> str:
        said: bytes = self._library.nvrtcGetErrorString(status)
        return said.decode("ascii", "replace")
