"""What the device's tensors need before and after the kernels, where CK's conventions differ from the contract's.

- fp8 read as FNUZ: the bits of -0 are NaN there, so the device gets +0 (``quantisation``).
- ALiBi under a causal mask: CK adds slope * j, the contract -slope * |i + delta - j|. The rows' softmax is the same,
  their LSE differs by slope * (i + delta): added to what the backward reads, taken from what the forward wrote.
- O of an fp8 kernel that has no scale for it is multiplied here; an fp8 O of FNUZ has its NaN in the place of -0.
- With GQA the backward writes dK and dV for each query head: they are summed here, in single precision.

All of it happens outside the timed launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.arena_views import DTYPES, Bytes, extent, view
from fmha_cli.backends.ck_tile.quantisation import FP8, Scales, reads_fnuz
from fmha_cli.backends.ck_tile.shapes import head_axis, heads_swapped
from fmha_cli.features import Alibi, Mode
from fmha_cli.plan import Plan
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor

_MINUS_ZERO, _NAN = 0x80, 0x7F
_FP8_INPUTS = ("q", "k", "v", "k_new", "v_new")


@dataclass(frozen=True)
class Patch:
    """Bytes of the arena that the device holds otherwise, from ``offset`` on."""

    offset: int
    original: Bytes
    patched: Bytes

    def undo(self, arena: Bytes) -> None:
        """Put the original bytes back wherever the device left the patched ones alone."""
        here = arena[self.offset : self.offset + len(self.original)]
        np.copyto(here, self.original, where=here == self.patched)


def blanked(arena: Bytes, tensor: BoundTensor) -> Bytes:
    """The bytes of a tensor's extent with every element 0 and the gaps as they are in the arena."""
    image = arena[tensor.offset : tensor.offset + extent(tensor)].copy()
    view(image, replace(tensor, offset=0))[...] = 0
    return image


def patches_for(plan: Plan, tensors: Mapping[str, BoundTensor], arena: Bytes) -> tuple[Patch, ...]:
    """What the device must hold instead of the arena's bytes."""
    out = []
    if reads_fnuz(plan.main):
        out += [_without_minus_zero(tensors[name], arena) for name in _FP8_INPUTS if name in tensors]
    if _shifted(plan.problem) and not plan.problem.direction.forward:
        out.append(_shifted_lse(plan.problem, tensors, arena))
    return tuple(out)


def finish(plan: Plan, tensors: Mapping[str, BoundTensor], arena: Bytes, scales: Scales) -> None:
    """Turn the outputs in the arena into the contract's."""
    p = plan.problem
    if p.direction.forward and "lse" in tensors and _shifted(p):
        lse = view(arena, tensors["lse"])
        np.subtract(lse, _shift(p, tensors, arena), out=lse, where=np.isfinite(lse))
    if p.direction.forward and "o" in tensors:
        _finish_output(plan, tensors["o"], arena, scales)
    for name in ("dk", "dv"):
        if f"{name}_heads" in tensors:
            _sum_heads(p, tensors[name], tensors[f"{name}_heads"], arena)


def _without_minus_zero(tensor: BoundTensor, arena: Bytes) -> Patch:
    original = arena[tensor.offset : tensor.offset + extent(tensor)].copy()
    return Patch(tensor.offset, original, np.where(original == _MINUS_ZERO, np.uint8(0), original))


def _shifted(problem: Problem) -> bool:
    """``make_alibi_from_lr_mask``: the causal masks, and only they, take the form slope * j."""
    mask = problem.mask
    return problem.alibi is not Alibi.NONE and mask.left is None and mask.right == 0


def _shift(problem: Problem, tensors: Mapping[str, BoundTensor], arena: Bytes) -> npt.NDArray[np.float32]:
    """slope * (i + delta) in LSE's shape."""
    slopes = view(arena, tensors["alibi_slopes"]).astype(np.float64)
    slopes = np.broadcast_to(slopes, (problem.batch, problem.heads))
    lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    rows = [np.arange(q) + problem.mask.delta(q, k) for q, k in lengths]
    planes = [np.multiply.outer(slopes[b], position) for b, position in enumerate(rows)]
    whole = np.concatenate(planes, axis=-1) if problem.mode is Mode.GROUP else np.stack(planes)
    return whole.astype(np.float32)


def _shifted_lse(problem: Problem, tensors: Mapping[str, BoundTensor], arena: Bytes) -> Patch:
    lse = tensors["lse"]
    original = arena[lse.offset : lse.offset + extent(lse)].copy()
    patched = original.copy()
    values = view(patched, replace(lse, offset=0))
    np.add(values, _shift(problem, tensors, arena), out=values)
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


def _sum_heads(problem: Problem, target: BoundTensor, source: BoundTensor, arena: Bytes) -> None:
    """Add the query heads of each key/value head."""
    shape = heads_swapped(target.shape, problem)
    dense = arena[source.offset :].view(np.uint8)
    count = int(np.prod(shape))
    dtype = DTYPES[target.dtype]
    parts = dense[: count * dtype.itemsize].view(dtype).reshape(shape)
    axis = head_axis(problem.layout, len(shape))
    split = (*shape[:axis], problem.kv_heads, problem.heads // problem.kv_heads, *shape[axis + 1 :])
    summed = parts.astype(np.float32).reshape(split).sum(axis=axis + 1, dtype=np.float32)
    view(arena, target)[...] = summed.astype(dtype)
