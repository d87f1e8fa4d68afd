"""The emulated devices, and ``core/arch_facts.hpp``: the facts of their architectures as C++.

Two files are the sources. ``core/arch_traits.hpp`` lists the emulated architectures and how their instructions
behave. ``arch_specs/`` states the wave size, LDS and compute units of every architecture, emulated or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

from fmha_cli.plugin import limits_of, load_arch

_ROW = re.compile(r'^\s*\.name = "(\w+)"', re.MULTILINE)
_HALVES = ["fp16", "bf16"]


@dataclass(frozen=True, kw_only=True)
class EmulatedDevice:
    """One emulated device: the fields of ``ArchFacts`` in ``core/arch_traits.hpp``, in its order.

    Attributes:
        major: of the ISA version.
        minor: of the ISA version.
        wave: lanes of a wave by default.
        units: compute units, or on RDNA workgroup processors (pairs of compute units), as HIP counts them.
        lds_of_group: bytes that one workgroup may have.
        lds_of_unit: bytes of one unit.
        lds_banks: banks of one dword.
        group_threads: threads that one workgroup may have.
        unit_threads: threads resident in one unit.
        unit_registers: VGPRs of all lanes of a unit.
        unit_groups: workgroups resident in one unit.
        fnuz: fp8 and bf8 are the FNUZ formats.
        matrix_flushes_halves: matrix products of f16 and bf16 treat subnormal numbers as zeros.
    """

    major: int
    minor: int
    wave: int
    units: int
    lds_of_group: int
    lds_of_unit: int
    lds_banks: int
    group_threads: int
    unit_threads: int
    unit_registers: int
    unit_groups: int
    fnuz: bool
    matrix_flushes_halves: bool


@cache
def emulated_archs() -> tuple[str, ...]:
    """The architectures that the core knows, in the order of its table."""
    table = resources.files("fmha_amdgpu_emu").joinpath("core", "arch_traits.hpp").read_text("utf-8")
    return tuple(_ROW.findall(table))


def device_of(arch: str) -> EmulatedDevice:
    """The device of an architecture.

    Raises:
        InternalError: a fact is missing.
        ValueError: the occupancy limits are missing, or the core cannot express a fact.
    """
    spec, limits = load_arch(arch), limits_of(arch)
    if limits is None:
        raise ValueError(f"arch_specs/_amdgpu_occupancy.json has no row for {arch}")
    flushed = _optional(spec.facts, "matrix_flushes_subnormals", [])
    if flushed not in ([], _HALVES):
        raise ValueError(f"{arch}: the core has no matrix products that flush {flushed} alone")
    wave, version = int(spec.fact("wavefront_size")), int(spec.fact("isa_version"))
    return EmulatedDevice(
        major=version // 1000,
        minor=version // 100 % 10,
        wave=wave,
        units=int(spec.fact("compute_units")) // (1 if wave == 64 else 2),
        lds_of_group=int(spec.fact("lds_bytes")),
        lds_of_unit=limits.lds_bytes,
        lds_banks=int(spec.fact("lds_banks")),
        group_threads=int(spec.fact("max_threads_per_block")),
        unit_threads=limits.waves * limits.simds * wave,
        unit_registers=limits.vgprs * limits.simds * wave,
        unit_groups=limits.groups,
        fnuz=_optional(spec.facts, "fp8_encoding", "ocp") == "fnuz",
        matrix_flushes_halves=flushed == _HALVES,
    )


def arch_facts() -> str:
    """The text of ``core/arch_facts.hpp``: one ``ArchFacts`` for each row of the table."""
    rows = []
    for arch in emulated_archs():
        fields = ", ".join(f".{name} = {str(value).lower()}" for name, value in asdict(device_of(arch)).items())
        rows.append(f"inline constexpr ArchFacts {arch}{{{fields}}};")
    head = "// Made from arch_specs/ by device_facts.py."
    return "\n".join((head, "#pragma once", "", "namespace emu::facts {", *rows, "}  // namespace emu::facts", ""))


def _optional(facts: Mapping[str, Mapping[str, Any]], name: str, otherwise: Any) -> Any:
    return facts[name]["value"] if name in facts else otherwise
