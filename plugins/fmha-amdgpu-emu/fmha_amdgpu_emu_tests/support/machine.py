"""Whole launches under test: code objects from HIP or assembly text, live memory, options, findings."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.harness import core, tool
from tests.support.careful import run_twice

U32 = npt.NDArray[np.uint32]
PRELUDE = """
#define KERNEL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#define LDS __attribute__((shared))
typedef unsigned u32; typedef unsigned long long u64; typedef unsigned short u16;
#define TX __builtin_amdgcn_workitem_id_x()
#define TY __builtin_amdgcn_workitem_id_y()
#define TZ __builtin_amdgcn_workitem_id_z()
#define BX __builtin_amdgcn_workgroup_id_x()
#define BY __builtin_amdgcn_workgroup_id_y()
#define BZ __builtin_amdgcn_workgroup_id_z()
#define SYNC __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \\
             __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
"""
"""HIP without headers: only what clang itself knows."""


class _Launch(ctypes.Structure):
    """``EmuLaunch`` of ``core/capi_launch.hpp``."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("items", ctypes.c_uint32 * 3),
        ("dynamic_lds", ctypes.c_uint32),
        ("kernargs", ctypes.c_char_p),
        ("kernarg_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("threads", ctypes.c_int32),
        ("track", ctypes.c_int32),
        ("most_instructions", ctypes.c_uint64),
        ("turn", ctypes.c_uint64),
    )


class _Named(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("writable", ctypes.c_int),
    )


class Refused(Exception):
    """The emulator refused a code object, or a launch did not finish. Holds the emulator's message."""


def library() -> ctypes.CDLL:
    """The emulator's library, with the signatures that ctypes would otherwise guess wrongly."""
    out = ctypes.CDLL(str(core().path), mode=ctypes.RTLD_LOCAL)
    out.emu_observed.restype = ctypes.c_char_p
    out.emu_kernels.restype = ctypes.c_size_t
    out.emu_symbol.restype = ctypes.c_uint64
    out.emu_unload.argtypes = (ctypes.c_void_p,)
    return out


class Program:
    """A loaded code object."""

    def __init__(self, image: bytes) -> None:
        """Raises Refused with the loader's message."""
        self._library = library()
        self._handle = ctypes.c_void_p()
        message = ctypes.create_string_buffer(4096)
        if self._library.emu_load(image, ctypes.c_uint64(len(image)), ctypes.byref(self._handle), message, 4096):
            raise Refused(message.value.decode())

    def kernels(self) -> dict[str, Any]:
        """The loader's information: arch, and kernels with LDS, scratch and arguments."""
        room = ctypes.create_string_buffer(1 << 20)
        assert self._library.emu_kernels(self._handle, room, ctypes.c_size_t(len(room))) <= len(room)
        known: dict[str, Any] = json.loads(room.value)
        return known

    def symbol(self, name: str) -> int:
        """The host address of a symbol, or 0 if it does not exist."""
        return int(self._library.emu_symbol(self._handle, name.encode(), None))

    def close(self) -> None:
        """Free its memory."""
        self._library.emu_unload(self._handle)

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        *args: int | U32,
        items: Sequence[int] = (0, 0, 0),
        lds: int = 0,
        seed: int = 0,
        threads: int = 1,
        track: bool = True,
        strict: bool = False,
        limit: int = 0,
        turn: int = 0,
    ) -> dict[str, Any]:
        """Run a kernel: arrays are passed as pointers (8 bytes), numbers as 4 bytes, naturally aligned.

        Unless several threads share the workgroups, it also runs carefully (``careful.py``).

        Returns:
            {"executed": [counts], "fault": None, "findings": [...]}.

        Raises:
            Refused: the launch did not reach its end.
        """
        packed = bytearray()
        for arg in args:
            wide = not isinstance(arg, int)
            packed += bytes(-len(packed) % (8 if wide else 4))
            packed += (arg.ctypes.data if isinstance(arg, np.ndarray) else int(arg)).to_bytes(
                8 if wide else 4, "little"
            )
        request = _Launch(
            (ctypes.c_uint32 * 3)(*grid), (ctypes.c_uint32 * 3)(*block), (ctypes.c_uint32 * 3)(*items), lds,
            bytes(packed), len(packed), seed, threads, int(track) + strict, limit, turn,
        )  # fmt: skip

        def run() -> tuple[str | None, dict[str, Any]]:
            message = ctypes.create_string_buffer(4096)
            self._library.emu_observed()
            failed = self._library.emu_launch(self._handle, kernel.encode(), ctypes.byref(request), message, 4096)
            return message.value.decode() if failed else None, json.loads(self._library.emu_observed())

        arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
        refused, self._seen = run() if threads > 1 else run_twice(self._library, run, arrays)
        if refused is not None:
            raise Refused(refused)
        return self._seen

    def observed(self) -> dict[str, Any]:
        """The execution and findings of the last launch, even if it was refused."""
        return self._seen


@contextmanager
def device(array: npt.NDArray[Any], name: str = "out", *, writable: bool = True) -> Iterator[npt.NDArray[Any]]:
    """Turn an array's memory into device memory for the context."""
    emulator = library()
    start = ctypes.c_uint64(array.ctypes.data)
    emulator.emu_allocate(start, ctypes.c_uint64(array.nbytes), name.encode(), int(writable))
    try:
        yield array
    finally:
        emulator.emu_free(start)


def regions(array: npt.NDArray[Any], named: Sequence[tuple[str, int, int]]) -> None:
    """Name parts of an allocation: (name, first byte, byte after the last)."""
    base = array.ctypes.data
    rows = (_Named * len(named))(*[_Named(n.encode(), base + a, base + b, 1) for n, a, b in named])
    library().emu_regions(ctypes.c_uint64(base), rows, ctypes.c_uint64(len(named)))


def place(address: int, size: int, *, write: bool = False) -> tuple[str, str]:
    """The place of an access (inside, guard, outside, read-only) and a description of the nearest region."""
    room = ctypes.create_string_buffer(1024)
    got = library().emu_place(ctypes.c_uint64(address), ctypes.c_uint64(size), int(write), room, 1024)
    return ("inside", "guard", "outside", "read-only")[got], room.value.decode()


def compile_hip(arch: str, source: str, folder: Path, *flags: str) -> bytes:
    """A code object from HIP text that needs no headers and no libraries."""
    text, out = folder / f"{arch}.hip", folder / f"{arch}.co"
    text.write_text(PRELUDE + source, "utf-8")
    tool("ld.lld-22", "ld.lld", "lld-22")
    options = ("--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O2", "-Wno-unused-value")
    command = (
        tool("clang-22", "clang"),
        "-x",
        "hip",
        f"--offload-arch={arch}",
        *options,
        *flags,
        str(text),
        "-o",
        str(out),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


def link_assembly(arch: str, source: str, folder: Path) -> bytes:
    """A code object from assembly text that has its own directives."""
    text, out = folder / f"{arch}.s", folder / f"{arch}.co"
    text.write_text(source, "utf-8")
    tool("ld.lld-22", "ld.lld", "lld-22")
    target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={arch}")
    command = (tool("clang-22", "clang"), "-x", "assembler", *target, str(text), "-o", str(out))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


def kernel_text(name: str, body: str, *, arch: str, lds: int = 0, sgprs: int = 32, vgprs: int = 16) -> str:
    """A kernel in assembly: s[0:1] its arguments, then work-group id x (gfx12: ttmp9); v0 the work-item id."""
    cdna = arch.startswith("gfx9")
    extra = ".amdhsa_accum_offset 16\n" if cdna else ".amdhsa_wavefront_size32 1\n"
    flat = "" if arch != "gfx90a" else ".amdhsa_reserve_flat_scratch 0\n"
    return f"""
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body}
.rodata
.p2align 6
.amdhsa_kernel {name}
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_system_sgpr_workgroup_id_x 1
.amdhsa_group_segment_fixed_size {lds}
.amdhsa_next_free_vgpr {vgprs}
.amdhsa_next_free_sgpr {sgprs}
{extra}{flat}.end_amdhsa_kernel
"""
