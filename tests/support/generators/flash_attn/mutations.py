"""Kernels that differ from a FlashAttention kernel in one field, set to any value of its type or nearby numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from enum import Enum
from typing import Any

from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.kernel import Family, KernelSpec

ARCHS = tuple(name for name in arch_names() if "flash_attn" in load_arch(name).backends)


def near_values(value: Any) -> Iterator[Any]:
    """Other values for a field."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, Enum):
        yield from (other for other in type(value) if other is not value)
    elif isinstance(value, int):
        yield from {value + 1, value - 1, value + 8, value * 2, value // 2, 0, -1, 4, 32, 96, 192} - {value}
    elif isinstance(value, tuple):
        for at, number in enumerate(value):
            for other in {number * 2, number // 2, number + 1, 0} - {number}:
                yield (*value[:at], other, *value[at + 1 :])
        yield from {value[:-1], (*value, 1), ()} - {value}


def mutations(kernel: KernelSpec) -> Iterator[tuple[str, KernelSpec]]:
    """Yields (field, kernel with that field changed)."""
    for family in Family:
        if family is not kernel.family:
            yield "family", replace(kernel, family=family)
    for arch in (*ARCHS, "gfx942", "x86_64_v4", "sm_75"):
        if arch != kernel.arch:
            yield "arch", replace(kernel, arch=arch)
    for part in ("signature", "algorithm"):
        noun = getattr(kernel, part)
        for field in fields(noun):
            for value in near_values(getattr(noun, field.name)):
                yield field.name, replace(kernel, **{part: replace(noun, **{field.name: value})})
