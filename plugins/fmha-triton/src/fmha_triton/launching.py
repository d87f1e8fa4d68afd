"""What both vendors' sessions do: images of the stages, their grids, and the bytes of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli import api
from fmha_triton.arguments import values_of
from fmha_triton.emit import divisible
from fmha_triton.image import Image, read_image
from fmha_triton.plan import shape_of


@dataclass(frozen=True)
class Prepared:
    """One launch: its grid, and the arguments as the kernel takes them."""

    grid: tuple[int, int, int]
    data: bytes

    @property
    def empty(self) -> bool:
        """Whether there is no program to run."""
        return 0 in self.grid


def images_of(plan: api.Plan, artifacts: Sequence[Path]) -> dict[api.Stage, Image]:
    """The image of every stage."""
    return {stage: read_image(path) for stage, path in zip(plan.stages, artifacts, strict=True)}


def prepared(stage: api.Stage, image: Image, call: api.Call[None]) -> Prepared:
    """The launch of a stage.

    Raises:
        KernelFailure: K973, a stride or an address is not what the compiler was told.
    """
    values = values_of(stage.kernel, call, call.plan.splits)
    check_divisible(stage.kernel, values)
    return Prepared(shape_of(call.problem, stage.kernel, call.plan.splits).grid, image.packed(values))


def check_divisible(kernel: api.KernelSpec, values: Mapping[str, int | float]) -> None:
    """Refuse values that break a promise to the compiler, which would read and write at wrong places.

    Raises:
        KernelFailure: K973.
    """
    odd = [f"{name} {values[name]}" for name, step in divisible(kernel).items() if values[name] % step]
    if odd:
        raise api.KernelFailure(
            f"{', '.join(odd)}: not a multiple of what the kernel is compiled for",
            code="K973",
            where=kernel.name,
            help="rows, heads and sequences must start at multiples of 16 bytes",
        )
