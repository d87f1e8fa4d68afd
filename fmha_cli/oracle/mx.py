"""MX types (OCP Microscaling Formats 1.0): 32 elements share a power of two.

The conversion is that of the specification's section 6.3: the scale is 2^(floor(log2 of the largest magnitude) - e), where e
is the exponent of the element type's largest number. Elements above that number are limited to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fmha_cli.domain.dtypes import MX_BLOCK
from fmha_cli.domain.features import CacheKind, Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element, TensorShape, blocks_before, offsets, shapes_of
from fmha_cli.oracle.tensors import Array, Ints, largest, numpy_dtype, round_to

F32 = npt.NDArray[np.float32]

SCALED = ("q", "k", "v")
"""Tensors with block scales; the scales of NAME are NAME_scale."""
_BIAS = 127
_LEAST = -127


def choose_form(problem: Problem, name: str) -> TensorShape:
    """The form in which fills make a tensor: float32 where :func:`encode_tensor` turns it into MX."""
    shape = shapes_of(problem)[name]
    return TensorShape(shape.shape, Element.FP32, shape.role) if problem.dtype.is_mx and name in SCALED else shape


def encode_tensor(problem: Problem, name: str, values: F32) -> tuple[Array, Array]:
    """q, k or v (its own shape, float32) as elements and e8m0 scales."""
    element, scale = Element.of(problem.dtype), shapes_of(problem)[f"{name}_scale"].shape
    if name != "v":
        return encode_rows(values, element)
    codes = np.empty(values.shape, numpy_dtype(element))
    scales = np.empty(scale, numpy_dtype(Element.E8M0))
    axis = _rows_axis(problem)
    for rows, blocks in _spans(problem):
        at = (slice(None),) * axis
        part, found = encode_rows(np.moveaxis(values[(*at, rows)], axis, -1), element)
        codes[(*at, rows)], scales[(*at, blocks)] = np.moveaxis(part, -1, axis), np.moveaxis(found, -1, axis)
    return codes, scales


def encode_rows(values: F32, element: Element) -> tuple[Array, Array]:
    """(..., n) float32 as elements (..., n) and scales (..., ceil(n / 32)), with blocks along the last axis."""
    n = values.shape[-1]
    exponents = scale_exponents(values, element)
    scaled = np.ldexp(values, -exponents.repeat(MX_BLOCK, axis=-1)[..., :n]).astype(np.float32)
    codes = round_to(np.clip(scaled, -largest(element), largest(element)), element)
    return codes, (exponents + _BIAS).astype(np.uint8).view(numpy_dtype(Element.E8M0))


def scale_exponents(values: F32, element: Element) -> Ints:
    """(..., ceil(n / 32)) exponents of the scales of values (..., n)."""
    n = values.shape[-1]
    padded = np.zeros((*values.shape[:-1], -(-n // MX_BLOCK) * MX_BLOCK), np.float32)
    padded[..., :n] = np.abs(values)
    top = padded.reshape(*values.shape[:-1], padded.shape[-1] // MX_BLOCK, MX_BLOCK).max(axis=-1)
    exponent = np.frexp(top)[1] - 1 - (np.frexp(np.float32(largest(element)))[1] - 1)
    return np.where(top > 0, np.clip(exponent, _LEAST, _BIAS), 0).astype(np.int64)


def _rows_axis(problem: Problem) -> int:
    """The axis of V that counts keys."""
    if problem.paged:
        return 1
    packed = problem.mode is Mode.GROUP and problem.kv_cache.kind is CacheKind.NONE
    return (2 if problem.layout is Layout.BHSD else 1) - packed


def _spans(problem: Problem) -> Iterator[tuple[slice, slice]]:
    """Ranges of V's rows that start a new series of blocks, and of their scales."""
    if problem.mode is Mode.GROUP and problem.kv_cache.kind is CacheKind.NONE:
        rows, blocks = offsets(problem.key_lengths()), blocks_before(problem.key_lengths())
        for b in range(problem.batch):
            yield slice(rows[b], rows[b + 1]), slice(blocks[b], blocks[b + 1])
    else:
        yield slice(None), slice(None)


def unpack_fp4(pairs: npt.NDArray[np.uint8]) -> Array:
    """(..., n) bytes of two fp4 elements each, the first in the low half, as (..., 2n) elements.

    Source: PyTorch, ``Float4_e2m1fn_x2.h``; safetensors 0.8 writes such tensors as ``F4`` with the shape of the elements.
    """
    codes = np.stack((pairs & 0xF, pairs >> 4), axis=-1).astype(np.uint8)
    return codes.reshape(*pairs.shape[:-1], 2 * pairs.shape[-1]).view(numpy_dtype(Element.FP4_E2M1))
