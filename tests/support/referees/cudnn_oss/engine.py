"""Upstream's engines, compiled for the host from the pinned wheel: what ``execute`` would launch for a problem."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fmha_cli.domain.protocols import BuildContext
from fmha_cli.sources.store import fetch_source
from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.headers import tree_digest
from fmha_cli.toolchain.cpp.library import PORTABLE_FLAGS, build_cpp

HOST = Path(__file__).with_name("engine_host")
TENSORS = ("q", "k", "v", "o", "max", "sum")


class _Record(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64),
        ("allowed_shared", ctypes.c_uint64),
        ("cleared", ctypes.c_uint64),
        ("cleared_bytes", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Made:
    """One launch of an engine.

    Attributes:
        cleared: address and bytes of the memory that is zeroed before it; zeros where there is none.
        parameters: the bytes of each parameter, in order.
        text: the kernel's text that was handed to NVRTC.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    cleared: tuple[int, int]
    parameters: tuple[bytes, ...]
    symbol: str
    text: str


@dataclass(frozen=True)
class ExecuteArguments:
    """The arguments of ``execute``.

    Attributes:
        sizes: batch, heads, key heads, rows, keys, head dim.
        addresses: of ``TENSORS`` and the workspace.
        strides: of ``TENSORS`` in elements: batch, head, row.
    """

    sizes: tuple[int, ...]
    addresses: tuple[int, ...]
    strides: tuple[tuple[int, int, int], ...]
    scale: float


def source_tree(cache_root: Path) -> Path:
    """The pinned wheel's files.

    Raises:
        EnvironmentProblem: they are not here and cannot be fetched.
    """
    return fetch_source("cudnn-frontend", cache_root, offline=False, notify=lambda notice: None)


@cache
def engines(cache_root: Path) -> Any:
    """The library with both engines, from the cache or compiled now."""
    tree = source_tree(cache_root)
    core = files("fmha_nvptx_emu") / "core"
    maps = [(core / f"tensor_map.{ending}").read_text("utf-8") for ending in ("hpp", "cpp")]
    text = "".join(maps).replace('#include "tensor_map.hpp"\n', "").replace("#pragma once\n", "") + (
        HOST / "host.cpp"
    ).read_text("utf-8")
    digests = f"// {tree_digest(tree, ('*',))} {tree_digest(HOST, ('*',))}\n"
    # Upstream's files come first, and what they lack is found in the folder of the host.
    include = ("-I${tree}", "-I${host}", "-I${host}/cudnn_frontend/experimental")
    spec = BuildSpec(BuildKind.HOST_LIBRARY, "tests:cudnn-engines", "generic", {}, digests + text)
    flags = tuple("-O0" if flag == "-O3" else flag for flag in PORTABLE_FLAGS)
    places = {"tree": str(tree / "include"), "host": str(HOST)}
    return ctypes.CDLL(str(build_cpp(spec, BuildContext(cache_root), (*flags, *include), places).path))


def launch_of_engine(library: Any, version: int, units: int, asked: ExecuteArguments, sizes: tuple[int, ...]) -> Made:
    """What an engine launches.

    Args:
        version: 90 or 100. sizes: bytes of each parameter of the kernel.

    Raises:
        ValueError: the engine refuses the shape, or fails.
    """
    numbers = (ctypes.c_int32 * 6)(*asked.sizes)
    places = (ctypes.c_uint64 * 7)(*asked.addresses)
    steps = (ctypes.c_int64 * 24)(*(number for strides in asked.strides for number in (*strides, 1)))
    widths, out = (ctypes.c_uint64 * len(sizes))(*sizes), ctypes.create_string_buffer(sum(sizes))
    told, name, text = _Record(), ctypes.c_char_p(), ctypes.c_char_p()
    status = library.fmha_engine(
        version, units, numbers, places, steps, ctypes.c_float(asked.scale), widths, ctypes.c_uint64(len(sizes)), out,
        ctypes.byref(told), ctypes.byref(name), ctypes.byref(text),
    )  # fmt: skip
    if status or told.shared != told.allowed_shared:
        raise ValueError(f"the engine answers {status}")
    parameters, at = [], 0
    for size in sizes:
        parameters.append(out.raw[at : at + size])
        at += size
    return Made(
        grid=tuple(told.grid),
        block=tuple(told.block),
        shared=told.shared,
        cleared=(told.cleared, told.cleared_bytes),
        parameters=tuple(parameters),
        symbol=(name.value or b"").decode("ascii"),
        text=(text.value or b"").decode("utf-8"),
    )
