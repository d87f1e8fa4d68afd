"""Copies on the host between tensors and dense scratch tensors, for kernels that cannot take every layout.

A scratch tensor of rows has the axes (row of all sequences, head, head dim), whatever the tensor's layout.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.host_side import head_sums, workspace
from fmha_cli.domain.features import Layout
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets

_FLOAT = np.dtype(np.float32)


def rows_of(call: Call[Any], arena: Bytes, name: str) -> Array:
    """A view of a tensor of rows with the axes (sequence unless packed, row, head, head dim)."""
    tensor = view(arena, call.tensor(name))
    return tensor.swapaxes(-3, -2) if call.problem.layout_of(name) is Layout.BHSD else tensor


def copy_rows_in(source: Array, target: Array) -> None:
    """Copy rows to a scratch tensor. A longer last axis is padded with zeros, and heads are repeated in groups."""
    if target.shape[-2] != source.shape[-2]:
        source = np.repeat(source, target.shape[-2] // source.shape[-2], axis=-2)
    target[..., source.shape[-1] :] = 0
    target.reshape(*source.shape[:-1], -1)[..., : source.shape[-1]] = source


def copy_rows_out(source: Array, target: Array) -> None:
    """Copy a scratch tensor to rows without the padding. The heads of a group are summed in single precision."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a wrong kernel: the judge names them
        if source.shape[-2] != target.shape[-2]:
            source = head_sums(source, target.shape[-2], axis=-2)
        target[...] = source[..., : target.shape[-1]].reshape(target.shape).astype(target.dtype)


def broadcast_sum(source: Array, target: Array) -> None:
    """Copy a tensor without the padding of its last axis, summed in single precision over the axes that are 1 in the target."""
    summed = tuple(axis for axis, size in enumerate(target.shape[:-1]) if size < source.shape[axis])
    used = source[..., : target.shape[-1]]
    with np.errstate(over="ignore", invalid="ignore"):  # of a wrong kernel: the judge names them
        whole = used.astype(np.float32).sum(axis=summed, keepdims=True, dtype=np.float32) if summed else used
        target[...] = whole.astype(target.dtype)


def lse_in(call: Call[Any], arena: Bytes, name: str, shape: tuple[int, ...], nothing: float) -> Array:
    """Copy the LSE to an fp32 scratch tensor, with ``nothing`` as padding and for rows without keys; returns that tensor."""
    copy = workspace(call.tensors, arena, name, shape, _FLOAT)
    copy[...] = nothing
    targets, sources = lse_rows(call.problem, copy), lse_rows(call.problem, view(arena, call.tensor("lse")))
    for target, lse in zip(targets, sources, strict=True):
        target[...] = np.where(np.isneginf(lse), np.float32(nothing), lse)
    return copy


def lse_out(call: Call[Any], arena: Bytes, name: str, shape: tuple[int, ...]) -> None:
    """Copy the LSE from an fp32 scratch tensor, with -inf for rows without keys."""
    copy = lse_rows(call.problem, workspace(call.tensors, arena, name, shape, _FLOAT))
    targets = lse_rows(call.problem, view(arena, call.tensor("lse")))
    for lse, source, blind in zip(targets, copy, blind_rows(call.problem), strict=True):
        lse[...] = np.where(blind, np.float32(-np.inf), source)


def row_sums_in(call: Call[Any], arena: Bytes, name: str, shape: tuple[int, ...]) -> None:
    """Sums of dO * O over each row, in single precision: (batch, heads, rows), packed (heads, rows)."""
    do, o = (rows_of(call, arena, tensor).astype(np.float32) for tensor in ("do", "o"))
    sums = np.einsum("...d,...d->...", do, o)
    workspace(call.tensors, arena, name, shape, _FLOAT)[...] = sums.swapaxes(-1, -2)


def lse_rows(problem: Problem, lse: Array) -> list[Array]:
    """Views of each sequence's rows, (heads, rows), of an LSE that is packed, (heads, rows of all), or padded, (batch, heads,
    rows or more)."""
    lengths = problem.query_lengths()
    if lse.ndim > 2:
        return [plane[:, :rows] for plane, rows in zip(lse, lengths, strict=True)]
    return [lse[:, first:end] for first, end in pairwise(offsets(lengths))]


def blind_rows(problem: Problem) -> list[npt.NDArray[np.bool_]]:
    """The rows of each sequence that see no key. A bias does not count."""
    lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    return [~np.isin(np.arange(rows), problem.mask.seeing(rows, keys)) for rows, keys in lengths]
