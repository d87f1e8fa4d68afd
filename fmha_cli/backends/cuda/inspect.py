"""Figures about a built kernel of a ``CubinUpstream``: registers, spills, shared memory, occupancy, instructions, build."""

from __future__ import annotations

from fmha_cli.backends.cuda.tables import CubinExports, check_exports
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.entry import EntryMeta, read_meta
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.occupancy import CudaOccupancy, Demand, occupancy_of
from fmha_cli.toolchain.cuda.remarks import remarks_of
from fmha_cli.toolchain.cuda.sass import SassListing, Spills, count, mnemonics_of, spills_of
from fmha_cli.toolchain.elf import MalformedObject

_REGISTER_BYTES = 4


def inspect(upstream: CubinUpstream, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
    """The figures of ``fmha inspect``.

    - ``occupancy``: warps of one scheduler.
    - ``instructions``: counts of the instructions whose opcode is known. Where none is known, the counts are null and
      ``why`` says so.
    - ``unknown_instructions``: counts of the others, by opcode number.
    - ``extern_calls``: functions that the cubin calls and does not contain.
    - ``remarks``: the assembler's remarks in the build log about matrix code that it made slower.

    Raises:
        KernelFailure: the cubin cannot be read (B060), or does not match the host (B061, B062).
    """
    meta = read_meta(artifact.path.parent, artifact.digest)
    built = meta if isinstance(meta, EntryMeta) else None
    try:
        raw = artifact.path.read_bytes()
        cubin, abi = Cubin(raw), check_exports(raw, kernel, upstream.expect_exports(kernel))
        mnemonics = mnemonics_of(cubin.capability)
        listing, spills = count(abi.kernel.code, mnemonics), spills_of(abi.kernel, mnemonics)
    except (MalformedObject, OSError) as fault:
        raise KernelFailure(
            "the kernel's cubin cannot be read",
            code="B060",
            where=str(artifact.path),
            why=str(fault),
            help="`fmha cache verify --fix`, then build again",
        ) from fault
    return {
        **summary(abi, listing, spills),
        "extern_calls": list(cubin.extern_calls),
        "remarks": list(_remarks(artifact)) or None,
        "compile_peak_bytes": built.peak_bytes if built else None,
        "compiler": str(built.parts["toolchain_version"]) if built else None,
        "cubin_bytes": len(raw),
        "template": upstream.template(kernel),
    }


def cubin_figures(raw: bytes, arch: str, threads: int, smem_bytes: int) -> dict[str, object]:
    """The figures of ``fmha inspect`` for a cubin of one kernel that exports no tables.

    Args:
        threads: threads of a block, as the host launches it.
        smem_bytes: dynamic shared memory of a launch.

    Raises:
        KernelFailure: B060, the cubin cannot be read, or holds several kernels.
    """
    try:
        cubin = Cubin(raw)
        (kernel,) = cubin.kernels
        mnemonics = mnemonics_of(cubin.capability)
        demand = Demand(registers=kernel.registers, threads=threads, shared_bytes=kernel.shared_bytes + smem_bytes)
        abi = CubinExports(
            arch=cubin.arch,
            tool_version=cubin.tool_version,
            version=0,
            block_bytes=kernel.parameter_bytes,
            fields=(),
            facts={},
            threads=threads,
            smem_bytes=smem_bytes,
            kernel=kernel,
            occupancy=occupancy_of(demand, load_arch(arch)),
        )
        found = summary(abi, count(kernel.code, mnemonics), spills_of(kernel, mnemonics))
    except (MalformedObject, ValueError) as fault:
        raise KernelFailure("the cubin cannot be read", code="B060", why=str(fault)) from fault
    return {**found, "extern_calls": list(cubin.extern_calls), "cubin_bytes": len(raw)}


def parameter_places(raw: bytes) -> tuple[tuple[int, int], ...]:
    """(offset, bytes) of every argument of a cubin's only kernel, as its compiler recorded them.

    Raises:
        KernelFailure: B060, the cubin cannot be read, or holds several kernels.
    """
    try:
        (kernel,) = Cubin(raw).kernels
    except (MalformedObject, ValueError) as fault:
        raise KernelFailure("the cubin cannot be read", code="B060", why=str(fault)) from fault
    return tuple((parameter.offset, parameter.size) for parameter in kernel.parameters)


def summary(abi: CubinExports, listing: SassListing, spills: Spills) -> dict[str, object]:
    """The figures that the cubin alone gives."""
    kernel = abi.kernel
    known = bool(listing.instructions)
    return {
        "registers": {"gpr": kernel.registers},
        "spills": {
            # A register that is spilled in two places counts twice.
            "gpr": spills.store_bytes // _REGISTER_BYTES,
            "stores": spills.stores,
            "loads": spills.loads,
            "store_bytes": spills.store_bytes,
            "load_bytes": spills.load_bytes,
        },
        "spills_noted": spills.noted,
        "shared_bytes": kernel.shared_bytes + abi.smem_bytes,
        "shared_static_bytes": kernel.shared_bytes,
        "shared_dynamic_bytes": abi.smem_bytes,
        "occupancy": abi.occupancy.warps_per_scheduler,
        "occupancy_limits": _bounds(abi.occupancy),
        "instructions": dict(listing.instructions) if known else None,
        "unknown_instructions": dict(listing.unknown) or None,
        "matrix_instructions": listing.classes["matrix"] if known else None,
        "instruction_classes": {**listing.classes, "total": listing.total} if known else None,
        "code_bytes": listing.code_bytes,
        "scratch_bytes": kernel.stack_bytes + kernel.local_bytes,
        "kernarg_bytes": kernel.parameter_bytes,
        "work_group": abi.threads,
        "assembler": abi.tool_version,
        "target": abi.arch,
        "why": None if known else f"none of the {listing.total} instructions has an opcode that fmha knows",
    }


def _remarks(artifact: Artifact) -> tuple[str, ...]:
    try:
        return remarks_of(artifact.log.read_text("utf-8", "replace"))
    except FileNotFoundError:
        return ()


def _bounds(fit: CudaOccupancy) -> dict[str, object]:
    return {
        "limited_by": list(fit.limited_by),
        "blocks": fit.blocks,
        "warps": fit.warps,
        "fraction": fit.fraction,
        "registers": fit.by_registers,
        "shared": fit.by_shared,
        "most": fit.most_warps,
    }
