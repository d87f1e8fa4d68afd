"""``Recording``: the calls that CK's host code made to the stand-in runtime, read through its C interface.

Source of the arguments' sizes: LLVM, "User Guide for AMDGPU Backend", section "Code Object V5 Metadata" (``.args``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.domain.errors import InternalError
from fmha_cli.toolchain.elf import Elf, MalformedObject
from fmha_cli.toolchain.rocm.metadata import metadata_of
from fmha_cli.toolchain.rocm.offload import code_objects


def argument_sizes(code_object: bytes) -> Mapping[str, tuple[int, ...]]:
    """Kernel name -> bytes of each argument that the program passes, without the compiler's hidden arguments.

    Raises:
        MalformedObject: the bytes are not a code object, or its metadata lists no arguments.
    """
    metadata = metadata_of(Elf(code_object))
    try:
        return {
            str(kernel[".name"]): tuple(
                int(argument[".size"])
                for argument in kernel.get(".args", ())
                if not str(argument[".value_kind"]).startswith("hidden_")
            )
            for kernel in metadata["amdhsa.kernels"]
        }
    except (KeyError, TypeError, AttributeError) as fault:
        raise MalformedObject(f"the AMDGPU metadata lacks {fault}") from fault


@dataclass(frozen=True, kw_only=True)
class PlayedDevice:
    """The device that the stand-in reports. ``count`` 0 means a machine without a device."""

    arch: str
    major: int
    minor: int = 0
    wave: int = 64
    units: int = 304
    memory_bytes: int = 16 << 30
    l2_bytes: int = 4 << 20
    block_threads: int = 1024
    count: int = 1

    @staticmethod
    def of_arch(arch: str) -> PlayedDevice:
        """A device of an architecture: ``gfx1201`` is version 12.0.1. Waves have 32 lanes from gfx10 on."""
        digits = arch.removeprefix("gfx")
        major = int(digits[:-2])
        return PlayedDevice(arch=arch, major=major, minor=int(digits[-2], 16), wave=32 if major > 9 else 64)


@dataclass(frozen=True)
class RecordedLaunch:
    """One recorded launch. ``arguments`` are the packed bytes that the kernel would have received."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int
    arguments: bytes


class _OpenLaunch(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_lds", ctypes.c_uint64),
        ("arguments", ctypes.c_void_p),
        ("argument_bytes", ctypes.c_uint64),
    )


class Recording:
    """The stand-in of this process. Load it before any kernel library, and only where no real runtime is loaded."""

    def __init__(self, path: Path, device: PlayedDevice) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
        for name in ("functions", "launches", "bytes_in_use"):
            self._entry(name).restype = ctypes.c_uint64
        for name in ("function", "complaint"):
            self._entry(name).restype = ctypes.c_char_p
        self.play(device)

    def _entry(self, name: str) -> Any:
        return getattr(self.library, f"fmha_standin_{name}")  # getattr keeps the function, and with it its restype

    def play(self, device: PlayedDevice) -> None:
        """Report this device from now on."""
        self._entry("device")(
            device.arch.encode(),
            device.count,
            device.major,
            device.minor,
            device.wave,
            device.units,
            ctypes.c_uint64(device.memory_bytes),
            device.l2_bytes,
            device.block_threads,
        )

    @property
    def functions(self) -> tuple[str, ...]:
        """Symbols of the registered kernels, in order."""
        binary = ctypes.c_uint64()
        count = self._entry("functions")()
        return tuple(
            self._entry("function")(ctypes.c_uint64(index), ctypes.byref(binary)).decode() for index in range(count)
        )

    def describe(self, library: Path, arch: str) -> Mapping[str, tuple[int, ...]]:
        """Tell the stand-in the argument sizes of a loaded library's kernels, as its code object states them.

        Returns:
            kernel symbol -> sizes in bytes of its explicit arguments.

        Raises:
            MalformedObject: the library holds no readable code object.
            InternalError: it holds no code object for the architecture.
        """
        objects = [found for found in code_objects(library.read_bytes()) if found.arch == arch]
        if not objects:
            raise InternalError(f"{library} holds no code object for {arch}")
        sizes = argument_sizes(objects[0].data)
        for index, name in enumerate(self.functions):
            if name in sizes:
                words = (ctypes.c_uint64 * len(sizes[name]))(*sizes[name])
                self._entry("describe")(ctypes.c_uint64(index), words, ctypes.c_uint64(len(words)))
        return sizes

    @property
    def launches(self) -> tuple[RecordedLaunch, ...]:
        """Every launch since the last :meth:`forget`."""
        out = []
        for index in range(self._entry("launches")()):
            raw = _OpenLaunch()
            self._entry("launch")(ctypes.c_uint64(index), ctypes.byref(raw))
            arguments = ctypes.string_at(raw.arguments, raw.argument_bytes) if raw.argument_bytes else b""
            grid, block = tuple(raw.grid), tuple(raw.block)
            out.append(RecordedLaunch(raw.kernel.decode(), grid, block, int(raw.dynamic_lds), arguments))
        return tuple(out)

    def forget(self) -> None:
        """Drop the recorded launches."""
        self._entry("forget_launches")()

    @property
    def complaint(self) -> str:
        """The latest message about a call that was used wrongly."""
        return str(self._entry("complaint")().decode())

    @property
    def bytes_in_use(self) -> int:
        """Device memory that is allocated and not yet freed."""
        return int(self._entry("bytes_in_use")())
