"""The compiler's description of the kernels in a code object: the AMDGPU metadata note and the kernel descriptors.

Source: LLVM, "User Guide for AMDGPU Backend", sections "Code Object V5 Metadata" and "Kernel Descriptor".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from fmha_cli.domain.installation import import_modules
from fmha_cli.toolchain.elf import Elf, MalformedObject

INSTALL_HELP = "pip install 'fmha[rocm]'"
_OWNER, _NT_AMDGPU_METADATA = "AMDGPU", 32
_DESCRIPTOR = struct.Struct("<III4xq20xIIIHH4x")
_VGPR_BLOCK = 8
_TRIPLE = "amdgcn-amd-amdhsa-"


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """The 64 bytes that the hardware reads before a launch.

    Attributes:
        lds_bytes: static LDS of a work-group.
        scratch_bytes: scratch of a work-item.
        kernarg_bytes: size of the arguments.
        entry: address of the first instruction.
        vgpr_blocks: registers of a work-item in blocks of eight (``GRANULATED_WORKITEM_VGPR_COUNT`` + 1).
        accum_offset: first accumulation register in the unified file of CDNA2 and later; meaningless elsewhere.
        wgp_mode: on RDNA, whether a work-group may use both CUs of a WGP.
    """

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry: int
    vgpr_blocks: int
    accum_offset: int
    wgp_mode: bool


@dataclass(frozen=True, kw_only=True)
class KernelMetadata:
    """One kernel of a code object.

    Attributes:
        name: the function's symbol.
        vgprs: vector registers of a work-item, on which occupancy depends. In a unified file (CDNA2 and later) they
            include the ``agprs`` and the gap before them.
        agprs: accumulation registers among them; 0 where the architecture has none.
        sgprs: scalar registers of a wave.
        vgpr_spills: VGPRs that the compiler spilled.
        sgpr_spills: SGPRs that the compiler spilled, first to lanes of VGPRs.
        lds_bytes: static LDS of a work-group.
        scratch_bytes: private memory of a work-item.
        kernarg_bytes: size of the arguments.
        block: the most work-items of a work-group.
        wave: lanes of a wave.
        dynamic_stack: whether ``scratch_bytes`` is only a lower bound.
        descriptor: the description that the hardware reads.
    """

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    block: int
    wave: int
    dynamic_stack: bool
    descriptor: Descriptor

    @property
    def allocated_vgprs(self) -> int:
        """VGPRs that the hardware reserves. The compiler rounds up, and pads if occupancy is limited anyway."""
        return max(self.vgprs, self.descriptor.vgpr_blocks * _VGPR_BLOCK)


def kernels(code_object: bytes) -> tuple[KernelMetadata, ...]:
    """Every kernel of a code object (of version 3 and later), in the order of the metadata.

    Raises:
        MalformedObject: it is not a code object, lacks metadata or a member of it, or a descriptor contradicts it.
    """
    elf = Elf(code_object)
    symbols = {symbol.name: symbol for symbol in elf.symbols}
    found = []
    for entry in _members(metadata_of(elf), "amdhsa.kernels"):
        name = str(_member(entry, ".name"))
        symbol = symbols.get(str(_member(entry, ".symbol")))
        if symbol is None:
            raise MalformedObject(f"kernel {name} has no descriptor")
        kernel = _kernel(name, entry, _descriptor(elf.at(symbol.address, _DESCRIPTOR.size), symbol.address))
        _compare(kernel)
        found.append(kernel)
    return tuple(found)


def target_of(code_object: bytes) -> str:
    """The target of a code object with its feature flags: ``gfx942``, ``gfx90a:xnack-``.

    Raises:
        MalformedObject: no code object, or no metadata.
    """
    return str(_member(metadata_of(Elf(code_object)), "amdhsa.target")).removeprefix(_TRIPLE).removeprefix("-")


def metadata_of(elf: Elf) -> Any:
    """The AMDGPU metadata of a code object, as plain data.

    Raises:
        MalformedObject: it has none, or the metadata is damaged.
    """
    for note in elf.notes:
        if note.owner == _OWNER and note.kind == _NT_AMDGPU_METADATA:
            return decode(note.data)
    raise MalformedObject("the code object has no AMDGPU metadata")


def decode(data: bytes) -> Any:
    """The first value of MessagePack data; bytes behind it are ignored.

    Raises:
        MalformedObject: it is cut short, nested too deep, or of a type that metadata does not use.
        EnvironmentProblem: B012, the package that reads it is not installed.
    """
    (msgpack,) = import_modules(["msgpack"], "msgpack", "B012", INSTALL_HELP)

    limits = {"max_buffer_size": len(data), "max_bin_len": 0, "max_ext_len": 0}
    reader = msgpack.Unpacker(strict_map_key=False, unicode_errors="replace", **limits)
    reader.feed(data)
    try:
        return reader.unpack()
    except msgpack.OutOfData:
        raise MalformedObject("metadata is cut short") from None
    except (TypeError, ValueError) as fault:
        raise MalformedObject(f"metadata cannot be read: {fault or type(fault).__name__}") from fault


def _member(entry: Any, key: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        raise MalformedObject(f"the AMDGPU metadata lacks {key}")
    return entry[key]


def _members(entry: Any, key: str) -> list[Any]:
    found = _member(entry, key)
    if not isinstance(found, list):
        raise MalformedObject(f"{key} of the AMDGPU metadata is not a list")
    return found


def _kernel(name: str, entry: Any, descriptor: Descriptor) -> KernelMetadata:
    def number(key: str, default: int | None = None) -> int:
        value = entry.get(key, default) if default is not None else _member(entry, key)
        if not isinstance(value, int):
            raise MalformedObject(f"{key} of kernel {name} is not a number")
        return value

    return KernelMetadata(
        name=name,
        vgprs=number(".vgpr_count"),
        agprs=number(".agpr_count", 0),
        sgprs=number(".sgpr_count"),
        vgpr_spills=number(".vgpr_spill_count", 0),
        sgpr_spills=number(".sgpr_spill_count", 0),
        lds_bytes=number(".group_segment_fixed_size"),
        scratch_bytes=number(".private_segment_fixed_size"),
        kernarg_bytes=number(".kernarg_segment_size"),
        block=number(".max_flat_workgroup_size"),
        wave=number(".wavefront_size"),
        dynamic_stack=bool(entry.get(".uses_dynamic_stack", False)),
        descriptor=descriptor,
    )


def _descriptor(raw: bytes, address: int) -> Descriptor:
    lds, scratch, kernarg, entry, rsrc3, rsrc1, _rsrc2, _properties, _preload = _DESCRIPTOR.unpack(raw)
    return Descriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry=address + entry,
        vgpr_blocks=(rsrc1 & 0x3F) + 1,
        accum_offset=((rsrc3 & 0x3F) + 1) * 4,
        wgp_mode=bool(rsrc1 >> 29 & 1),
    )


def _compare(kernel: KernelMetadata) -> None:
    """Require that both statements of LDS, scratch and arguments agree, which exposes a read at a wrong offset. The descriptor of
    a kernel that people wrote in assembly may leave the size of the arguments 0, which states nothing."""
    hardware = kernel.descriptor
    said = (kernel.lds_bytes, kernel.scratch_bytes, kernel.kernarg_bytes)
    if said != (hardware.lds_bytes, hardware.scratch_bytes, hardware.kernarg_bytes or kernel.kernarg_bytes):
        raise MalformedObject(f"metadata and descriptor of kernel {kernel.name} contradict each other")
