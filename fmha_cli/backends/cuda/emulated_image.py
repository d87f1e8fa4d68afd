"""What an emulated device loads: a fatbin with a kernel's PTX, which it executes, and the cubin, which states the registers.

Source of the layout: the containers that CUDA 13.0's ``fatbinary`` writes.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from fmha_cli.domain.errors import KernelFailure
from fmha_cli.toolchain.cache.layout import PTX

_MAGIC, _VERSION = 0xBA55ED50, 1
_HEAD = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIQQQQ")
_KINDS = {"ptx": 1, "cubin": 2}
_HOST_64 = 1
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+)", re.MULTILINE)


def fatbin(ptx: bytes, cubin: bytes) -> bytes:
    """A container with both, as the driver takes it. The architecture is the text's, or 0 if it names none."""
    named = _TARGET.search(ptx)
    arch = int(named[1]) if named else 0
    entries = b""
    for kind, payload in (("ptx", ptx + b"\0"), ("cubin", cubin)):
        padded = payload + bytes(-len(payload) % 8)
        entries += _ENTRY.pack(_KINDS[kind], 0, _ENTRY.size, len(padded), 0, 0, 0, 0, arch, 0, _HOST_64, 0, 0) + padded
    return _HEAD.pack(_MAGIC, _VERSION, _HEAD.size, len(entries)) + entries


def emulated_image(cubin: Path) -> bytes:
    """The image for an emulated device of a cubin that NVRTC or ptxas assembled from the PTX next to it.

    Raises:
        KernelFailure: N010, nvcc made the cubin, or it was imported without its PTX.
    """
    try:
        text = cubin.with_name(PTX).read_bytes()
    except FileNotFoundError as fault:
        raise KernelFailure(
            "the kernel has no PTX beside its cubin, and an emulated device executes PTX",
            code="N010",
            where=str(cubin),
            why="nvcc compiled it, or it was imported without",
            help="build it with NVRTC: pip install 'fmha[cuda]', and no compiler=nvcc",
        ) from fault
    return fatbin(text, cubin.read_bytes())
