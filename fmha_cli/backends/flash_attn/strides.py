"""Strides of tensors as upstream's host code passes them, including its exchange of heads and query rows."""

from __future__ import annotations

from dataclasses import replace

from fmha_cli.backends.flash_attn.situation import Situation
from fmha_cli.backends.gpu.call import Call, Strides

_PACKED_RANK = 3


def rows(call: Call[Situation], name: str) -> Strides:
    """Strides of a tensor of rows. In a packed tensor ``batch`` is the row stride, as ``tensor.stride(0)`` upstream."""
    strides = call.rows(name)
    return replace(strides, batch=strides.row) if _is_packed(call, name) else strides


def queries(call: Call[Situation], name: str) -> Strides:
    """Strides of q or o as the kernels see them.

    Where ``situation.swapped``, each sequence has one row, and the query heads of a key/value head are taken as rows.
    """
    strides, s = call.rows(name), call.situation
    if not s.swapped:
        return rows(call, name)
    batch = strides.row if _is_packed(call, name) else strides.batch
    return Strides(batch=batch, head=strides.head * s.groups, row=strides.head)


def keys(call: Call[Situation], name: str) -> Strides:
    """Strides of k or v. With a paged cache ``batch`` is the stride from page to page."""
    return call.keys(name) if call.problem.paged else rows(call, name)


def _is_packed(call: Call[Situation], name: str) -> bool:
    return len(call.tensor(name).shape) == _PACKED_RANK
