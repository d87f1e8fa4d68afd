"""Conversions before and after the kernels, where CK's conventions differ from those of the contract.

- fp8 read as FNUZ: the bits of -0 mean NaN there, so the device gets +0 (``quantisation``).
- ALiBi under a causal mask: CK adds slope * j, the contract adds -slope * |i + delta - j|. The softmax of a row is the
  same. Its LSE differs by slope * (i + delta), which is added to the LSE that the backward reads and subtracted from
  the LSE that the forward wrote.
- fp8 kernels without a scale for O: O is multiplied by the scale after the download. An fp8 O in FNUZ has NaN in place
  of -0.
- GQA: the backward writes dK and dV for each query head. They are summed after the download, in single precision.

All conversions happen outside the timed launches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fmha_cli.backends.ck_tile.quantisation import FP8, Scales, reads_fnuz
from fmha_cli.backends.ck_tile.shapes import head_axis, swap_heads
from fmha_cli.backends.gpu.arena_views import DTYPES, Bytes, extent, view
from fmha_cli.backends.gpu.host_side import Tensors, alibi_shift, head_sums, workspace
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor

_MINUS_ZERO, _NAN = 0x80, 0x7F
_FP8_INPUTS = ("q", "k", "v", "k_new", "v_new")


@dataclass(frozen=True)
class Patch:
    """Bytes of the arena, from ``offset`` on, that differ on the device."""

    offset: int
    original: Bytes
    patched: Bytes

    def undo(self, arena: Bytes) -> None:
        """Restore the original bytes wherever the device has not changed the patched ones."""
        here = arena[self.offset : self.offset + len(self.original)]
        np.copyto(here, self.original, where=here == self.patched)


def is_dense(tensor: BoundTensor) -> bool:
    """Whether the tensor's elements fill its extent without gaps."""
    return extent(tensor) == int(np.prod(tensor.shape)) * DTYPES[tensor.dtype].itemsize


def blank_extent(arena: Bytes, tensor: BoundTensor) -> Bytes:
    """The bytes of a tensor's extent with every element 0. The gaps keep their bytes from the arena."""
    image = arena[tensor.offset : tensor.offset + extent(tensor)].copy()
    view(image, replace(tensor, offset=0))[...] = 0
    return image


def patches_for(plan: Plan, tensors: Tensors, arena: Bytes) -> tuple[Patch, ...]:
    """The bytes of a pass's inputs that the device must hold instead of those in the arena."""
    out = []
    if reads_fnuz(plan.main):
        out += [_without_minus_zero(tensors[name], arena) for name in _FP8_INPUTS if name in tensors]
    if _shifted(plan.problem) and not plan.problem.direction.forward:
        out.append(_shifted_lse(plan.problem, tensors, arena))
    return tuple(out)


def finish(plan: Plan, tensors: Tensors, arena: Bytes, scales: Scales) -> None:
    """Convert the outputs of a pass in the arena to the contract's conventions."""
    p = plan.problem
    if p.direction.forward and "lse" in tensors and _shifted(p):
        lse = view(arena, tensors["lse"])
        np.subtract(lse, alibi_shift(p, tensors, arena), out=lse, where=np.isfinite(lse))
    if p.direction.forward and "o" in tensors:
        _finish_output(plan, tensors["o"], arena, scales)
    for name in ("dk", "dv") if p.direction.backward else ():
        if f"{name}_heads" in tensors:
            _sum_heads(p, name, tensors, arena)


def _without_minus_zero(tensor: BoundTensor, arena: Bytes) -> Patch:
    original = arena[tensor.offset : tensor.offset + extent(tensor)].copy()
    return Patch(tensor.offset, original, np.where(original == _MINUS_ZERO, np.uint8(0), original))


def _shifted(problem: Problem) -> bool:
    """Whether ALiBi has the form slope * j: under causal masks only (``make_alibi_from_lr_mask``)."""
    mask = problem.mask
    return problem.alibi is not Alibi.NONE and mask.left is None and mask.right == 0


def _shifted_lse(problem: Problem, tensors: Tensors, arena: Bytes) -> Patch:
    lse = tensors["lse"]
    original = arena[lse.offset : lse.offset + extent(lse)].copy()
    patched = original.copy()
    values = view(patched, replace(lse, offset=0))
    np.add(values, alibi_shift(problem, tensors, arena), out=values)
    return Patch(lse.offset, original, patched)


def _finish_output(plan: Plan, o: BoundTensor, arena: Bytes, scales: Scales) -> None:
    if not reads_fnuz(plan.main):
        return
    values = view(arena, o)
    if plan.problem.dtype_out in FP8:
        bits = values.view(np.uint8)
        np.copyto(bits, np.uint8(_NAN), where=bits == _MINUS_ZERO)
    elif scales.o_after != 1.0:
        np.multiply(values, values.dtype.type(scales.o_after), out=values, where=np.isfinite(values.astype(np.float32)))


def _sum_heads(problem: Problem, name: str, tensors: Tensors, arena: Bytes) -> None:
    """Add the query heads of each key/value head."""
    target = tensors[name]
    shape, dtype = swap_heads(target.shape, problem), DTYPES[target.dtype]
    parts = workspace(tensors, arena, f"{name}_heads", shape, dtype)
    summed = head_sums(parts, problem.kv_heads, axis=head_axis(problem.layout, len(shape)))
    view(arena, target)[...] = summed.astype(dtype)
