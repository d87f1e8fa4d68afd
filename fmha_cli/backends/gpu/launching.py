"""The launch of a kernel: its shape, and the bytes of its arguments."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

_BUFFER_POINTER, _BUFFER_SIZE = 1, 2
"""``CU_LAUNCH_PARAM_BUFFER_POINTER`` and ``_SIZE``, ``HIP_LAUNCH_PARAM_BUFFER_POINTER`` and ``_SIZE``."""


class PackedArguments:
    """The bytes of a kernel's arguments, kept for repeated launches.

    Args:
        data: the arguments at the offsets of the kernel's own layout.
        end: what ends the array that a launch takes as ``extra`` (``Driver.arguments_end``).
    """

    def __init__(self, data: bytes, end: int) -> None:
        self._bytes = ctypes.create_string_buffer(data, len(data))
        self._size = ctypes.c_size_t(len(data))
        self.extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(self._bytes), _BUFFER_SIZE, ctypes.addressof(self._size), end
        )
        """The array that ``cuLaunchKernel`` and ``hipModuleLaunchKernel`` take as ``extra``."""

    @property
    def data(self) -> bytes:
        return self._bytes.raw


@dataclass(frozen=True)
class Shape:
    """The shape of a launch.

    Attributes:
        grid: blocks along x, y and z.
        block: threads along x, y and z.
        shared: dynamic shared memory of a block, bytes.
        cluster: neighbours along x that run at once and share their memory; 1 for none.
        dependent: the kernel waits itself for the launch before it, whose end it may overlap (programmatic dependent launch).
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0
    cluster: int = field(default=1, kw_only=True)
    dependent: bool = field(default=False, kw_only=True)

    @property
    def empty(self) -> bool:
        """Whether there is no block to run."""
        return 0 in self.grid


@dataclass(frozen=True)
class Launch(Shape):
    """One launch of a kernel that takes one parameter block.

    Attributes:
        extra: values of the kernel's ``int`` parameters that follow the block.
        cleared: names of the workspaces that must be zero when the kernel starts, because it counts in them. Every
            launch clears them, those of a graph too, and the stage's time includes that.
    """

    extra: tuple[int, ...] = ()
    cleared: tuple[str, ...] = ()


def launch_detail(
    grid: tuple[int, ...], threads: int, shared: int, template: str, *, formula: str = "", launched: bool = True
) -> tuple[tuple[str, str], ...]:
    """What a plan says about the launch of a stage.

    Args:
        shared: bytes of dynamic shared memory.
        formula: how the first dimension of the grid is computed.
        launched: whether the host launches the stage; see ``Upstream.launches``.
    """
    blocks = " x ".join(map(str, grid)) + (f"; x = {formula}" if formula else "")
    return (
        ("grid", blocks if launched else "none: there is nothing to read, so the host fills the outputs"),
        ("block", f"{threads} threads, {shared} bytes of shared memory"),
        ("template", template),
    )
