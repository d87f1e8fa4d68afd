"""Kernels that differ from a kernel in one field, which takes every value of its type or nearby numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from enum import Enum
from random import Random
from typing import Any

from fmha_cli.backends.ck_tile.catalogue import family_kernels
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec

ARCHS = {
    "baseline": ("gfx90a", "gfx942", "gfx950", "gfx1201"),
    "2026-08": ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250"),
}
EVERY_ARCH = (*ARCHS["2026-08"], "x86_64_v4", "gfx000")
Place = tuple[str, str, Family]
PLACES = [(revision, arch, family) for revision, archs in ARCHS.items() for arch in archs for family in Family]
SOME_ARCHS = (
    ("baseline", "gfx950"),
    ("baseline", "gfx1201"),
    ("2026-08", "gfx942"),
    ("2026-08", "gfx1100"),
    ("2026-08", "gfx1250"),
)
"""One architecture of each class, and both classes in which the revisions share most. The catalogue remembers fewer
places than there are, so each pass over all of them would enumerate 180,000 kernels again; these it remembers.
"""
SOME_PLACES = [(revision, arch, family) for revision, arch in SOME_ARCHS for family in Family]


def near_values(name: str, value: Any) -> Iterator[Any]:
    """Other values for a field."""
    if name == "rev":
        yield from ("baseline", "2026-08", "2031-01")
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, Enum):
        yield from (other for other in type(value) if other is not value)
    elif isinstance(value, int):
        yield from (value + 1, value + 8, value * 2, value // 2, 0, -1, -2, 16, 128)
    elif isinstance(value, tuple):
        for at, number in enumerate(value):
            for other in (number * 2, number // 2, number + 1, 0):
                yield (*value[:at], other, *value[at + 1 :])
        yield value[:-1]
        yield (*value, 1)
        yield ()


def mutations(kernel: KernelSpec) -> Iterator[tuple[str, KernelSpec]]:
    """Yields (field, kernel with that field changed)."""
    for family in Family:
        yield "family", replace(kernel, family=family)
    for arch in EVERY_ARCH:
        yield "arch", replace(kernel, arch=arch)
    for part in ("signature", "algorithm"):
        noun = getattr(kernel, part)
        for field in fields(noun):
            for value in near_values(field.name, getattr(noun, field.name)):
                yield field.name, replace(kernel, **{part: replace(noun, **{field.name: value})})


def sampled(rng: Random, count: int, places: Sequence[Place]) -> list[KernelSpec]:
    """``count`` kernels for each place that has any."""
    out: list[KernelSpec] = []
    for revision, arch, family in places:
        kernels = family_kernels(load_arch(arch), family, revision)
        out += [rng.choice(kernels) for _ in range(count if kernels else 0)]
    return out
