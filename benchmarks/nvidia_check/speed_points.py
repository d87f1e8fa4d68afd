"""``Point``: a problem that is timed against PyTorch, and the goal."""

from __future__ import annotations

from dataclasses import dataclass

GOAL = 0.97
"""The minimum of PyTorch's time / ours."""


@dataclass(frozen=True)
class Point:
    """One timed problem. ``kind``: forward, backward or decode; ``causal`` and the sizes repeat the flags."""

    kind: str
    name: str
    flags: str
    causal: bool

    @property
    def part(self) -> str:
        """The part of the check that it belongs to."""
        return "decode" if self.kind == "decode" else "speed"
