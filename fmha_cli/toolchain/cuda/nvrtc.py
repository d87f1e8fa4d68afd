"""NVRTC through its C interface. It compiles text to PTX and a cubin in this process, without driver or CUDA toolkit.

The source of names and meanings is ``nvrtc.h`` of CUDA 13.0. Each compile runs in a separate process, because NVRTC
cannot be stopped from within and keeps gigabytes of memory.
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
    """NVRTC does not load, or a call fails for a reason other than the text. The message names it."""


@dataclass(frozen=True)
class Compiled:
    """The result of a compile.

    Attributes:
        log: NVRTC's log.
        cubin: None when the text does not compile, or when the options name a virtual architecture.
        ptx: None when the text does not compile.
    """

    log: str
    cubin: bytes | None
    ptx: str | None


class Nvrtc:
    """The library in a folder.

    Raises:
        NvrtcProblem: the library does not load.
    """

    def __init__(self, folder: Path) -> None:
        try:
            # NVRTC opens its builtins by their bare name, which the loader finds only once they are loaded.
            self._builtins = ctypes.CDLL(str(folder / BUILTINS))
            self._library = ctypes.CDLL(str(folder / LIBRARY))
        except OSError as fault:
            raise NvrtcProblem(f"{LIBRARY} does not load: {fault}") from fault
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def capabilities(self) -> tuple[int, ...]:
        """The architectures that NVRTC compiles for, as 10 x major + minor, ascending."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        return tuple(sorted(found))

    def compile(self, text: bytes, options: Sequence[str], name: str) -> Compiled:
        """Compile one text.

        Args:
            text: the source.
            options: NVRTC's options. ``-arch=sm_…`` gives PTX and a cubin; ``-arch=compute_…`` gives PTX only.
            name: the name of the text in messages and symbols.

        Raises:
            NvrtcProblem: a call fails for a reason other than the text.
        """
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, name.encode(), 0, None, None)
        try:
            words = [option.encode() for option in options]
            given = (ctypes.c_char_p * len(words))(*words)
            status = self._library.nvrtcCompileProgram(program, len(words), given)
            log = self._bytes("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program)
            said = log.rstrip(b"\0").decode("utf-8", "replace")
            if status != _SUCCESS:
                return Compiled(said if said.strip() else self._words(status), None, None)
            cubin = self._bytes("nvrtcGetCUBINSize", "nvrtcGetCUBIN", program)
            ptx = self._bytes("nvrtcGetPTXSize", "nvrtcGetPTX", program).rstrip(b"\0")
            return Compiled(said, cubin or None, ptx.decode("utf-8", "replace"))
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, size: str, get: str, program: ctypes.c_void_p) -> bytes:
        count = ctypes.c_size_t()
        self._call(size, program, ctypes.byref(count))
        if count.value == 0:
            return b""
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
