"""``Ceiling``: the best rate of the machine right before and right after the timed launches of a row.

A share of the peak blames the kernel for everything that slowed the machine meanwhile: neighbours, heat, a lower clock.
Short loops around the launches tell the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fmha_cli.bench.roofline import Bound
from fmha_cli.domain.members import Then
from fmha_cli.domain.quantities import byte_rate, flop_rate

MOVED = 0.10
"""The ceiling has moved if its two rates differ by more than this share of the higher one. Two runs of the loops on a quiet
machine differ by 1 to 3 %."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Two rates of one short loop.

    Attributes:
        bound: the part that the loop exercises: a register tile with operands from the first-level cache, or reads from
            memory.
        before, after: FLOP/s or bytes/s.
    """

    bound: Bound
    before: float
    after: Annotated[float, Then("moved")]

    @property
    def moved(self) -> Annotated[bool, "the two differ by more than a tenth"]:
        """Whether the machine's best rate changed while the row ran."""
        high, low = max(self.before, self.after), min(self.before, self.after)
        return high - low > MOVED * high

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for people if the ceiling moved."""
        rate = byte_rate if self.bound is Bound.MEMORY else flop_rate
        text = f"the machine's ceiling moved during the row: {rate(self.before)} before, {rate(self.after)} after"
        return (text,) if self.moved else ()
