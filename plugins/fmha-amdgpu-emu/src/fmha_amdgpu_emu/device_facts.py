"""The emulated devices: what they are, from the facts of their architectures, and the table that the core is built with."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.api import limits_of, load_arch

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
"""Architectures that the core knows, in the order of its ``Arch``."""

_FEATURES = {"gfx90a": ":sramecc+:xnack-", "gfx942": ":sramecc+:xnack-", "gfx950": ":sramecc+:xnack-"}
"""How devices of these are set up; the others have no such features (LLVM AMDGPU backend guide, "Target ID")."""


@dataclass(frozen=True, kw_only=True)
class EmulatedDevice:
    """One emulated device.

    Attributes:
        target: with feature flags, as HIP says it. major, minor: of the architecture's number.
        units: as HIP counts them: compute units; on RDNA workgroup processors of two.
        lds_of_group, lds_of_unit: bytes. unit_registers: VGPRs of all lanes of a unit.
    """

    arch: str
    target: str
    major: int
    minor: int
    wave: int
    units: int
    lds_of_group: int
    lds_of_unit: int
    group_threads: int
    unit_threads: int
    unit_registers: int
    unit_groups: int


def device_of(arch: str) -> EmulatedDevice:
    """The device of an architecture.

    Raises:
        InternalError: the facts are incomplete.
    """
    spec, limits = load_arch(arch), limits_of(arch)
    assert limits is not None  # every architecture of ARCHS has them; a test asks
    wave = int(spec.fact("wavefront_size"))
    digits = arch.removeprefix("gfx")
    return EmulatedDevice(
        arch=arch,
        target=arch + _FEATURES.get(arch, ""),
        major=int(digits[:-2]),
        minor=int(digits[-2], 16),
        wave=wave,
        units=int(spec.fact("compute_units")) // (1 if wave == 64 else 2),
        lds_of_group=int(spec.fact("lds_bytes")),
        lds_of_unit=limits.lds_bytes,
        group_threads=int(spec.fact("max_threads_per_block")),
        unit_threads=limits.waves * limits.simds * wave,
        unit_registers=limits.vgprs * limits.simds * wave,
        unit_groups=limits.groups,
    )


def device_table() -> str:
    """The C++ text of ``kDevices`` (``core/emulated_devices.hpp``)."""
    rows = []
    for arch in ARCHS:
        d = device_of(arch)
        numbers = (
            d.major, d.minor, d.wave, d.units, d.lds_of_group, d.lds_of_unit, d.group_threads, d.unit_threads,
            d.unit_registers, d.unit_groups,
        )  # fmt: skip
        rows.append(f'    {{"{d.arch}", "{d.target}", Arch::{d.arch}, {", ".join(map(str, numbers))}}},')
    return "\n".join(
        (
            '#include "emulated_devices.hpp"',
            "",
            "namespace emu {",
            "",
            "const DeviceRow kDevices[] = {",
            *rows,
            "};",
            f"const int kDeviceCount = {len(rows)};",
            "",
            "}  // namespace emu",
            "",
        )
    )
