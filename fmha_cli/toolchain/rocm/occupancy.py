"""The number of waves of a kernel that fit on one SIMD, and the limit.

With ``v`` VGPRs of a lane (unified file: AGPRs included), ``s`` SGPRs, ``w`` waves of a work-group, ``l`` bytes of LDS:

- registers: ``min(waves, vgprs // up(v, vgpr_granule), by_sgprs(s))`` waves of a SIMD.
  CDNA2 and later (gfx90a, gfx942, gfx950): one file of 512 VGPRs and AGPRs together, in steps of 8, at most 8 waves;
  above 100 SGPRs 7 waves. RDNA3/4 in wave32 (gfx1100, gfx1151, gfx1201): 1536 VGPRs in steps of 24, at most 16 waves;
  SGPRs never limit. gfx1250 in wave32: 1024 VGPRs in steps of 16, at most 16 waves.
- work-groups: ``min(registers * simds // w, lds_bytes // up(l, lds_granule), groups)``; a work-group of one wave needs
  no barrier, so ``groups`` does not hold for it. On RDNA a work-group has the four SIMDs and 128 KiB of a WGP, half of
  both in CU mode.
- waves per SIMD = work-groups * w / simds.

The constants are data (``arch_specs/_amdgpu_occupancy.json``). Their source is LLVM, which computes the ``AmdOccupancy``
that it prints by the same formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.arch import arch_document
from fmha_cli.toolchain.rocm.metadata import KernelMetadata


@dataclass(frozen=True, kw_only=True)
class OccupancyLimits:
    """The limits of one architecture, in the units that the data file states."""

    waves: int
    simds: int
    vgprs: int
    vgpr_granule: int
    lds_bytes: int
    lds_granule: int
    groups: int
    sgpr_steps: tuple[tuple[int, int], ...]
    sgpr_least: int
    cu_mode: bool


@dataclass(frozen=True, kw_only=True)
class AmdOccupancy:
    """How a kernel fills a SIMD when it is launched with its largest work-group.

    Attributes:
        waves_per_simd: resident waves of one SIMD; a fraction where a work-group does not fill all SIMDs.
        groups: work-groups of one CU (RDNA: of one WGP, unless in CU mode).
        limited_by: the limits that prevent one more: ``vgpr``, ``sgpr``, ``lds``, ``waves`` or ``groups``.
        vgpr: waves per SIMD that the VGPRs alone allow.
        sgpr: waves per SIMD that the SGPRs alone allow.
        lds: waves per SIMD that LDS alone allows; None without LDS.
        most: the architecture's limit.
    """

    waves_per_simd: float
    groups: int
    limited_by: tuple[str, ...]
    vgpr: int
    sgpr: int
    lds: float | None
    most: int


def limits_of(arch: str) -> OccupancyLimits | None:
    """The limits of an architecture, None where they are not known.

    Raises:
        InternalError: the data file is damaged.
    """
    data = arch_document("_amdgpu_occupancy.json", "fmha.amdgpu-occupancy/1")
    row = data["archs"].get(arch)
    return (
        None if row is None else OccupancyLimits(**{**row, "sgpr_steps": tuple((s, w) for s, w in row["sgpr_steps"])})
    )


def occupancy_of(kernel: KernelMetadata, limits: OccupancyLimits) -> AmdOccupancy:
    """The occupancy of a kernel launched with its largest work-group and no dynamic LDS."""
    share = 2 if limits.cu_mode and not kernel.descriptor.wgp_mode else 1
    simds, lds_bytes = limits.simds // share, limits.lds_bytes // share
    width = -(-kernel.block // kernel.wave)
    vgpr = min(limits.waves, limits.vgprs // _up(max(1, kernel.allocated_vgprs), limits.vgpr_granule))
    sgpr = next((waves for most, waves in limits.sgpr_steps if kernel.sgprs <= most), limits.sgpr_least)
    bounds = {"vgpr": vgpr * simds // width, "sgpr": sgpr * simds // width, "waves": limits.waves * simds // width}
    if width > 1:
        bounds["groups"] = limits.groups // share
    if kernel.lds_bytes:
        bounds["lds"] = lds_bytes // _up(kernel.lds_bytes, limits.lds_granule)
    groups = min(bounds.values())
    # Registers that allow all wave slots "limit" to that number too, so the wave slots alone are named.
    tight = tuple(name for name, most in bounds.items() if most == groups)
    return AmdOccupancy(
        waves_per_simd=groups * width / simds,
        groups=groups,
        limited_by=("waves",) if "waves" in tight else tight,
        vgpr=vgpr,
        sgpr=sgpr,
        lds=bounds["lds"] * width / simds if "lds" in bounds else None,
        most=limits.waves,
    )


def _up(value: int, granule: int) -> int:
    return -(-value // granule) * granule
