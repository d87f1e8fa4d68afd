"""A small attention problem with extreme numbers: each tensor as the product reads it, and each sequence in float64.

What no query may read (rows behind a cache's end, pages not in use, keys that a mask or a bias of -inf hides from every row) holds NaN
in the product's tensors and 0 in float64. No tensor, mask, factor or dropout word here comes from the product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tests.support.generators.extreme_runs import Extreme

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TYPES: dict[str, Any] = {
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
}
MOST = {"fp32": 3.4028234e38, "fp16": 65504.0, "bf16": 3.3895e38}
"""The largest numbers of the types of a bias."""

PAGE, LARGE_PAGE = 16, 256
"""Keys of a page; most kernels for GPUs have large pages alone."""


class Family(StrEnum):
    """What a kernel is made for, or where its keys are."""

    PREFILL = "prefill"
    DECODE = "decode"
    SPLIT = "split-KV"
    PACKED = "packed sequences"
    LINEAR = "linear cache"
    PAGED = "paged cache"
    BYTES = "8-bit cache"
    NARROW = "fp8 inputs"
    APPEND = "append"
    BACKWARD = "backward"


CACHED = (Family.LINEAR, Family.PAGED, Family.BYTES, Family.APPEND)


@dataclass(frozen=True)
class Lane:
    """One sequence in float64, as the formulas have it.

    Attributes:
        q, k, v, do: (heads, rows, hdim), (kv_heads, keys, d) twice, (heads, rows, hdim_v).
        sees: (rows, keys) by the mask.
        delta: keys - rows, or 0 for a mask from the top left.
        bias: (heads, rows, keys) or None.
        slopes, sinks: (heads,) or None.
        kept: (heads, rows, keys), the factors of dropout, or None.
        poisoned: "k", "v": where the product has NaN for keys that no row may read.
    """

    q: Doubles
    k: Doubles
    v: Doubles
    sees: Bools
    delta: int
    scale: float
    softcap: float
    bias: Doubles | None
    slopes: Doubles | None
    sinks: Doubles | None
    kept: Doubles | None
    do: Doubles | None
    poisoned: frozenset[str] = frozenset()


@dataclass
class Drawn:
    """A problem: how it is given to the product, and what it is.

    Attributes:
        store, held: types of Q, and of K and V.
        flags: problem flags under their Python names.
        tensors: by the product's names.
    """

    number: int
    family: Family
    dtype: str
    extremes: tuple[Extreme, ...]
    store: str = ""
    held: str = ""
    flags: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)

    def rows(self, array: Any, b: int, *, keys: bool = False) -> Doubles:
        """(heads, rows, d) of one sequence: of O and dQ, or of dK and dV."""
        lengths = [lane.k.shape[1] if keys else lane.q.shape[1] for lane in self.lanes]
        axis = 0 if self.flags.get("layout") == "bshd" else 1
        if "seqlens_q" in self.flags:
            array = array.take(range(sum(lengths[:b]), sum(lengths[: b + 1])), axis=axis)
        else:
            array = array[b]
        return np.asarray(array if axis else array.swapaxes(0, 1), np.float64)

    def lse(self, array: Any, b: int) -> Doubles:
        """(heads, rows) of one sequence."""
        first = sum(lane.q.shape[1] for lane in self.lanes[:b])
        packed = "seqlens_q" in self.flags
        return np.asarray(array[:, first : first + self.lanes[b].q.shape[1]] if packed else array[b], np.float64)


def typed(x: Any, dtype: str) -> Any:
    """Numbers of a type, the nearest; beyond its range the largest."""
    info = np.iinfo(np.int8) if dtype == "int8" else ml_dtypes.finfo(TYPES[dtype])
    finite = np.clip(np.asarray(x, np.float64), float(info.min), float(info.max))
    finite = np.where(np.isinf(x) & (dtype != "int8"), x, np.rint(finite) if dtype == "int8" else finite)
    return finite.astype(TYPES[dtype])


def empty(shape: tuple[int, ...], dtype: str) -> Any:
    """An array of what nobody reads: NaN, in int8 the largest magnitude."""
    return np.full(shape, -128 if dtype == "int8" else np.nan, TYPES[dtype])


def philox(seed: int, counter: tuple[Any, Any, Any], offset: int) -> list[Any]:
    """The four words of Philox 4x32-10 (Salmon et al., 2011)."""
    low = np.uint64(0xFFFFFFFF)
    x = [*counter, np.full_like(counter[0], offset)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for n in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        round_keys = [
            np.uint64((key + n * step) & 0xFFFFFFFF) for key, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)
        ]
        shift = np.uint64(32)
        x = [(b >> shift) ^ x[1] ^ round_keys[0], b & low, (a >> shift) ^ x[3] ^ round_keys[1], a & low]
    return x
