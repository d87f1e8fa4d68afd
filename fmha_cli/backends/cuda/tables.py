"""Compare a cubin's statements about itself with the host's expectations: the parameter block, the launch, the limits.

A cubin exports three symbols under its kernel's name SYMBOL:

- ``SYMBOL_abi_table``, uint32: version, ``sizeof`` of the block, number of its fields, then offset and size of each.
- ``SYMBOL_abi_names``: the fields' names, separated by blanks.
- ``SYMBOL_facts``, uint32: compile-time numbers of the backend's choice, then the launch's dynamic shared memory.

A cubin that differs in one field, one tile size or one byte of shared memory is refused before it is launched. The
parameter block is passed by value, so nothing on the device would notice the difference.

A kernel whose text is upstream's whole file exports nothing. The fields of the block are then separate parameters,
whose sizes are compared with the ones that the compiler recorded (``Expected.separate``). Their places are the
compiler's: it aligns a TMA descriptor to 64 bytes of the constant bank, in which the parameters start at another place
on each architecture.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fmha_cli.backends.cuda.launch import INT_BYTES
from fmha_cli.codegen.cuda import VERSION
from fmha_cli.codegen.struct import Layout, block_alignment, ctypes_structure, host_layout
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.cuda.cubin import Cubin, CubinKernel
from fmha_cli.toolchain.cuda.occupancy import CudaOccupancy, Demand, occupancy_of
from fmha_cli.toolchain.elf import MalformedObject

_HEAD = 3
_REBUILD = "`fmha cache verify --fix`, then build again"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The host's expectations of a kernel. Its cubin must export the same.

    Attributes:
        symbol: the kernel's name in the cubin. With tables it begins with ``toolchain.cuda.ptx.EXPORTS``.
        version: version of the table's form.
        block: the parameter block, a dataclass of ``codegen.struct`` fields.
        separate: the cubin exports no tables, and each field of the block is a parameter of the kernel.
        extra: names of the ``int`` parameters that follow the block.
        facts: the exported compile-time numbers by name, in order.
        threads: threads of a block.
        shared_bytes: dynamic shared memory of a launch.
    """

    symbol: str
    version: int = VERSION
    block: type
    separate: bool = False
    extra: tuple[str, ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)
    threads: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class CubinExports:
    """The exports of one kernel's cubin about itself.

    Attributes:
        arch: the architecture with its suffix.
        tool_version: the assembler's version; None where the cubin does not state it.
        version: version of the table's form.
        block_bytes: ``sizeof`` of the parameter block; the bytes of all parameters where they are separate.
        fields: (name, offset, size) of every field of the block, in order.
        facts: the compile-time numbers by name.
        threads: threads of a block, as the host launches it.
        smem_bytes: dynamic shared memory of a launch.
        kernel: the compiler's records about the kernel.
        occupancy: the occupancy of a launch.
        lead: where the block is among the arguments. The compiler aligns the address of a block with TMA descriptors in the
            constant bank, where the arguments start at another place on each architecture.
    """

    arch: str
    tool_version: str | None
    version: int
    block_bytes: int
    fields: Layout
    facts: dict[str, int]
    threads: int
    smem_bytes: int
    kernel: CubinKernel
    occupancy: CudaOccupancy
    lead: int = 0


def check_exports(cubin: bytes, kernel: KernelSpec, expected: Expected) -> CubinExports:
    """Compare a cubin with the host: every field of the block, the launch, the arguments, the limits.

    Raises:
        KernelFailure: B060, the cubin cannot be read, is for another architecture, or holds another kernel; B061, it
            differs from the host; B062, it needs more than a multiprocessor of its architecture has.
    """
    try:
        found = read_exports(cubin, kernel.arch, expected)
    except MalformedObject as fault:
        raise _failure("the kernel's cubin cannot be read", "B060", kernel, str(fault)) from fault
    if found.arch != kernel.arch:
        raise _failure("the cubin is for another architecture", "B060", kernel, f"it is for {found.arch}")
    if faults := list(_faults(found, expected)):
        raise _failure("the cubin does not match the host", "B061", kernel, "; ".join(faults))
    if found.occupancy.blocks == 0:
        needs = f"{found.kernel.registers} registers of {found.threads} threads"
        shared = f"{found.kernel.shared_bytes} + {found.smem_bytes} bytes of shared memory"
        why = f"a block needs {needs} and {shared}: {', '.join(found.occupancy.limited_by)}"
        raise _failure("the kernel does not fit on a multiprocessor of its architecture", "B062", kernel, why)
    return found


def read_exports(cubin: bytes, arch: str, expected: Expected) -> CubinExports:
    """The exports of a cubin. Only the names and the number of facts are compared with ``expected``.

    Args:
        arch: the architecture on whose multiprocessors ``occupancy`` is based.

    Raises:
        MalformedObject: the file is not a cubin, holds another kernel, or its tables are missing or inconsistent.
    """
    parts, symbol = Cubin(cubin), expected.symbol
    found = parts.kernels
    if [entry.name for entry in found] != [symbol]:
        raise MalformedObject(f"it holds {', '.join(entry.name for entry in found)}, not only {symbol}")
    if expected.separate:
        version, size, fields = expected.version, found[0].parameter_bytes, _read_layout(found[0], expected.block)
        facts, shared = [], expected.shared_bytes
    else:
        words = _words(parts, f"{symbol}_abi_table")
        version, size, fields = _table(words, parts.data_of(f"{symbol}_abi_names"))
        *facts, shared = _words(parts, f"{symbol}_facts") or (0,)
        if len(facts) != len(expected.facts):
            raise MalformedObject(f"{symbol}_facts has {len(facts) + 1} numbers")
    demand = Demand(
        registers=found[0].registers,
        threads=max(1, expected.threads),
        shared_bytes=found[0].shared_bytes + shared,
    )
    return CubinExports(
        arch=parts.arch,
        tool_version=parts.tool_version,
        version=version,
        block_bytes=size,
        fields=fields,
        facts=dict(zip(expected.facts, facts, strict=True)),
        threads=expected.threads,
        smem_bytes=shared,
        kernel=found[0],
        occupancy=occupancy_of(demand, load_arch(arch)),
        lead=_lead(found[0], expected),
    )


def _lead(kernel: CubinKernel, expected: Expected) -> int:
    """The place of a block that is aligned to more than the arguments are; a wrong one stays 0, so that it is a fault."""
    first = next((parameter.offset for parameter in kernel.parameters), 0)
    return first if not expected.separate and 0 < first < block_alignment(expected.block) else 0


def _words(parts: Cubin, name: str) -> tuple[int, ...]:
    data = parts.data_of(name)
    if len(data) % INT_BYTES:
        raise MalformedObject(f"{name} has {len(data)} bytes")
    return struct.unpack(f"<{len(data) // INT_BYTES}I", data)


def _table(words: tuple[int, ...], raw: bytes) -> tuple[int, int, Layout]:
    names = raw.rstrip(b"\0").decode("ascii", "replace").split()
    if len(words) < _HEAD or len(words) != _HEAD + 2 * words[2] or len(names) != words[2]:
        raise MalformedObject(f"the table of {len(names)} fields has {len(words)} numbers")
    return words[0], words[1], tuple(zip(names, words[_HEAD::2], words[_HEAD + 1 :: 2], strict=True))


def _read_layout(kernel: CubinKernel, block: type) -> Layout:
    """The parameters of a kernel under the names of the block's fields. One beyond the fields has its number."""
    names = [name for name, _, _ in host_layout(block)]
    numbered = (f"#{parameter.ordinal}" for parameter in kernel.parameters[len(names) :])
    pairs = zip((*names, *numbered), kernel.parameters, strict=False)
    return tuple((name, parameter.offset, parameter.size) for name, parameter in pairs)


def _faults(found: CubinExports, expected: Expected) -> Iterator[str]:
    block, threads, shared = expected.block, expected.threads, expected.shared_bytes
    size = ctypes.sizeof(ctypes_structure(block))
    if found.version != expected.version:
        yield f"table version {found.version}, the host expects {expected.version}"
    if expected.separate:
        there, here = ([size for _, _, size in fields] for fields in (found.fields, host_layout(block)))
        if there != here:
            yield f"its parameters have {there} bytes, the host's {here}"
    else:
        if found.block_bytes != size:
            yield f"sizeof({block.__name__}) is {found.block_bytes}, the host's is {size}"
        yield from _field_faults(found.fields, host_layout(block))
    for name, value in expected.facts.items():
        if found.facts[name] != value:
            yield f"{name} is {found.facts[name]}, the host's is {value}"
    if found.smem_bytes != shared:
        yield f"the launch needs {found.smem_bytes} bytes of dynamic shared memory, the host computes {shared}"
    end = found.lead + size
    passed = [(found.lead, size), *((end + i * INT_BYTES, INT_BYTES) for i in range(len(expected.extra)))]
    taken = [(parameter.offset, parameter.size) for parameter in found.kernel.parameters]
    if taken != passed and not expected.separate:
        yield f"its arguments (offset, size) are {taken}, the host passes {passed}"
    most = found.kernel.most_threads
    if most is not None and threads > most:
        yield f"it was compiled for blocks of {most} threads, the host launches {threads}"


def _field_faults(theirs: Layout, ours: Layout) -> Iterator[str]:
    there, here = ({name: (offset, size) for name, offset, size in fields} for fields in (theirs, ours))
    if len(there) != len(theirs):
        yield "a field is named twice"
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            yield f"field {name}: (offset, size) {there.get(name)} in the cubin, {here.get(name)} here"


def _failure(what: str, code: str, kernel: KernelSpec, why: str) -> KernelFailure:
    return KernelFailure(what, code=code, where=kernel.name, why=why, help=_REBUILD)
