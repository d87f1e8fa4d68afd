"""Launches on an emulator's library that run twice, the first time carefully (``--emu-careful``): both must leave the same."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy.typing as npt

T = TypeVar("T")
CAREFUL = "FMHA_CHECK_CAREFUL"
"""The variable that has each run of a planted fault repeated with ``--emu-careful``; both must end the same."""


def run_twice(library: ctypes.CDLL, run: Callable[[], T], arrays: Sequence[npt.NDArray[Any]] = ()) -> T:
    """What ``run`` returns: results, findings and counts. It may write into the arrays, which each run finds as they were.

    Raises:
        AssertionError: the runs differ, and a second careful one ends as the first. (Where one thread reaches a limit, it depends on the clock how
            far the others have come.)
    """
    before = [array.tobytes() for array in arrays]

    def run_as(careful: bool) -> tuple[T, list[bytes]]:
        for array, held in zip(arrays, before, strict=True):
            ctypes.memmove(array.ctypes.data, held, len(held))
        library.emu_careful(int(careful))
        try:
            return run(), [array.tobytes() for array in arrays]
        finally:
            library.emu_careful(0)

    careful, fast = run_as(careful=True), run_as(careful=False)
    if _settled(careful) != _settled(fast) and _settled(run_as(careful=True)) == _settled(careful):
        assert careful[0] == fast[0], f"a careful run ends otherwise: {careful[0]}, not {fast[0]}"
        raise AssertionError("a careful run leaves other values")
    return fast[0]


def _settled(value: Any) -> Any:
    """A result without the texts of accesses out of bounds, which hold host addresses that differ in each launch."""
    if isinstance(value, dict):
        left = {key: _settled(inner) for key, inner in value.items()}
        return left | {"text": ""} if value.get("kind") == "out-of-bounds" else left
    return [_settled(inner) for inner in value] if isinstance(value, list | tuple) else value
