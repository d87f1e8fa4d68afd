"""AITER's host code of the assembly kernels, compiled for the host: which kernel it launches for a call, and how."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fmha_cli.domain.protocols import BuildContext
from fmha_cli.sources.store import fetch_source
from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.headers import tree_digest
from fmha_cli.toolchain.cpp.library import PORTABLE_FLAGS, build_cpp

HOST = Path(__file__).with_name("host")
NO_MASK, TOP_LEFT, BOTTOM_RIGHT, GENERIC = range(4)
"""``mask_enum`` of Composable Kernel's example."""
ROUNDINGS = {"rtne": 0, "rtna": 1, "rtz": 2, "own": 1}
"""``how_v3_bf16_cvt``."""


class AskedForward(ctypes.Structure):
    """A call of ``fmha_fwd_v3``: addresses, sizes, and strides in elements (of q, k, v, o; heads and sequences also of lse)."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("q", "k", "v", "lse", "o", "seqstart_q", "seqstart_k")),
        *((name, ctypes.c_int32) for name in ("units", "rows", "keys", "batch", "hdim", "hdim_v", "heads", "kv_heads")),
        *((name, ctypes.c_int32) for name in ("left", "right", "mask", "cvt", "group", "has_lse")),
        ("row", ctypes.c_int32 * 4),
        ("head", ctypes.c_int32 * 5),
        ("sequence", ctypes.c_int32 * 5),
        ("scale", ctypes.c_float),
    )


class _Launched(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char * 128),
        ("symbol", ctypes.c_char * 128),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("arguments", ctypes.c_ubyte * 2048),
    )


@dataclass(frozen=True)
class AiterLaunch:
    """One launch of upstream's host code. ``file`` is below the folder of the architecture."""

    file: str
    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: bytes


def hsa_folder(cache_root: Path) -> Path:
    """The folder ``hsa`` of the pinned source.

    Raises:
        EnvironmentProblem: it is not here and cannot be fetched.
    """
    return fetch_source("aiter-asm", cache_root, offline=False, notify=lambda notice: None) / "aiter_meta" / "hsa"


@cache
def host_code(cache_root: Path, copy: int = 0) -> Any:
    """The library, from the cache or compiled now. Upstream looks at the number of compute units once: for another number ask for
    another copy.
    """
    hsa = hsa_folder(cache_root)
    headers = fetch_source("aiter-host", cache_root, offline=False, notify=lambda notice: None)
    made = Path(mkdtemp(prefix="fmha-aiter-"))
    for arch in ("gfx942", "gfx950"):
        writer = hsa / arch / "fmha_v3_fwd" / "codegen.py"
        subprocess.run([sys.executable, str(writer), "-o", str(made)], check=True)
    digests = "".join(f"// {tree_digest(folder, ('*',))}\n" for folder in (made, headers, HOST))
    text = f"// copy {copy}\n{digests}{(HOST / 'host.cpp').read_text('utf-8')}"
    spec = BuildSpec(BuildKind.HOST_LIBRARY, "tests:aiter-host", "generic", {}, text)
    flags = tuple("-O0" if flag == "-O3" else flag for flag in PORTABLE_FLAGS)
    # Hidden, or the copies would share the kernels that upstream keeps in static variables of templates.
    include = ("-w", "-fvisibility=hidden", "-I${host}", "-I${headers}", "-I${made}")
    places = {"host": str(HOST), "headers": str(headers / "aiter_meta" / "csrc" / "include"), "made": str(made)}
    return ctypes.CDLL(str(build_cpp(spec, BuildContext(cache_root), (*flags, *include), places).path))


def launch_of_aiter(library: Any, arch: str, asked: AskedForward) -> AiterLaunch | None:
    """What upstream's host code launches for a call; None where it takes no assembly kernel."""
    told = _Launched()
    if not library.fmha_aiter_forward(arch.encode(), ctypes.byref(asked), ctypes.byref(told)):
        return None
    return AiterLaunch(
        file=told.file.decode(),
        symbol=told.symbol.decode(),
        grid=tuple(told.grid),
        block=tuple(told.block),
        shared=told.shared,
        arguments=bytes(told.arguments[: told.bytes]),
    )
