"""The refusal of a kernel that is in no list: how the nearest listed kernel differs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal


def find_nearest(kernel: KernelSpec, listed: Collection[KernelSpec]) -> Refusal | None:
    """The refusal of a kernel that is not listed. It names the listed kernel that differs least; None if it is listed."""
    if kernel in listed:
        return None
    mine, gaps = _values(kernel), dict[int, int]()
    names = {id(part): _names(part) for part in (kernel.signature, kernel.algorithm)}

    def gap(part: Any, other: Any) -> int:  # many kernels share such a part, which is compared once
        if id(other) not in gaps:
            gaps[id(other)] = sum([getattr(part, name) != getattr(other, name) for name in names[id(part)]])
        return gaps[id(other)]

    def distance(other: KernelSpec) -> int:
        outside = (kernel.backend != other.backend) + (kernel.family != other.family) + (kernel.arch != other.arch)
        return outside + gap(kernel.signature, other.signature) + gap(kernel.algorithm, other.algorithm)

    distances = [distance(other) for other in listed]
    least = min(distances)
    near = (other for other, far in zip(listed, distances, strict=True) if far == least)
    theirs = _values(min(near, key=attrgetter("name")))
    off = [name for name, value in mine.items() if value != theirs[name]]
    have, want = (", ".join(f"{name} {field_text(values[name])}" for name in off) for values in (mine, theirs))
    return Refusal(f"{have}: there is no such kernel", want)


def _values(kernel: KernelSpec) -> Mapping[str, Any]:
    """The fields of a kernel, of its signature and of its algorithm, in their order."""
    parts = (kernel, kernel.signature, kernel.algorithm)
    values = {name: getattr(part, name) for part in parts for name in _names(part)}
    return {name: value for name, value in values.items() if name not in ("signature", "algorithm")}


def _names(part: Any) -> list[str]:
    return [field.name for field in fields(part)]
