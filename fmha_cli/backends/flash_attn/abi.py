"""What a cubin exports about itself against what the host believes: the parameter block, the launch, the limits.

A cubin that differs in one field, one tile size or one byte of shared memory is refused before it is launched: the
parameter block is passed by value, and nothing on the device would notice.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from fmha_cli.arch import load_arch
from fmha_cli.build.cuda.cubin import Cubin, CubinKernel
from fmha_cli.build.cuda.occupancy import Demand, Occupancy, occupancy_of
from fmha_cli.build.elf import MalformedObject
from fmha_cli.codegen.flash_attn.emit import FACTS, SYMBOL, VERSION
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.codegen.flash_attn.traits import block_m, block_n, smem_bytes, threads
from fmha_cli.codegen.struct import Layout, ctypes_structure, host_layout
from fmha_cli.errors import KernelFailure
from fmha_cli.kernel import KernelSpec

_HEAD = 3
_INT_BYTES = 4
_REBUILD = "`fmha cache verify --fix`, then build again"


@dataclass(frozen=True, kw_only=True)
class CubinAbi:
    """What the cubin of one kernel says of itself, equal to what the host computes.

    Attributes:
        arch: with its suffix; tool_version: of the assembler.
        version, block_bytes, fields: of the parameter block: number of the table's form, ``sizeof``, and (name,
            offset, size) of every field in order.
        facts: ``kBlockM``, ``kBlockN``, ``kHeadDim``, ``kNThreads`` by name.
        smem_bytes: dynamic shared memory of the launch.
        kernel: what the compiler says of it.
        occupancy: of a launch.
    """

    arch: str
    tool_version: str | None
    version: int
    block_bytes: int
    fields: Layout
    facts: dict[str, int]
    smem_bytes: int
    kernel: CubinKernel
    occupancy: Occupancy


def check_abi(cubin: bytes, kernel: KernelSpec) -> CubinAbi:
    """Compare a cubin with the host: every field of the block, the launch, the arguments, the limits.

    Raises:
        KernelFailure: B060, it cannot be read, is for another architecture, or holds another kernel; B061, it differs
            from the host; B062, it needs more than a multiprocessor of its architecture has.
    """
    try:
        abi = read_abi(cubin, kernel)
    except MalformedObject as fault:
        raise _failure("the kernel's cubin cannot be read", "B060", kernel, str(fault)) from fault
    if abi.arch != kernel.arch:
        raise _failure("the cubin is for another architecture", "B060", kernel, f"it is for {abi.arch}")
    if faults := list(_faults(abi, kernel)):
        raise _failure("the cubin does not agree with the host", "B061", kernel, "; ".join(faults))
    if abi.occupancy.blocks == 0:
        needs = f"{abi.kernel.registers} registers of {abi.facts['kNThreads']} threads"
        shared = f"{abi.kernel.shared_bytes} + {abi.smem_bytes} bytes of shared memory"
        why = f"a block needs {needs} and {shared}: {', '.join(abi.occupancy.limited_by)}"
        raise _failure("the kernel fits on no multiprocessor of its architecture", "B062", kernel, why)
    return abi


def read_abi(cubin: bytes, kernel: KernelSpec) -> CubinAbi:
    """What a cubin exports, compared with nothing.

    Raises:
        MalformedObject: no cubin, another kernel, or tables that are missing or contradict themselves.
    """
    parts = Cubin(cubin)
    found = parts.kernels
    if [entry.name for entry in found] != [SYMBOL]:
        raise MalformedObject(f"it holds {', '.join(entry.name for entry in found)}, not {SYMBOL} alone")
    version, size, fields = _table(_words(parts, "abi_table"), parts.data_of(f"{SYMBOL}_abi_names"))
    words = _words(parts, "facts")
    if len(words) != len(FACTS) + 1:
        raise MalformedObject(f"{SYMBOL}_facts has {len(words)} numbers")
    facts = dict(zip(FACTS, words, strict=False))
    return CubinAbi(
        arch=parts.arch,
        tool_version=parts.tool_version,
        version=version,
        block_bytes=size,
        fields=fields,
        facts=facts,
        smem_bytes=words[-1],
        kernel=found[0],
        occupancy=occupancy_of(
            Demand(
                registers=found[0].registers,
                threads=max(1, facts["kNThreads"]),
                shared_bytes=found[0].shared_bytes + words[-1],
            ),
            load_arch(kernel.arch),
        ),
    )


def _words(parts: Cubin, name: str) -> tuple[int, ...]:
    data = parts.data_of(f"{SYMBOL}_{name}")
    if len(data) % _INT_BYTES:
        raise MalformedObject(f"{SYMBOL}_{name} is of {len(data)} bytes")
    return struct.unpack(f"<{len(data) // _INT_BYTES}I", data)


def _table(words: tuple[int, ...], raw: bytes) -> tuple[int, int, Layout]:
    names = raw.rstrip(b"\0").decode("ascii", "replace").split()
    if len(words) < _HEAD or len(words) != _HEAD + 2 * words[2] or len(names) != words[2]:
        raise MalformedObject(f"the table of {len(names)} fields has {len(words)} numbers")
    return words[0], words[1], tuple(zip(names, words[_HEAD::2], words[_HEAD + 1 :: 2], strict=True))


def _faults(abi: CubinAbi, kernel: KernelSpec) -> Iterator[str]:
    instance = instance_of(kernel)
    block = instance.block
    size = ctypes.sizeof(ctypes_structure(block))
    if abi.version != VERSION:
        yield f"table version {abi.version}, the host speaks {VERSION}"
    if abi.block_bytes != size:
        yield f"sizeof({block.__name__}) is {abi.block_bytes}, the host's is {size}"
    yield from _field_faults(abi.fields, host_layout(block))
    expected = (block_m(kernel), block_n(kernel), kernel.signature.hdim, threads(kernel))
    for name, value in zip(FACTS, expected, strict=True):
        if abi.facts[name] != value:
            yield f"{name} is {abi.facts[name]}, the host's is {value}"
    if abi.smem_bytes != smem_bytes(kernel):
        yield f"the launch needs {abi.smem_bytes} bytes of dynamic shared memory, the host reckons {smem_bytes(kernel)}"
    arguments = [(0, size), *((size + i * _INT_BYTES, _INT_BYTES) for i in range(len(instance.extra)))]
    taken = [(parameter.offset, parameter.size) for parameter in abi.kernel.parameters]
    if taken != arguments:
        yield f"its arguments (offset, size) are {taken}, the host passes {arguments}"
    most = abi.kernel.most_threads
    if most is not None and threads(kernel) > most:
        yield f"it was compiled for blocks of {most} threads, the host launches {threads(kernel)}"


def _field_faults(theirs: Layout, ours: Layout) -> Iterator[str]:
    there, here = ({name: (offset, size) for name, offset, size in fields} for fields in (theirs, ours))
    if len(there) != len(theirs):
        yield "a field is named twice"
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            yield f"field {name}: (offset, size) {there.get(name)} in the cubin, {here.get(name)} here"


def _failure(what: str, code: str, kernel: KernelSpec, why: str) -> KernelFailure:
    return KernelFailure(what, code=code, where=kernel.name, why=why, help=_REBUILD)
