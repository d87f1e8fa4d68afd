"""``architectures.md``: every architecture with its facts, each with its source."""

from __future__ import annotations

import json

from fmha_cli.domain.arch import ArchSpec

from .installation import STAND_INS, registry
from .markdown import anchor, code, page, plain, section, table

_VENDORS = {"amd": "AMD GPUs", "nvidia": "NVIDIA GPUs", "cpu": "Processors"}


def pages() -> dict[str, str]:
    """The page of architectures."""
    about = (
        "`--arch` takes these names. `fmha archs NAME` prints the facts, which are in `arch_specs/` with their sources. "
        "`confidence` says how sure a fact is where sources were weighed."
    )
    specs = [registry().arch(name) for name in registry().arch_names() if name not in STAND_INS]
    parts = [
        section(title, _index(group), *(_arch(spec) for spec in group))
        for vendor, title in _VENDORS.items()
        if (group := [spec for spec in specs if spec.vendor == vendor])
    ]
    return {"architectures.md": page("Architectures", about, *parts)}


def _index(specs: list[ArchSpec]) -> str:
    rows = (
        (f"[`{s.name}`](#{anchor(s.name)})", plain(s.title), ", ".join(code(name) for name in backends_of(s.name)))
        for s in specs
    )
    return table(("architecture", "hardware", "backends"), rows)


def backends_of(arch: str) -> list[str]:
    """The backends that have kernels for an architecture."""
    return [name for name, one in registry().backends.items() if name not in STAND_INS and arch in one.archs()]


def _arch(spec: ArchSpec) -> str:
    rows = (
        (code(name), _value(fact["value"]), plain(str(fact["source"])), plain(str(fact.get("confidence", ""))))
        for name, fact in sorted(spec.facts.items())
    )
    return section(spec.name, plain(spec.title) + ".", table(("fact", "value", "source", "confidence"), rows), level=3)


def _value(value: object) -> str:
    if isinstance(value, bool | int | float | str):
        return code(str(value).lower() if isinstance(value, bool) else value)
    return code(json.dumps(value, ensure_ascii=False))
