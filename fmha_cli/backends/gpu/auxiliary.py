"""Small arrays that kernels read besides the problem's tensors. The session owns their device memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.gpu.arena_views import DTYPES
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError

Array = npt.NDArray[Any]

ROTARY_BASE = 10000.0
"""Base of the rotary angles under ``--rotary``."""


def int32(values: Sequence[int]) -> npt.NDArray[np.int32]:
    """Lengths or offsets in the type that kernels read."""
    return np.asarray(values, np.int32)


def rotary_tables(dim: int, positions: int, dtype: DType) -> dict[str, Array]:
    """``rotary_cos`` and ``rotary_sin``, shape (positions, dim / 2).

    The angle is position * 10000^(-2i / dim). Values are rounded to nearest even in the element type of Q.

    Raises:
        InternalError: no rotary kernel has this element type.
    """
    if dtype not in (DType.FP16, DType.BF16):
        raise InternalError(f"no rotary tables in {dtype.value}", where="--rotary")
    angle = np.arange(positions)[:, None] * ROTARY_BASE ** (-np.arange(0, dim, 2) / dim)[None, :]
    element = DTYPES[dtype.value]
    return {"rotary_cos": np.cos(angle).astype(element), "rotary_sin": np.sin(angle).astype(element)}
