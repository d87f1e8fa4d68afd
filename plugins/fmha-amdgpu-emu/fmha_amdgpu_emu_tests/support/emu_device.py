"""Device memory for instructions under test, and small assembly kernels, both through the library's own HIP API."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fmha_amdgpu_emu.core import Core

from fmha_amdgpu_emu_tests.support.harness import WAVE32, assemble, core, tool


class Device:
    """The emulated device of one library. Device addresses are host addresses, so arrays are copied with memmove."""

    def __init__(self, library: Core, arch: str) -> None:
        self._library = ctypes.CDLL(str(library.path))
        self._library.emu_take.restype = ctypes.c_char_p
        self._library.emu_last_fault.restype = ctypes.c_char_p
        assert self._library.emu_device(arch.encode()) == 0
        self._held: list[int] = []

    def put(self, array: npt.NDArray[Any]) -> int:
        """Copy the array's bytes to a new allocation and return its address."""
        address = ctypes.c_void_p()
        assert self._library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(array.nbytes)) == 0
        data = np.ascontiguousarray(array)
        assert address.value is not None
        ctypes.memmove(address.value, data.ctypes.data, data.nbytes)
        self._held.append(address.value)
        return address.value

    def get(self, address: int, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The current content at an address, in the shape and type of ``like``."""
        return np.frombuffer(ctypes.string_at(address, like.nbytes), like.dtype).reshape(like.shape).copy()

    def options(self, *, seed: int = 0, threads: int = 1, checks: bool = True) -> None:
        """Set the options of launches."""
        self._library.emu_options(ctypes.c_uint64(seed), threads, int(checks))

    def launch(
        self,
        code: bytes,
        name: str,
        arguments: bytes,
        *,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (64, 1, 1),
        lds: int = 0,
    ) -> dict[str, Any]:
        """Run a kernel with ``lds`` dynamic bytes to its end; returns ``executed``, ``findings`` and ``fault``."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        assert self._library.hipModuleLoadData(ctypes.byref(module), code) == 0
        try:
            assert self._library.hipModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0
            self._library.emu_take()
            size = ctypes.c_size_t(len(arguments))
            kept = ctypes.create_string_buffer(arguments, len(arguments))
            extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(kept), 2, ctypes.addressof(size), 3)
            status = self._library.hipModuleLaunchKernel(function, *grid, *block, lds, None, None, extra)
            observed: dict[str, Any] = json.loads(self._library.emu_take())
            observed["status"] = status
            return observed
        finally:
            self._library.hipModuleUnload(module)

    def close(self) -> None:
        """Free all allocations."""
        for address in self._held:
            self._library.hipFree(ctypes.c_void_p(address))
        self._held.clear()


@contextmanager
def device(arch: str) -> Iterator[Device]:
    """A device whose allocations are freed at the end of the block."""
    opened = Device(core(), arch)
    try:
        yield opened
    finally:
        opened.close()


def kernel(arch: str, folder: Path, body: str, *, name: str = "k", **facts: int) -> bytes:
    """A code object with one kernel: s[0:1] points to its arguments, s2 (ttmp9 on gfx12) is the work-group id."""
    return kernels(arch, folder, {name: body}, **facts)


def kernels(
    arch: str,
    folder: Path,
    bodies: Mapping[str, str],
    *,
    lds: int = 0,
    scratch: int = 0,
    arguments: int = 64,
    vgprs: int = 128,
) -> bytes:
    """A code object with several kernels of the same resources."""
    head = f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n'
    codes = "".join(_code(name, body) for name, body in bodies.items())
    descriptors = "".join(_descriptor(name, arch, lds, scratch, arguments, vgprs) for name in bodies)
    metadata = "".join(_metadata(name, arch, lds, scratch, arguments, vgprs) for name in bodies)
    notes = f"""
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{arch}
amdhsa.kernels:
{metadata}...
.end_amdgpu_metadata
"""
    relocatable = assemble(arch, head + codes + descriptors + notes, folder)
    out = folder / "kernels.co"
    linker = tool("ld.lld-22", "ld.lld")
    subprocess.run((linker, "-shared", str(relocatable), "-o", str(out)), check=True, capture_output=True)
    return out.read_bytes()


def _code(name: str, body: str) -> str:
    return f".text\n.globl {name}\n.p2align 8\n.type {name},@function\n{name}:\n{body}\ns_endpgm\n"


def _descriptor(name: str, arch: str, lds: int, scratch: int, arguments: int, vgprs: int) -> str:
    own = f".amdhsa_wavefront_size32 {int(arch in WAVE32)}" if arch in WAVE32 else f".amdhsa_accum_offset {vgprs}"
    return f"""
.rodata
.p2align 6
.amdhsa_kernel {name}
.amdhsa_group_segment_fixed_size {lds}
.amdhsa_private_segment_fixed_size {scratch}
.amdhsa_kernarg_size {arguments}
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_system_sgpr_workgroup_id_x 1
.amdhsa_next_free_vgpr {vgprs}
.amdhsa_next_free_sgpr 96
{own}
.end_amdhsa_kernel
"""


def _metadata(name: str, arch: str, lds: int, scratch: int, arguments: int, vgprs: int) -> str:
    return f"""  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {arguments}
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .kernarg_segment_align: 8
    .wavefront_size: {32 if arch in WAVE32 else 64}
    .sgpr_count: 96
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 1024
"""
