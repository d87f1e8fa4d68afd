"""Copies on the host between tensors and dense scratch tensors, for kernels that cannot take every layout.

A scratch tensor of rows has the axes (row of all sequences, head, head dim), whatever the tensor's layout. That of an LSE has
(batch, heads, rows padded to a multiple that the kernel chooses), packed or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.host_side import head_sums, workspace
from fmha_cli.domain.features import Layout, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import offsets

_OUTPUT_LAYOUT = ("o", "do")
_FLOAT = np.dtype(np.float32)


def rows_of(call: Call[Any], arena: Bytes, name: str) -> Array:
    """A view of a tensor of rows with the axes (sequence unless packed, row, head, head dim)."""
    layout = call.problem.layout_out if name in _OUTPUT_LAYOUT else call.problem.layout
    tensor = view(arena, call.tensor(name))
    return tensor.swapaxes(-3, -2) if layout is Layout.BHSD else tensor


def copy_rows_in(source: Array, target: Array) -> None:
    """Copy rows to a scratch tensor. A longer last axis is padded with zeros, and heads are repeated in groups."""
    if target.shape[-2] != source.shape[-2]:
        source = np.repeat(source, target.shape[-2] // source.shape[-2], axis=-2)
    target[..., source.shape[-1] :] = 0
    target.reshape(*source.shape[:-1], -1)[..., : source.shape[-1]] = source


def copy_rows_out(source: Array, target: Array) -> None:
    """Copy a scratch tensor to rows without the padding. The heads of a group are summed in single precision."""
    if source.shape[-2] != target.shape[-2]:
        source = head_sums(source, target.shape[-2], axis=-2)
    target[...] = source[..., : target.shape[-1]].reshape(target.shape).astype(target.dtype)


def broadcast_sum(source: Array, target: Array) -> None:
    """Copy a tensor without the padding of its last axis, summed in single precision over the axes that are 1 in the target."""
    summed = tuple(axis for axis, size in enumerate(target.shape[:-1]) if size < source.shape[axis])
    used = source[..., : target.shape[-1]]
    whole = used.astype(np.float32).sum(axis=summed, keepdims=True, dtype=np.float32) if summed else used
    target[...] = whole.astype(target.dtype)


def lse_in(call: Call[Any], arena: Bytes, name: str, shape: tuple[int, ...], nothing: float) -> None:
    """Copy the LSE to a padded fp32 scratch tensor, with ``nothing`` as padding and for rows without keys."""
    padded = workspace(call.tensors, arena, name, shape, _FLOAT)
    padded[...] = nothing
    for target, lse in zip(padded, _sequences(call.problem, view(arena, call.tensor("lse"))), strict=True):
        target[:, : lse.shape[1]] = np.where(np.isneginf(lse), np.float32(nothing), lse)


def lse_out(call: Call[Any], arena: Bytes, name: str, shape: tuple[int, ...]) -> None:
    """Copy the LSE from a padded fp32 scratch tensor, with -inf for rows without keys."""
    parts = _sequences(call.problem, view(arena, call.tensor("lse")))
    padded = workspace(call.tensors, arena, name, shape, _FLOAT)
    for lse, source, blind in zip(parts, padded, blind_rows(call.problem), strict=True):
        lse[...] = np.where(blind, np.float32(-np.inf), source[:, : lse.shape[1]])


def row_sums_in(call: Call[Any], arena: Bytes, name: str, shape: tuple[int, ...]) -> None:
    """Sums of dO * O over each row, in single precision: (batch, heads, rows), packed (heads, rows)."""
    do, o = (rows_of(call, arena, tensor).astype(np.float32) for tensor in ("do", "o"))
    sums = np.einsum("...d,...d->...", do, o)
    workspace(call.tensors, arena, name, shape, _FLOAT)[...] = sums.swapaxes(-1, -2)


def fill_outputs(call: Call[Any], arena: Bytes) -> None:
    """The outputs where there is nothing to attend to: 0, and an LSE of -inf."""
    for name in ("dq", "dk", "dv", "dbias") if call.problem.direction.backward else ("o", "lse"):
        if name in call.tensors:
            view(arena, call.tensor(name))[...] = -np.inf if name == "lse" else 0


def _sequences(problem: Problem, lse: Array) -> list[Array]:
    """Views of the LSE of each sequence, (heads, rows of the sequence)."""
    if problem.mode is Mode.BATCH:
        return list(lse)
    starts = offsets(problem.query_lengths())
    return [lse[:, starts[b] : starts[b + 1]] for b in range(problem.batch)]


def blind_rows(problem: Problem) -> list[npt.NDArray[np.bool_]]:
    """The rows of each sequence that see no key. A bias does not count."""
    mask, found = problem.mask, []
    for rows, keys in zip(problem.query_lengths(), problem.key_lengths(), strict=True):
        diagonal = np.arange(rows) + mask.delta(rows, keys)
        end = np.full(rows, keys) if mask.right is None else np.minimum(diagonal + mask.right + 1, keys)
        found.append(end <= (0 if mask.left is None else np.maximum(diagonal - mask.left, 0)))
    return found
