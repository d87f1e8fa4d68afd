"""``Staging``: scratch tensors in place of tensors that kernels cannot take as they are. The host copies them.

Kernels have one dK and dV for each query head, and one dBias for each head and sequence. Some know no groups of heads, read
whole loads, and write rows of all heads one after the other. They take strides for inputs, which therefore have a scratch
tensor only where they cannot be read in place (``copied``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fmha_cli.backends.cuda.scratch import Scratch
from fmha_cli.backends.cuda.sequences import Sequences
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.domain.features import Mode
from fmha_cli.domain.tensors import bias_shape

if TYPE_CHECKING:
    from fmha_cli.backends.gpu.arena_views import Array, Bytes

LOAD_BITS = 128
"""Of the largest load. Rows of a bias are whole loads."""
BIAS_STEP = 16
"""Rows of a copied bias and of dBias are padded to a multiple of so many elements, a multiple of every type's load."""
_KEYS, _VALUES = ("k", "v", "dk", "dv"), ("v", "o", "do", "dv")


@dataclass(frozen=True)
class Staging(Sequences):
    """The scratch tensors of one problem. Those of rows have the axes (row of all sequences, head, head dim).

    Attributes:
        hdims: both head dims as kernels see them, padded with zeros.
        names: the scratch tensors by the tensors that they may stand for. Other tensors are read and written in place.
        groups: whether kernels know the key head of a query head.
    """

    hdims: tuple[int, int]
    names: Mapping[str, str]
    groups: bool

    @property
    def shared(self) -> bool:
        """Whether all query heads read one key head, in place, with a stride of 0. Other groups read repeated heads."""
        return not self.groups and self.problem.kv_heads == 1 < self.problem.heads

    @cached_property
    def copied(self) -> tuple[str, ...]:
        """The inputs other than O that kernels read from a copy: for padded head dims, repeated heads, a cache (in
        which sequences need not start at multiples of a row's stride), or a bias whose rows are not whole loads.
        """
        p, wide, wide_v = self.problem, self.hdims[0] > self.problem.hdim, self.hdims[1] > self.problem.hdim_v
        keys = self.cached or (not self.shared and not self.groups and p.kv_heads < p.heads)
        wanted = {
            "q": wide or (self.cached and p.mode is Mode.BATCH),
            "k": wide or keys,
            "v": wide_v or keys,
            "do": wide_v and p.direction.backward,
            "bias": bias_shape(p) is not None and p.seqlen_k % (LOAD_BITS // p.dtype.bits),
        }
        return tuple(name for name, copy in wanted.items() if copy and name in self.names)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the scratch tensor that replaces a tensor."""
        p, columns = self.problem, next_multiple(self.problem.seqlen_k, BIAS_STEP)
        if name == "bias":
            return (*(bias_shape(p) or ())[:-1], columns)
        if name == "dbias":
            return p.batch, p.heads, p.seqlen_q, columns
        heads = 1 if self.shared and name in ("k", "v") else p.heads
        return self.key_rows if name in _KEYS else self.rows, heads, self.hdims[name in _VALUES]

    def staged(self) -> Iterator[tuple[str, Scratch]]:
        """The scratch tensors by their names."""
        p = self.problem
        gradients = ("dq", "dk", "dv", *(("dbias",) if p.dbias else ())) if p.direction.backward else ()
        for name in (*self.copied, *(name for name in ("o", *gradients) if name in self.names)):
            yield self.names[name], Scratch(self.shape(name), p.dtype.bits // 8)

    def address(self, call: Call[Any], name: str) -> int:
        """The address of a tensor, or of the scratch tensor that replaces it."""
        return call.address(self.names[name] if self.names.get(name) in call.tensors else name)

    def strides(self, call: Call[Any]) -> dict[str, Strides]:
        """Strides of all tensors of rows as kernels see them."""
        out = {}
        for name in ("q", "k", "v", "o", "do", "dq", "dk", "dv"):
            if self.names.get(name) in call.tensors:
                out[name] = Scratch(self.shape(name)).rows(self.problem.batch)
            elif name in call.tensors:
                out[name] = call.rows(name)
            if self.shared and name in ("k", "v"):
                out[name] = replace(out[name], head=0)
        return out

    def copy_in(self, call: Call[Any], arena: Bytes) -> None:
        """Before the upload: copy inputs, and zero gradients, of which kernels may leave parts unwritten.

        O is an input of a backward pass, unless the forward pass of the same plan writes its scratch tensor.
        """
        from fmha_cli.backends.cuda.copies import copy_rows_in, rows_of
        from fmha_cli.backends.gpu.arena_views import view

        backward = self.problem.direction.backward
        for name in (*self.copied, *(("o",) if backward and not call.follows else ())):
            source = view(arena, call.tensor(name)) if name == "bias" else rows_of(call, arena, name)
            copy_rows_in(source, self.space(call, arena, name))
        for name in ("dq", "dk", "dv", "dbias") if backward else ():
            if name in call.tensors:
                self.space(call, arena, name)[...] = 0

    def copy_out(self, call: Call[Any], arena: Bytes) -> None:
        """After the download: copy outputs. Rows of O that see no key become 0; kernels divide 0 by 0 there, or write nothing."""
        import numpy as np

        from fmha_cli.backends.cuda.copies import blind_rows, broadcast_sum, copy_rows_out, rows_of
        from fmha_cli.backends.gpu.arena_views import view

        if not self.problem.direction.backward:
            self.space(call, arena, "o")[np.concatenate(blind_rows(self.problem))] = 0
        for name in ("dq", "dk", "dv") if self.problem.direction.backward else ("o",):
            if name in self.names:
                copy_rows_out(self.space(call, arena, name), rows_of(call, arena, name))
        if "dbias" in call.tensors:
            broadcast_sum(self.space(call, arena, "dbias"), view(arena, call.tensor("dbias")))

    def space(self, call: Call[Any], arena: Bytes, name: str) -> Array:
        """A view of the scratch tensor that replaces a tensor.

        Raises:
            InternalError: the arena has none.
        """
        from fmha_cli.backends.gpu.arena_views import DTYPES
        from fmha_cli.backends.gpu.host_side import workspace

        return workspace(call.tensors, arena, self.names[name], self.shape(name), DTYPES[self.problem.dtype.value])
