"""``Scratch``: one scratch tensor of a plan. The core allocates it as a workspace, and guards it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from fmha_cli.backends.gpu.call import Strides
from fmha_cli.domain.plan import Workspace

FLOAT = 4
"""Bytes of fp32."""


@dataclass(frozen=True)
class Scratch:
    """One scratch tensor.

    Attributes:
        itemsize: bytes of an element.
        spare: elements past the end that kernels may touch.
    """

    shape: tuple[int, ...]
    itemsize: int = FLOAT
    spare: int = 0

    @property
    def nbytes(self) -> int:
        return (prod(self.shape) + self.spare) * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def rows(self, batch: int) -> Strides:
        """Strides of a tensor (rows of ``batch`` sequences of one length, heads, head dim)."""
        rows, heads, dim = self.shape
        return Strides(batch=rows // batch * heads * dim, head=dim, row=heads * dim)


def workspaces(made: Mapping[str, Scratch]) -> tuple[Workspace, ...]:
    """The scratch tensors that have bytes, as workspaces of a plan."""
    return tuple(Workspace(name, scratch.nbytes) for name, scratch in made.items() if scratch.nbytes)
