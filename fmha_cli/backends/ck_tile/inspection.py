"""Figures of a built CK-Tile kernel: registers, spills, LDS, occupancy, instructions, and how it was compiled."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.entry import EntryMeta, read_meta
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.rocm.candidates import llvm_tool
from fmha_cli.toolchain.rocm.disassembly import DisassemblyError, Listing, disassemble
from fmha_cli.toolchain.rocm.metadata import KernelMetadata, kernels
from fmha_cli.toolchain.rocm.occupancy import Limits, Occupancy, limits_of, occupancy_of
from fmha_cli.toolchain.rocm.offload import CodeObject, code_objects

NO_OBJDUMP = "llvm-objdump is not installed (Debian and Ubuntu: apt install llvm-22)"


def inspect_ck(kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
    """The figures of ``fmha inspect``.

    A library may hold several GPU kernels: the variants among which its host code chooses by run-time values.
    Registers, spills, LDS and scratch are then the maximum over the kernels, occupancy is the minimum, and
    instructions are the sum. ``kernels`` lists each kernel separately. Without a disassembler the counts are null and
    ``why`` says so.

    Raises:
        KernelFailure: the library holds no code for the kernel's architecture, or its code cannot be read.
    """
    meta = read_meta(artifact.path.parent, artifact.digest)
    built = meta if isinstance(meta, EntryMeta) else None
    command = shlex.split(str(built.parts["toolchain_path"])) if built else []
    compiler = Path(command[0]) if command else None
    code = device_code(artifact.path, kernel.arch)
    try:
        found = kernels(code.data)
    except MalformedObject as fault:
        raise _unreadable(artifact.path, str(fault)) from fault
    listing, why = _listing(code.data, llvm_tool("llvm-objdump", compiler))
    return {
        **summary(found, limits_of(kernel.arch), listing),
        "compile_peak_bytes": built.peak_bytes if built else None,
        "compiler": str(built.parts["toolchain_version"]) if built else None,
        "target": code.target,
        "why": why,
    }


def device_code(library: Path, arch: str) -> CodeObject:
    """The code object for an architecture in a built library.

    Raises:
        KernelFailure: the library cannot be read, or it holds no code object for the architecture.
    """
    try:
        found = code_objects(library.read_bytes())
    except (MalformedObject, OSError) as fault:
        raise _unreadable(library, str(fault)) from fault
    code = next((item for item in found if item.arch == arch), None)
    if code is None:
        targets = ", ".join(item.target for item in found) or "none"
        raise _unreadable(library, f"it holds code for {targets}, not for {arch}")
    return code


def summary(found: Sequence[KernelMetadata], limits: Limits | None, listing: Listing | None) -> dict[str, object]:
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


def _bounds(fit: Occupancy) -> dict[str, object]:
    return {
        "limited_by": list(fit.limited_by),
        "groups": fit.groups,
        "vgpr": fit.vgpr,
        "sgpr": fit.sgpr,
        "lds": fit.lds,
        "most": fit.most,
    }


def _each(kernel: KernelMetadata, fit: Occupancy | None, listing: Listing | None) -> dict[str, object]:
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


def _listing(code: bytes, objdump: Path | None) -> tuple[Listing | None, str | None]:
    """(disassembly, None), or (None, the reason why there is none)."""
    if objdump is None:
        return None, NO_OBJDUMP
    try:
        return disassemble(code, objdump), None
    except (DisassemblyError, MalformedObject) as fault:
        return None, str(fault)


def _unreadable(library: Path, why: str) -> KernelFailure:
    return KernelFailure(
        "the built library cannot be read",
        code="B041",
        where=str(library),
        why=why,
        help="`fmha cache verify --fix`, then build again; FMHA_HIPCC names another compiler",
    )
