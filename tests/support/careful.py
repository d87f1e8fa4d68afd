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
        AssertionError: the runs differ.
    """
    before = [array.tobytes() for array in arrays]
    library.emu_careful(1)
    try:
        careful = run(), [array.tobytes() for array in arrays]
    finally:
        library.emu_careful(0)
    for array, held in zip(arrays, before, strict=True):
        ctypes.memmove(array.ctypes.data, held, len(held))
    fast = run(), [array.tobytes() for array in arrays]
    assert careful[0] == fast[0], f"a careful run ends otherwise: {careful[0]}, not {fast[0]}"
    assert careful[1] == fast[1], "a careful run leaves other values"
    return fast[0]
