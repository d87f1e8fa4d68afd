"""What FlashAttention-2's forward kernels promise.

Each row of a tile has a maximum and a sum of its own, and a tile takes its keys from the last block to the first; blocks that a row
does not see leave both as they are (``softmax.h`` ``softmax_rescale_o``). So a row's order follows from its keys and from the tile
that the kernel is compiled for, and changes only with the number of splits, which ``num_splits_heuristic`` chooses by batch, heads,
lengths and multiprocessors unless it is named. A window is clipped by the capacity of a buffer (``set_params_fprop``), and the causal
mask of a single query is dropped unless a longer sequence stands beside it; both lead to other kernels.
"""

from __future__ import annotations

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Direction
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.problem import Problem

_SAME = frozenset((Invariance.REPEATS, Invariance.PAGES))
_ONE_PART = _SAME | {Invariance.BATCH, Invariance.LENGTHS, Invariance.PADDING, Invariance.UNITS}


def promises(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance]:
    """See ``fmha_cli.domain.invariance`` (Promising)."""
    if problem.direction is not Direction.FWD:
        return frozenset()
    plain = problem.mask.kind is MaskKind.NONE or (
        problem.mask.kind is MaskKind.CAUSAL and min(problem.query_lengths(), default=0) > 1
    )
    return _ONE_PART if problem.splits == 1 and plain else _SAME
