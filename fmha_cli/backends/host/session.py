"""``LibrarySession``: a session whose launch is one call of a library on the tensors of the arena.

``HostArrays`` has these as numpy arrays, copied only where they must be.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli.backends.gpu.arena_views import Array, view
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.features import Layout
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, HostSession


class HostArrays:
    """Arrays without gaps, in the order of axes that a library takes. ``before`` and ``after`` a launch they are copied from
    and to the arena, unless they are the arena's own memory.

    Args:
        arena, tensors: as ``Session.bind`` gets them.
    """

    def __init__(self, problem: Problem, arena: memoryview, tensors: Mapping[str, BoundTensor]) -> None:
        self._problem, self._arena, self._tensors = problem, np.frombuffer(arena, np.uint8), tensors
        self._into: list[tuple[Array, Array]] = []
        self._out: list[tuple[Array, Array]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def view(self, name: str, order: Layout | None = None) -> Array:
        """A tensor where it is, gaps included.

        Args:
            order: of the axes, for a tensor that follows the problem's layout; None leaves them.
        """
        array = view(self._arena, self._tensors[name])
        return array if order in (None, self._problem.layout_of(name)) else array.swapaxes(1, 2)

    def given(
        self, name: str, order: Layout | None = None, rows: slice = slice(None), *, written: bool = False
    ) -> Array:
        """An input for the library.

        Args:
            rows: the rows that the library gets.
            written: whether the library writes there too.
        """
        view = self.view(name, order)
        view = view[:, :, rows] if order is Layout.BHSD else view[:, rows] if order is Layout.BSHD else view
        return self.held(view, written=written)

    def taken(self, name: str, order: Layout | None = None) -> Array:
        """An output for the library."""
        return self.held(self.view(name, order), read=False, written=True)

    def held(
        self, view: Array, dtype: np.dtype[Any] | None = None, *, read: bool = True, written: bool = False
    ) -> Array:
        """The memory of a view, or an array in its place where the view has gaps or another type."""
        wanted = view.dtype if dtype is None else dtype
        if view.flags.c_contiguous and view.dtype == wanted:
            return view
        array = np.empty(view.shape, wanted)
        self._into += [(array, view)] if read else []
        self._out += [(view, array)] if written else []
        return array

    def before(self) -> None:
        """Copy the library's inputs."""
        for target, source in self._into:
            np.copyto(target, source, casting="same_kind")

    def after(self) -> None:
        """Copy the library's outputs."""
        for target, source in self._out:
            np.copyto(target, source, casting="same_kind")

    def remarks(self) -> tuple[str, ...]:
        """The tensors that every launch copies, for the row's notes."""
        copied = sum(target.nbytes for target, _ in (*self._into, *self._out))
        what = "the library takes arrays without gaps, in its own order of axes"
        return (f"copies {copied:,} bytes in each launch, within its time: {what}",) if copied else ()


def visible_keys(problem: Problem, rows: int) -> Array:
    """Which of ``rows`` keys each query sees: booleans, (batch, or 1 if all are alike, 1, seqlen_q, rows). Batch mode."""
    p = problem
    lengths = p.key_lengths() if len({*p.key_lengths()}) > 1 else p.key_lengths()[:1]
    i, j = np.arange(p.seqlen_q)[:, None], np.arange(rows)[None]
    return np.stack([p.mask.visible(i, j, p.seqlen_q, length, p.sink) for length in lengths])[:, None]


class LibrarySession(HostSession, ABC):
    """A subclass adds ``bind``, which sets ``arrays``, and ``run``.

    Attributes:
        failures: the exceptions that the library raises if it does not compute.
    """

    failures: tuple[type[Exception], ...] = (RuntimeError,)
    arrays: HostArrays

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.plan, self.problem = plan, plan.problem

    @abstractmethod
    def run(self) -> None:
        """Compute once, from and to the arrays."""

    def launch(self) -> tuple[int, ...]:
        """Copies count as part of the launch: the library would not compute without them."""
        start = time.perf_counter_ns()
        self.arrays.before()
        try:
            self.run()
        except self.failures as fault:
            raise KernelFailure(" ".join(str(fault).split()), code="X026") from fault
        self.arrays.after()
        return (time.perf_counter_ns() - start,)

    def remarks(self) -> tuple[str, ...]:
        """The copies of every launch."""
        return self.arrays.remarks()
