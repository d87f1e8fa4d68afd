"""The refusal of a kernel that is in no list: how the nearest listed kernel differs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from operator import attrgetter, ne
from typing import Any

from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Refusal


def find_nearest(kernel: KernelSpec, listed: Collection[KernelSpec]) -> Refusal | None:
    """The refusal of a kernel that is not listed for its architecture. It names the listed kernel that differs least; None if it is listed."""
    if kernel in listed:
        return None
    signatures, algorithms = (_gaps(kernel, attrgetter(part), listed) for part in ("signature", "algorithm"))
    distances = [
        signatures[id(other.signature)] + algorithms[id(other.algorithm)] + (other.family is not kernel.family)
        for other in listed
    ]
    least = min(distances)
    near = (other for other, far in zip(listed, distances, strict=True) if far == least)
    mine, theirs = _values(kernel), _values(min(near, key=attrgetter("name")))
    off = [name for name, value in mine.items() if value != theirs[name]]
    have, want = (", ".join(f"{name} {field_text(values[name])}" for name in off) for values in (mine, theirs))
    return Refusal(f"{have}: there is no such kernel", want)


def _gaps(
    kernel: KernelSpec, part_of: Callable[[KernelSpec], Any], listed: Collection[KernelSpec]
) -> Mapping[int, int]:
    """The number of fields in which each part of the listed kernels differs, by ``id``: many kernels share a part, which is compared once."""
    mine = part_of(kernel)
    read = attrgetter("__class__", *_names(mine))  # of two names or more, which make a tuple
    values = read(mine)
    parts = {id(part): part for part in map(part_of, listed)}
    return {key: sum(map(ne, values, read(part))) for key, part in parts.items()}


def _values(kernel: KernelSpec) -> Mapping[str, Any]:
    """The fields of a kernel, of its signature and of its algorithm, in their order."""
    parts = (kernel, kernel.signature, kernel.algorithm)
    values = {name: getattr(part, name) for part in parts for name in _names(part)}
    return {name: value for name, value in values.items() if name not in ("signature", "algorithm")}


def _names(part: Any) -> list[str]:
    return [field.name for field in fields(part)]
