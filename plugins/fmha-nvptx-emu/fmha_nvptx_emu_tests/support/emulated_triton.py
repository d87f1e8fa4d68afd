"""Triton's runtime on an emulated device: host code that launches Triton kernels runs unchanged, on PyTorch's CPU tensors.

A driver object stands in for Triton's own, and PyTorch says what the emulated device is. Triton compiles as for a GPU, and needs none. A
launch copies its tensors to the emulated device, executes the PTX there through this project's CUDA driver, and copies them back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from fmha_nvptx_emu.device_facts import EmulatedDevice, device_of
from fmha_nvptx_emu.emulator import NvptxEmulator

from fmha_cli import api, plugin
from fmha_cli.backends.cuda.driver import Cuda

ELEMENTS = {1: "UINT8", 2: "FLOAT16", 4: "FLOAT32"}
"""What a tensor map calls elements of so many bytes. A copy moves bits, so bf16 and 8-bit floats need no separate
names.
"""
SWIZZLES = ("NONE", "32B", "64B", "128B")
NUMBERS = {"i32": "i", "i64": "q", "fp32": "f"}
LONGEST = 1024
"""Threads of a block."""


@dataclass(frozen=True)
class Launched:
    """One launch.

    Attributes:
        symbol: the kernel's name.
        ptx: what was executed.
        metadata: Triton's.
        observed: what the emulator saw.
        fault: why the launch stopped or was refused; None if it ended.
    """

    symbol: str
    grid: tuple[int, int, int]
    ptx: str
    metadata: Any
    observed: plugin.Observed
    fault: str | None

    @property
    def kinds(self) -> list[str]:
        """The kinds of the findings."""
        return [one.kind for one in self.observed.findings]

    @property
    def instructions(self) -> int:
        """Of warps, executed."""
        return sum(one.instructions for one in self.observed.executed)


@dataclass
class EmulatedTriton:
    """The driver object.

    Attributes:
        units: the number of multiprocessors that host code sees.
        change: turns a kernel's PTX into the executed text; a planted fault.
        launches: in order.
        number: of the device. Triton keeps kernels by it, so a driver object never meets another one's.
    """

    device: EmulatedDevice
    attached: Any
    cuda: Cuda
    units: int
    change: Callable[[str], str] = str
    launches: list[Launched] = field(default_factory=list)
    number: int = field(default_factory=lambda: uuid4().int >> 96)
    _files: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def utils(self) -> Any:
        """The helper that Triton asks for the device's limits, and to load a binary."""
        limits = {"max_shared_mem": self.device.shared_optin, "multiprocessor_count": self.units, "warpSize": 32}
        return SimpleNamespace(
            get_device_properties=lambda device: limits,
            load_binary=lambda name, binary, shared, device: (name, name, 0, 0, LONGEST),
            unload_module=lambda module: None,
        )

    def get_current_device(self) -> int:
        return self.number

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 10 * self.device.major + self.device.minor, 32)

    def loading(self, module: object, function: object, name: str, files: Mapping[str, str], key: str) -> None:
        """Triton's hook: a kernel's files, by name, before the first launch."""
        self._files[key] = files

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What launches a kernel: takes the grid, six values that are of no use here, and the values of all parameters."""

        def run(x: int, y: int, z: int, *values: Any) -> None:
            given = zip(source.fn.arg_names, values[6:], strict=True)
            pairs = [(source.signature[name], value) for name, value in given]
            self.launches.append(self._launch(metadata, (x, y, z), pairs))

        return run

    def _file(self, key: str, end: str) -> Path:
        (path,) = (path for name, path in self._files[key].items() if name.endswith(end))
        return Path(path)

    def _launch(self, metadata: Any, grid: tuple[int, int, int], pairs: Sequence[tuple[str, Any]]) -> Launched:
        cuda, text = self.cuda, self.change(self._file(metadata.hash, ".ptx").read_text("utf-8"))
        rooms: dict[int, tuple[int, int]] = {}

        def room(tensor: Any) -> int:
            at = tensor.data_ptr()
            if at not in rooms:
                rooms[at] = (int(cuda.call("cuMemAlloc", tensor.nbytes)), tensor.nbytes)
                cuda.copy_in(rooms[at][0], at, tensor.nbytes)
            return rooms[at][0]

        fault = None
        try:
            places = plugin.parameter_places(self._file(metadata.hash, ".cubin").read_bytes())
            data = placed([*_pieces(cuda, metadata, pairs, room), bytes(8), bytes(8)], places)
            kernel = plugin.CudaKernel(cuda, text.encode() + b"\0", metadata.name)
            try:
                kernel.allow_shared(metadata.shared)
                threads = 32 * warps_of(metadata)
                shape = plugin.Shape((metadata.num_ctas * grid[0], *grid[1:]), (threads, 1, 1), metadata.shared)
                kernel.launch(shape, plugin.PackedArguments(data, cuda.arguments_end), 0)
            finally:
                kernel.unload()
            for at, (address, size) in rooms.items():
                cuda.copy_out(at, address, size)
        except api.FmhaError as refused:
            fault = str(refused)
        finally:
            for address, _ in rooms.values():
                cuda.call("cuMemFree", address)
        observed = self.attached.take()
        return Launched(metadata.name, grid, text, metadata, observed, observed.fault or fault)


def warps_of(metadata: Any) -> int:
    """Warps of a block: a warp-specialised kernel has more than were asked for."""
    return int(getattr(metadata, "num_warps", 0))


def _pieces(cuda: Cuda, metadata: Any, pairs: Sequence[tuple[str, Any]], room: Callable[[Any], int]) -> list[bytes]:
    """The bytes of each parameter. A descriptor becomes its tensor map, the sizes and the strides, as Triton's launcher passes it."""
    metas = iter(metadata.tensordesc_meta or ())
    out = []
    for kind, value in pairs:
        if kind.startswith("tensordesc"):
            meta = next(metas)
            width, shape, strides = meta["elem_size"], list(value.shape), list(value.strides)
            wanted = plugin.TensorMap(
                address=room(value.base), element=ELEMENTS[width], shape=tuple(reversed(shape)),
                strides=tuple(width * step for step in reversed(strides[:-1])), box=tuple(reversed(meta["block_size"])),
                swizzle=SWIZZLES[meta["swizzle"]],
            )  # fmt: skip
            out += [
                plugin.encoded(cuda, wanted),
                *(struct.pack("<i", n) for n in shape),
                *(struct.pack("<q", n) for n in strides),
            ]
        elif kind.startswith("*"):
            out.append(struct.pack("<Q", room(value)))
        elif kind != "constexpr":
            out.append(struct.pack(f"<{NUMBERS[kind]}", value))
    return out


def placed(pieces: Sequence[bytes], places: Sequence[tuple[int, int]]) -> bytes:
    """The parameters at the offsets that the binary records."""
    assert [len(piece) for piece in pieces] == [size for _, size in places]
    out = bytearray(max(offset + size for offset, size in places))
    for piece, (offset, size) in zip(pieces, places, strict=True):
        out[offset : offset + size] = piece
    return bytes(out)


@contextmanager
def emulated_triton(arch: str, library: Path, seed: int = 0, units: int | None = None, threads: int = 2) -> Iterator[EmulatedTriton]:  # fmt: skip
    """Triton and PyTorch find the emulated device of an architecture while this lasts.

    Args:
        library: of the emulator. seed: of the order of its warps. units: multiprocessors; None: the device's.
    """
    import torch
    import triton

    facts = next(one for one in NvptxEmulator().devices() if one.id == f"emu:{arch}")
    attached = NvptxEmulator().attach(library, facts, plugin.EmulatorOptions(seed=seed, threads=threads))
    cuda, device = Cuda.open(), device_of(arch)
    cuda.use(0)
    driver = EmulatedTriton(device, attached, cuda, units or device.units)
    properties = SimpleNamespace(multi_processor_count=driver.units)
    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(driver)
    try:
        with (
            patch.object(torch.cuda, "get_device_capability", lambda *_: (device.major, device.minor)),
            patch.object(torch.cuda, "get_device_properties", lambda *_: properties),
            triton.knobs.runtime.scope(),
        ):
            triton.knobs.runtime.kernel_load_start_hook = driver.loading
            yield driver
    finally:
        triton.runtime.driver._active = before
