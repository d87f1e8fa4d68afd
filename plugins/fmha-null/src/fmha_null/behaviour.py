"""The faults of the null kernels, which happen in the worker."""

from __future__ import annotations

import ctypes
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from fmha_cli import api
from fmha_null.attention import Array
from fmha_null.kernels import Behaviour

SLOW_S = 0.05
"""Seconds that a slow kernel sleeps."""

EXIT_STATUS = 3
"""The exit status of a worker whose kernel exits."""

GARBAGE = b"\x00\xffgarbage \xf0\x9f\x92\xa9 FMHA0000\n"


def before_launch(behaviour: Behaviour) -> bool:
    """Perform what happens before or instead of the computation. Returns whether to compute.

    Raises:
        KernelFailure, MemoryError, ValueError: the behaviours of these names.
    """
    match behaviour:
        case Behaviour.LAUNCH_ERROR:
            raise api.KernelFailure("the launch was refused", code="K950", why="planted: behaviour launch_error")
        case Behaviour.EXCEPTION:
            raise ValueError("planted: behaviour exception")
        case Behaviour.OOM:
            raise MemoryError("planted: behaviour oom")
        case Behaviour.SEGFAULT:
            ctypes.string_at(0)
        case Behaviour.ABORT:
            os.abort()
        case Behaviour.EXIT:
            os._exit(EXIT_STATUS)
        case Behaviour.HANG:
            while True:
                time.sleep(3600)
        case Behaviour.SLOW:
            time.sleep(SLOW_S)
        case Behaviour.GARBAGE_STDOUT:
            os.write(1, GARBAGE * 1000)
        case Behaviour.GARBAGE_PROTOCOL:
            _write_to_sockets()
    return behaviour is not Behaviour.NEVER_WRITES


def after_launch(behaviour: Behaviour, tensors: Mapping[str, Array], launch: int) -> None:
    """Corrupt the result. ``launch`` counts the launches of the session from 0."""
    o = tensors["o"]
    match behaviour:
        case Behaviour.NAN:
            o[...] = np.nan
        case Behaviour.ZEROS:
            o[...] = 0
        case Behaviour.WRONG_VALUE:
            o.flat[o.size // 2] += o.dtype.type(1)
        case Behaviour.INPUT_WRITE:
            tensors["q"].flat[0] = 0
        case Behaviour.OOB_BEFORE:
            _beside(o, -1)[...] = 1
        case Behaviour.OOB_AFTER:
            last = sum((n - 1) * s for n, s in zip(o.shape, o.strides, strict=True)) // o.itemsize
            _beside(o, last + 1)[...] = 1
        case Behaviour.OOB_GAP if o.strides[-2] > o.shape[-1] * o.itemsize:
            _beside(o, o.shape[-1])[...] = 1
        case Behaviour.NONDETERMINISTIC:
            words = o.view({2: np.uint16, 4: np.uint32}[o.itemsize])
            words[(0,) * o.ndim] ^= launch % 2


def _beside(o: Array, elements: int) -> Array:
    """The element at the given distance from element 0, wherever it is."""
    address = o.__array_interface__["data"][0] + elements * o.itemsize
    buffer = (ctypes.c_char * o.itemsize).from_address(address)
    element: Array = np.frombuffer(memoryview(buffer), dtype=o.dtype)
    return element


def _write_to_sockets() -> None:
    """Write garbage into every socket of this process, like a kernel with a wild descriptor."""
    for descriptor in range(3, 256):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, GARBAGE)
