"""What a built FlashAttention kernel needs: registers, spills, shared memory, occupancy, instructions, and its build."""

from __future__ import annotations

from fmha_cli.backends.flash_attn.abi import CubinAbi, check_abi
from fmha_cli.backends.flash_attn.upstream_names import template_text
from fmha_cli.build.cuda.cubin import Cubin
from fmha_cli.build.cuda.occupancy import Occupancy
from fmha_cli.build.cuda.sass import Listing, Spills, count, mnemonics_of, spills_of
from fmha_cli.build.elf import MalformedObject
from fmha_cli.build.entry import EntryMeta, read_meta
from fmha_cli.errors import KernelFailure
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact

_REGISTER_BYTES = 4


def inspect_fa(kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
    """The figures of ``fmha inspect``.

    ``occupancy`` is warps of one scheduler, like CK-Tile's waves of one SIMD. ``instructions`` are those whose opcode
    is known; the others are in ``unknown_instructions`` by their number. Where none is known the counts are null and
    ``why`` says so.

    Raises:
        KernelFailure: the cubin cannot be read (B060), or does not agree with the host (B061, B062).
    """
    meta = read_meta(artifact.path.parent, artifact.digest)
    built = meta if isinstance(meta, EntryMeta) else None
    try:
        cubin = artifact.path.read_bytes()
        abi = check_abi(cubin, kernel)
        mnemonics = mnemonics_of(Cubin(cubin).capability)
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
        "compile_peak_bytes": built.peak_bytes if built else None,
        "compiler": str(built.parts["toolchain_version"]) if built else None,
        "cubin_bytes": len(cubin),
        "template": template_text(kernel),
    }


def summary(abi: CubinAbi, listing: Listing, spills: Spills) -> dict[str, object]:
    """The figures of the cubin itself."""
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
        "work_group": abi.facts["kNThreads"],
        "assembler": abi.tool_version,
        "target": abi.arch,
        "why": None if known else f"none of the {listing.total} instructions has an opcode that fmha knows",
    }


def _bounds(fit: Occupancy) -> dict[str, object]:
    return {
        "limited_by": list(fit.limited_by),
        "blocks": fit.blocks,
        "warps": fit.warps,
        "fraction": fit.fraction,
        "registers": fit.by_registers,
        "shared": fit.by_shared,
        "most": fit.most_warps,
    }
