"""``Call``: what an argument block is made from, and where everything lies on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fmha_cli.backends.ck_tile.quantisation import Scales
from fmha_cli.backends.ck_tile.shapes import Strides, lse_strides, page_strides, row_strides
from fmha_cli.errors import InternalError
from fmha_cli.plan import Plan
from fmha_cli.problem import Problem
from fmha_cli.protocols import BoundTensor


@dataclass(frozen=True)
class Call:
    """One binding of a plan.

    Attributes:
        tensors: tensors and workspaces in the arena.
        arena: device address of the arena's first byte.
        auxiliaries: device addresses of the small arrays that the session made (``auxiliary``), by name.
        scales: the factors that the block holds.
    """

    plan: Plan
    tensors: Mapping[str, BoundTensor]
    arena: int
    auxiliaries: Mapping[str, int]
    scales: Scales

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    def tensor(self, name: str) -> BoundTensor:
        """A tensor that must be there.

        Raises:
            InternalError: it is not.
        """
        if name not in self.tensors:
            raise InternalError(f"the arena holds no {name}", where="ck_tile")
        return self.tensors[name]

    def address(self, name: str) -> int:
        """Device address of element 0 of a tensor, workspace or auxiliary array; 0 when there is none.

        A tensor without elements has the address where it would be, between guards: kernels want a pointer even to no keys.
        """
        if name in self.auxiliaries:
            return self.auxiliaries[name]
        bound = self.tensors.get(name)
        return 0 if bound is None else self.arena + bound.offset

    def rows(self, name: str) -> Strides:
        """Strides of q, k, v, o, do and the gradients, or of an appended tensor."""
        out = name in ("o", "do")
        return row_strides(self.tensor(name), self.problem.layout_out if out else self.problem.layout)

    def keys(self, name: str) -> Strides:
        """Strides of k or v, in pages or in rows."""
        return page_strides(self.tensor(name)) if self.problem.paged else self.rows(name)

    def lse(self) -> Strides:
        """Strides of lse, zeros without one."""
        return lse_strides(self.tensors["lse"]) if "lse" in self.tensors else Strides(0, 0, 0)
