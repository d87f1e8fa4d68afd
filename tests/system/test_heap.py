"""Freed memory stays in the process, until it is given back."""

import ctypes
import os
import subprocess
import sys
import textwrap

import pytest

CHILD = """
import ctypes, resource, sys
from fmha_cli.system.usage import give_back, keep_freed_memory
from fmha_cli.system.usage import peak_from_here
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
SIZE = 64 << 20

def used_once():
    block = libc.malloc(ctypes.c_size_t(SIZE))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for page in range(0, SIZE, 4096):
        ctypes.memset(block + page, 1, 1)
    libc.free(ctypes.c_void_p(block))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "kept":
    assert keep_freed_memory()
used_once()
again = used_once()
held = peak_from_here()
give_back()
print(again, held - peak_from_here())
"""


@pytest.mark.promise("The memory of a row is counted above the worker's level before its launch.")
@pytest.mark.skipif(
    os.name != "posix" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library here is no glibc"
)
@pytest.mark.parametrize("how", ["kept", "plain"])
def test_memory_that_is_freed_is_kept_until_it_is_given_back(how: str) -> None:
    """Without it the second use of a block faults in what the first one had: 16,384 pages, or 32 huge ones."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), how], capture_output=True, text=True, check=True, timeout=60
    )
    faults, returned = map(int, done.stdout.split())
    if how == "kept":
        assert faults < 16  # a page of the interpreter's own may be among them
        assert returned >= 60 << 20
    else:
        assert faults >= 32
        assert returned < 1 << 20
