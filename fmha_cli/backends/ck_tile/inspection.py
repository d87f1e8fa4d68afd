"""Figures of a built CK-Tile kernel: registers, spills, LDS, occupancy, instructions, and how it was compiled."""

from __future__ import annotations

import shlex
from pathlib import Path

from fmha_cli.backends.hip.inspection import NO_OBJDUMP as NO_OBJDUMP
from fmha_cli.backends.hip.inspection import listing_of, summary
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.entry import EntryMeta, read_meta
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.rocm.candidates import llvm_tool
from fmha_cli.toolchain.rocm.metadata import kernels
from fmha_cli.toolchain.rocm.occupancy import limits_of
from fmha_cli.toolchain.rocm.offload import CodeObject, code_objects


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
    listing, why = listing_of(code.data, llvm_tool("llvm-objdump", compiler))
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


def _unreadable(library: Path, why: str) -> KernelFailure:
    return KernelFailure(
        "the built library cannot be read",
        code="B041",
        where=str(library),
        why=why,
        help="`fmha cache verify --fix`, then build again; FMHA_HIPCC names another compiler",
    )
