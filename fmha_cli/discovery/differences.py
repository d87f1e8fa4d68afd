"""The fields in which two kernels differ."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import KernelSpec


@dataclass(frozen=True, kw_only=True)
class FieldDifference:
    """A field in which two kernels differ, with the values as names write them."""

    part: str
    field: str
    a: str
    b: str


def differences(a: KernelSpec, b: KernelSpec) -> tuple[FieldDifference, ...]:
    """Every field in which two kernels differ. A field that one of them lacks is empty there."""
    out = []
    for part, one, two in (
        ("kernel", a, b),
        ("signature", a.signature, b.signature),
        ("algorithm", a.algorithm, b.algorithm),
    ):
        fields = dict.fromkeys((*_values(one, part), *_values(two, part)))
        for name in fields:
            values = [_values(noun, part).get(name, "") for noun in (one, two)]
            out += [FieldDifference(part=part, field=name, a=values[0], b=values[1])] if values[0] != values[1] else []
    return tuple(out)


def _values(noun: object, part: str) -> dict[str, str]:
    names = ("backend", "family", "arch") if part == "kernel" else tuple(vars(noun))
    return {name: field_text(getattr(noun, name)) for name in names if not name.startswith("_")}
