"""What CPU kernels promise: in which order the terms of a row are summed, whatever stands around its sequence.

A prefill kernel divides the keys that a tile of queries sees into blocks of about equal size, so the order within a row follows from
the place of the row in its sequence and from its keys, and a piece of the queries has other tiles. A decode kernel divides the keys
among parts, and chooses their number by the threads, the batch and the longest sequence (``codegen/cpu/src/launch_decode.h``
choose_splits), unless the problem names it; the parts of a sequence follow from its own keys.
"""

from __future__ import annotations

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Direction
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem

_STORED = frozenset((Invariance.REPEATS, Invariance.PADDING, Invariance.PAGES))
"""The same rows elsewhere in memory."""
_SHARED = _STORED | {Invariance.BATCH, Invariance.LENGTHS, Invariance.THREADS}
"""And among other sequences, by other threads."""


def promises(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance]:
    """See ``fmha_cli.domain.invariance`` (Promising)."""
    if problem.direction is not Direction.FWD:
        return frozenset((Invariance.REPEATS,) if problem.deterministic else ())
    fixed = problem.splits > 0 or algorithm_of(kernel).kind is LoopKind.PREFILL
    return _SHARED if fixed else _STORED
