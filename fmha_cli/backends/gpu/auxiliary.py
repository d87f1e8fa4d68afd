"""Small arrays that kernels read in addition to the problem's tensors. The session owns their device memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.gpu.arena_views import DTYPES
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import ROTARY_TABLES

Array = npt.NDArray[Any]


def int32(values: Sequence[int]) -> npt.NDArray[np.int32]:
    """Lengths or offsets in the type that kernels read."""
    return np.asarray(values, np.int32)


def rotary_tables(problem: Problem, positions: int) -> dict[str, Array]:
    """``rotary_cos`` and ``rotary_sin``, shape (positions, dim / 2); zeros where the problem gives the tables.

    The angle is position * base^(-2i / dim). Values are rounded to nearest even in the element type of Q.

    Raises:
        InternalError: no rotary kernel has this element type.
    """
    dim, dtype = problem.rotary.dim, problem.dtype
    if dtype not in (DType.FP16, DType.BF16):
        raise InternalError(f"no rotary tables in {dtype.value}", where="--rotary")
    element = DTYPES[dtype.value]
    if problem.rotary_cos:
        return {name: np.zeros((positions, dim // 2), element) for name in ROTARY_TABLES}
    angle = np.arange(positions)[:, None] * problem.rotary_base ** (-np.arange(0, dim, 2) / dim)[None, :]
    return dict(zip(ROTARY_TABLES, (np.cos(angle).astype(element), np.sin(angle).astype(element)), strict=True))


def given_tables(problem: Problem, arrays: Mapping[str, Array], read: Callable[[str], Array]) -> dict[str, Array]:
    """The problem's rotary tables in place of those among ``arrays``; empty where it gives none. Rows behind its last position,
    which kernels may load, are zeros.

    Args:
        read: returns a tensor's content.
    """
    out: dict[str, Array] = {}
    for name in ROTARY_TABLES if problem.rotary_cos else ():
        if name in arrays:
            out[name] = np.zeros_like(arrays[name])
            out[name][: problem.positions] = read(name).astype(arrays[name].dtype)
    return out
