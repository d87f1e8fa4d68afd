"""Figures of the kernels of an AMD code object: registers, spills, LDS, occupancy, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fmha_cli.domain.errors import KernelFailure
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.rocm.candidates import llvm_tool
from fmha_cli.toolchain.rocm.disassembly import AmdListing, DisassemblyError, disassemble
from fmha_cli.toolchain.rocm.metadata import KernelMetadata, kernels
from fmha_cli.toolchain.rocm.occupancy import AmdOccupancy, OccupancyLimits, limits_of, occupancy_of

NO_OBJDUMP = "llvm-objdump is not installed (Debian and Ubuntu: apt install llvm-22)"


def code_object_figures(code: bytes, arch: str, dynamic_lds: int = 0) -> dict[str, object]:
    """The figures of ``fmha inspect`` for a code object without a host library.

    Args:
        dynamic_lds: bytes of LDS that a launch adds; the code object does not hold them.

    Raises:
        KernelFailure: B041, it cannot be read, or holds no kernel.
    """
    try:
        found = tuple(replace(kernel, lds_bytes=kernel.lds_bytes + dynamic_lds) for kernel in kernels(code))
    except MalformedObject as fault:
        raise KernelFailure("the code object cannot be read", code="B041", why=str(fault)) from fault
    listing, why = listing_of(code, llvm_tool("llvm-objdump"))
    return {**summary(found, limits_of(arch), listing), "why": why}


def summary(
    found: Sequence[KernelMetadata], limits: OccupancyLimits | None, listing: AmdListing | None
) -> dict[str, object]:
    """The figures of the kernels of one code object.

    Raises:
        KernelFailure: there are no kernels.
    """
    if not found:
        raise KernelFailure("the code object holds no kernel", code="B041")
    fits = [None if limits is None else occupancy_of(kernel, limits) for kernel in found]
    known = [fit for fit in fits if fit is not None]
    tightest = min(known, key=lambda fit: fit.waves_per_simd, default=None)
    return {
        "registers": _registers(found),
        "spills": {
            "vgpr": max(kernel.vgpr_spills for kernel in found),
            "sgpr": max(kernel.sgpr_spills for kernel in found),
        },
        "lds_bytes": max(kernel.lds_bytes for kernel in found),
        "occupancy": None if tightest is None else tightest.waves_per_simd,
        "occupancy_limits": None if tightest is None else _bounds(tightest),
        "instructions": None if listing is None else dict(listing.instructions),
        "matrix_instructions": None if listing is None else listing.classes["matrix"],
        "instruction_classes": None if listing is None else {**listing.classes, "total": listing.total},
        "code_bytes": None if listing is None else listing.code_bytes,
        "scratch_bytes": max(kernel.scratch_bytes for kernel in found),
        "dynamic_stack": any(kernel.dynamic_stack for kernel in found),
        "kernarg_bytes": max(kernel.kernarg_bytes for kernel in found),
        "work_group": max(kernel.block for kernel in found),
        "wave": max(kernel.wave for kernel in found),
        "kernels": [_each(kernel, fit, listing) for kernel, fit in zip(found, fits, strict=True)],
    }


def _registers(found: Sequence[KernelMetadata]) -> dict[str, int]:
    return {
        "vgpr": max(kernel.vgprs for kernel in found),
        "agpr": max(kernel.agprs for kernel in found),
        "sgpr": max(kernel.sgprs for kernel in found),
    }


def _bounds(fit: AmdOccupancy) -> dict[str, object]:
    return {
        "limited_by": list(fit.limited_by),
        "groups": fit.groups,
        "vgpr": fit.vgpr,
        "sgpr": fit.sgpr,
        "lds": fit.lds,
        "most": fit.most,
    }


def _each(kernel: KernelMetadata, fit: AmdOccupancy | None, listing: AmdListing | None) -> dict[str, object]:
    return {
        "symbol": kernel.name,
        "registers": _registers([kernel]),
        "spills": {"vgpr": kernel.vgpr_spills, "sgpr": kernel.sgpr_spills},
        "lds_bytes": kernel.lds_bytes,
        "scratch_bytes": kernel.scratch_bytes,
        "kernarg_bytes": kernel.kernarg_bytes,
        "occupancy": None if fit is None else fit.waves_per_simd,
        "instructions": None if listing is None else listing.functions.get(kernel.name),
    }


def listing_of(code: bytes, objdump: Path | None) -> tuple[AmdListing | None, str | None]:
    """(disassembly, None), or (None, the reason why there is none)."""
    if objdump is None:
        return None, NO_OBJDUMP
    try:
        return disassemble(code, objdump), None
    except (DisassemblyError, MalformedObject) as fault:
        return None, str(fault)
