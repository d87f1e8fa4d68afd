"""The emulated devices, and ``core/device_rows.hpp``: their facts as C++.

``arch_specs/`` states multiprocessors, shared memory and launch limits of every architecture. The library takes them from
there when it is built.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import Any

from fmha_cli.plugin import load_arch

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120")
"""The emulated architectures."""
SUFFIXED = {"sm_120": ("sm_120a",)}
"""Architectures with the suffix ``a`` whose code a device accepts too: Triton compiles for ``sm_120a`` alone. Where such code
uses an instruction that is not emulated, the load stops with its line."""


@dataclass(frozen=True)
class EmulatedDevice:
    """One emulated device: the fields of ``DeviceRow`` in ``core/driver.hpp``, in its order.

    Attributes:
        shared_block: bytes of shared memory that a block has without opting in.
        shared_optin: bytes that it may opt in to.
        shared_unit, threads_unit, blocks_unit, registers_unit: of one multiprocessor.
    """

    name: str
    title: str
    major: int
    minor: int
    units: int
    shared_block: int
    shared_optin: int
    shared_unit: int
    threads_unit: int
    blocks_unit: int
    registers_unit: int
    l2_bytes: int


def device_of(arch: str) -> EmulatedDevice:
    """The device of an architecture: its reference product.

    Raises:
        InternalError: a fact is missing.
    """
    spec = load_arch(arch)

    def fact(name: str) -> Any:
        return spec.fact(name)

    major, minor = fact("compute_capability")
    return EmulatedDevice(
        name=arch,
        title=fact("product"),
        major=major,
        minor=minor,
        units=fact("sm_count"),
        shared_block=fact("shared_per_block"),
        shared_optin=fact("shared_per_block_optin"),
        shared_unit=fact("shared_per_sm"),
        threads_unit=fact("max_threads_per_sm"),
        blocks_unit=fact("max_blocks_per_sm"),
        registers_unit=fact("registers_per_sm"),
        l2_bytes=fact("llc_bytes"),
    )


def device_rows() -> str:
    """The text of ``core/device_rows.hpp``: one ``DeviceRow`` for each device."""
    rows = (", ".join(json.dumps(value) for value in astuple(device_of(arch))) for arch in ARCHS)
    table = "".join(f"    {{{row}}},\n" for row in rows)
    return (
        '// Made from arch_specs/ by device_facts.py.\n#pragma once\n\n#include "driver.hpp"\n\nnamespace ptx {\n'
        f"constexpr DeviceRow kDeviceRows[] = {{\n{table}}};\n}}  // namespace ptx\n"
    )
