"""``LibrarySession``: a session whose launch is one call of a library on the tensors of the arena."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from fmha_cli.backends.host.arrays import HostArrays
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.protocols import HostSession


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
