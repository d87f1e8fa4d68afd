"""AArch64 code on this machine: kernels built by a cross compiler, and called by a small program under qemu-user."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.backends.cpu.arguments import interface_of
from fmha_cli.backends.cpu.building import kernel_flags
from fmha_cli.codegen.abi import FmhaCpuArgs
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.codegen.struct import c_fields, ctypes_structure, host_layout, pack
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import toolchain_for
from fmha_cli.toolchain.cpp.library import build_cpp
from fmha_cli.toolchain.cpp.toolchain import Toolchain
from fmha_cli.toolchain.kernels import kernel_build

MACHINE = "aarch64"
RUNNER = Path(__file__).with_name("kernel_runner.cpp")
TIMEOUT_S = 300
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Emulator:
    """The program that runs AArch64 programs here.

    Attributes:
        command: begins a command line; a program and its arguments follow.
        runner: the program that calls a library.
        cache: the root of the cache of built libraries.
        objdump: a disassembler for AArch64.
    """

    command: tuple[str, ...]
    runner: Path
    cache: Path
    objdump: str

    def build(self, kernel: KernelSpec, text: str | None = None) -> Path:
        """A kernel's library as ``fmha build`` makes it; or of another text."""
        spec = kernel_build(kernel, emit(kernel))
        spec = spec if text is None else replace(spec, source=text)
        return self.library(spec, lambda tools: kernel_flags(kernel, tools.kind))

    def library(self, spec: Any, flags: Any) -> Path:
        """Any C++ text as a library for AArch64."""
        return build_cpp(spec, BuildContext(cache_root=self.cache), flags, machine=MACHINE).path

    def on(self, processor: str) -> Emulator:
        """The same on another processor of qemu's."""
        return replace(self, command=(self.command[0], "-cpu", processor, *self.command[3:]))

    def call(self, library: Path, entry: str, block: Any, arrays: dict[str, Array], work: Path) -> int:
        """Call an entry with an argument block. Its results are in the arrays afterwards.

        Args:
            block: every pointer in it is 0 or points into one of the arrays.
            work: an empty folder.

        Returns: the entry's status, or minus the signal that ended the program.
        """
        buffers = list({id(owner): owner for owner in map(_owner, arrays.values())}.values())
        image, starts = bytearray(ctypes_size(type(block))), []
        for buffer in buffers:
            image += bytes(-len(image) % 64 + 64)
            starts.append(len(image))
            image += buffer.tobytes()
        image += bytes(64)
        values, places = {}, []
        for name, kind in c_fields(type(block)):
            if "*" in kind.spelling and (pointer := getattr(block, name)):
                n = next(i for i, b in enumerate(buffers) if 0 <= pointer - b.ctypes.data < max(b.nbytes, 1))
                values[name] = starts[n] + pointer - buffers[n].ctypes.data
                places.append(next(offset for field, offset, _ in host_layout(type(block)) if field == name))
        raw = bytes(pack(replace(block, **values)))
        image[: len(raw)] = raw
        (work / "in").write_bytes(np.array([len(places), *places], np.uint64).tobytes() + image)
        command = [*self.command, str(self.runner), str(library), entry, "in", "out"]
        status = subprocess.run(command, cwd=work, timeout=TIMEOUT_S, check=False).returncode
        if status == 0:
            result = (work / "out").read_bytes()
            for buffer, start in zip(buffers, starts, strict=True):
                buffer[...] = np.frombuffer(result, buffer.dtype, buffer.size, start).reshape(buffer.shape)
        return status

    def run(self, kernel: KernelSpec, library: Path, block: FmhaCpuArgs, arrays: dict[str, Array], work: Path) -> int:
        """Launch a kernel once; as :meth:`call`."""
        return self.call(library, interface_of(kernel).entry, block, arrays, work)


def ctypes_size(block: type) -> int:
    """Bytes of an argument block, up to the next page."""
    import ctypes

    return -(-ctypes.sizeof(ctypes_structure(block)) // 4096) * 4096


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def emulator(root: Path) -> Emulator:
    """The emulator with its program, compiled here; skips the test where the cross compiler or qemu is missing."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if qemu is None:
        pytest.skip("no qemu-aarch64 (package qemu-user)")
    objdump = shutil.which("aarch64-linux-gnu-objdump") or shutil.which("llvm-objdump")
    if objdump is None:
        pytest.skip("no disassembler for AArch64 (package binutils-aarch64-linux-gnu)")
    try:
        tools = toolchain_for(MACHINE, Cache(root).layout)
    except EnvironmentProblem as fault:
        pytest.skip(f"{fault}: {fault.why}")
    runner = root / "arm-runner"
    if not runner.exists():
        made = root / f"arm-runner.{os.getpid()}"  # several test processes may share the folder
        subprocess.run([*tools.argv0, "-std=c++17", "-O1", str(RUNNER), "-o", str(made), "-ldl"], check=True)
        made.replace(runner)
    return Emulator((qemu, "-cpu", "max", "-L", str(_sysroot(tools))), runner, root, objdump)


@cache
def _sysroot(tools: Toolchain) -> Path:
    """The folder in which the emulated program's loader lies, under its path there."""
    asked = subprocess.run(
        [*tools.argv0, "-print-file-name=ld-linux-aarch64.so.1"], capture_output=True, text=True, check=True
    )
    loader = Path(asked.stdout.strip()).resolve()
    if not loader.is_file():
        pytest.skip("the cross compiler has no loader for AArch64 programs")
    return loader.parents[1]
