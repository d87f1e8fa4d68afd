"""A thread to which the system refuses matrix tiles, on a processor with or without them."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

_ARCH_PRCTL = 158
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2
_PROGRAM = (
    (0x20, 0, 0, 0),  # the number of the call
    (0x15, 0, 1, _ARCH_PRCTL),
    (0x06, 0, 0, 0x00050000 | 1),  # EPERM
    (0x06, 0, 0, 0x7FFF0000),  # allowed
)
"""Instructions of a classic BPF filter (linux/seccomp.h): arch_prctl, which asks for tiles, is not permitted."""


def without_tiles(call: Callable[[], T]) -> T:
    """What a function returns in its own thread, which may not ask for tiles; a filter of system calls holds for its
    thread alone.
    """
    found: list[T] = []
    faults: list[BaseException] = []

    def body() -> None:
        try:
            _refuse()
            found.append(call())
        except BaseException as fault:  # noqa: BLE001 - raised again in the caller's thread
            faults.append(fault)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
    return found[0]


def _refuse() -> None:
    if sys.platform != "linux":
        pytest.skip("filters of system calls are Linux's")
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in _PROGRAM))
    program = ctypes.create_string_buffer(struct.pack("<H6xQ", len(_PROGRAM), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    if prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        pytest.skip("this system takes no filter of system calls")
