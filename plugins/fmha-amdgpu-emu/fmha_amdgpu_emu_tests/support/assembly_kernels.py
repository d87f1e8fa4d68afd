"""Hand-written code objects of the amd-aiter sdist (pinned source ``aiter-asm``), and calls as in its host code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fmha_amdgpu_emu_tests.support.machine import Program, device
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.plugin import cache_root
from fmha_cli.sources.store import fetch_source

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Argument = int | Array | bytes
"""A number of 4 bytes, a pointer to an array, or (no bytes) a null pointer."""

IN_STEP = 16
"""Instructions per turn of a wave, for kernels that rely on waves staying together."""


@cache
def folder(root: Path) -> Path:
    """The folder ``hsa`` of the sdist; skips the test if it is neither cached nor available for download."""
    try:
        return fetch_source("aiter-asm", root, offline=False, notify=lambda notice: None) / "aiter_meta" / "hsa"
    except EnvironmentProblem as error:
        pytest.skip(f"the source aiter-asm cannot be had: {error.why}")


def code_object(name: str) -> bytes:
    """One file below ``hsa``, such as ``gfx942/layer_norm.co``."""
    return (folder(cache_root()) / name).read_bytes()


def bits(value: float) -> int:
    """The bits of a float argument as a word."""
    return int(np.float32(value).view(np.uint32))


def describe(lengths: Sequence[tuple[int, int]]) -> str:
    """The lengths of the batch entries as text: ``2 of 200x300``, or each one."""
    if len(set(lengths)) == 1:
        return f"{len(lengths)} of {lengths[0][0]}x{lengths[0][1]}"
    return " ".join(f"{q}x{k}" for q, k in lengths)


def slots(members: Sequence[Argument], width: int) -> list[int | Array]:
    """Arguments in which every number fills a slot of ``width`` bytes; pointers do too if slots are that wide.

    ``csrc/include/aiter_hip_common.h`` (``p1``, ``p2``, ``p3``): packed structs with padding members.
    """
    out: list[int | Array] = []
    for member in members:
        held: list[int | Array] = [0, 0] if isinstance(member, bytes) else [member]
        used = 4 if isinstance(member, int) else 8
        out += [*held, *[0] * ((width - used) // 4)]
    return out


def run(
    code: str,
    grid: Sequence[int],
    block: int,
    arguments: Sequence[int | Array],
    outputs: Mapping[str, Array],
    inputs: Mapping[str, Array],
    *,
    seed: int = 0,
    threads: int = 2,
    turn: int = 0,
    kernel: str | None = None,
) -> dict[str, Any]:
    """Launch a kernel of a code object on arrays that become device memory meanwhile; returns the observations."""
    program = Program(code_object(code))
    try:
        with ExitStack() as live:
            for writable, arrays in ((True, outputs), (False, inputs)):
                for name, array in arrays.items():
                    live.enter_context(device(array.view(np.uint8), name, writable=writable))
            chosen = kernel or next(iter(program.kernels()["kernels"]))
            return program.launch(chosen, grid, (block, 1, 1), *arguments, seed=seed, threads=threads, turn=turn)
    finally:
        program.close()
