"""numpy views of tensors in the arena, for the conversions that device backends do on the host."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_cli.domain.protocols import BoundTensor

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

DTYPES: Mapping[str, np.dtype[np.generic]] = MappingProxyType(
    {
        "fp32": np.dtype(np.float32),
        "fp16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
        "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
        "fp8_e4m3_fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
        "fp8_e5m2_fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
        "fp4_e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
        "e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
        "int8": np.dtype(np.int8),
        "int32": np.dtype(np.int32),
        "uint8": np.dtype(np.uint8),
    }
)
"""The element types of ``fmha_cli.domain.tensors`` by name, and uint8 for workspaces."""


def view(arena: Bytes, tensor: BoundTensor) -> Array:
    """A view of a tensor in the arena, with the tensor's own axes."""
    dtype = DTYPES[tensor.dtype]
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    start = arena[tensor.offset : tensor.offset + max(extent(tensor), dtype.itemsize)]
    return np.ndarray(tensor.shape, dtype, start, strides=strides)


def extent(tensor: BoundTensor) -> int:
    """Bytes from element 0 to the end of the last element."""
    if 0 in tensor.shape:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
    return (last + 1) * DTYPES[tensor.dtype].itemsize
