"""Count a kernel's instructions from its machine code. An instruction has 16 bytes, with the opcode in bits 0 to 11.

``arch_specs/_cuda_sass.json`` lists the mnemonics of the opcodes and their origin by major compute capability. An
opcode that is not listed is counted as unknown, under its number.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fmha_cli.domain.arch import arch_document
from fmha_cli.toolchain.cuda.cubin import CubinKernel
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.instruction_classes import Isa, count_classes

_INSTRUCTION = struct.Struct("<QQ")
_WIDTH_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 8, 6: 16}
"""Bits 73 to 75 of a load or store: .U8 .S8 .U16 .S16, none, .64, .128."""


@dataclass(frozen=True)
class SassInstruction:
    """One instruction.

    Attributes:
        offset: its offset in the code, bytes.
        opcode: the number of its operation.
        width_bytes: the bytes that it moves if it is a load or a store.
    """

    offset: int
    opcode: int
    width_bytes: int


@dataclass(frozen=True)
class SassListing:
    """The instructions of a kernel, without the padding behind them.

    Attributes:
        instructions: mnemonic -> count, without unknown opcodes.
        unknown: unknown opcode (``0x123``) -> count.
        total: the number of all instructions.
        classes: class -> count. An instruction may be in several classes.
        code_bytes: the size of all instructions, bytes.
    """

    instructions: Mapping[str, int]
    unknown: Mapping[str, int]
    total: int
    classes: Mapping[str, int]
    code_bytes: int


@dataclass(frozen=True)
class Spills:
    """Registers that are spilled to local memory, counted as ``ptxas -v`` counts them.

    Attributes:
        stores: store instructions.
        loads: load instructions.
        store_bytes: bytes that one thread stores if each instruction runs once.
        load_bytes: bytes that one thread loads if each instruction runs once.
        noted: whether the compiler marked the spills. If not, all accesses to local memory are counted, including those
            to arrays.
    """

    stores: int
    loads: int
    store_bytes: int
    load_bytes: int
    noted: bool


def mnemonics_of(capability: int) -> Mapping[int, str]:
    """Opcode -> mnemonic for a compute capability (90 for sm_90a); empty where none is known.

    Raises:
        InternalError: the data file is damaged.
    """
    data = arch_document("_cuda_sass.json", "fmha.sass/1")
    rows = [row["opcodes"] for row in data["rows"] if capability // 10 in row["majors"]]
    return {int(code, 16): name for row in rows for name, codes in row.items() for code in codes}


def instructions_of(code: bytes) -> Iterator[SassInstruction]:
    """Every instruction in order, including padding.

    Raises:
        MalformedObject: the code is not a whole number of instructions.
    """
    if len(code) % _INSTRUCTION.size:
        raise MalformedObject(f"{len(code)} bytes are not a whole number of instructions")
    for place, (low, high) in enumerate(_INSTRUCTION.iter_unpack(code)):
        yield SassInstruction(place * _INSTRUCTION.size, low & 0xFFF, _WIDTH_BYTES.get(high >> 9 & 7, 0))


def count(code: bytes, mnemonics: Mapping[int, str]) -> SassListing:
    """Count the instructions of a kernel.

    Args:
        mnemonics: the mnemonics of the kernel's architecture (:func:`mnemonics_of`).

    Raises:
        MalformedObject: the code is not a whole number of instructions.
    """
    opcodes = [instruction.opcode for instruction in instructions_of(code)]
    while opcodes and mnemonics.get(opcodes[-1]) == "NOP":
        opcodes.pop()
    found = Counter(opcodes)
    names: Counter[str] = Counter()
    for opcode, times in found.items():
        if opcode in mnemonics:
            names[mnemonics[opcode]] += times
    return SassListing(
        instructions=dict(sorted(names.items())),
        unknown={f"{opcode:#x}": times for opcode, times in sorted(found.items()) if opcode not in mnemonics},
        total=len(opcodes),
        classes=count_classes(names, Isa.SASS),
        code_bytes=len(opcodes) * _INSTRUCTION.size,
    )


def spills_of(kernel: CubinKernel, mnemonics: Mapping[int, str]) -> Spills:
    """The registers that the kernel spills.

    Raises:
        MalformedObject: the compiler marked an instruction that does not access local memory.
    """
    marked = None if kernel.spill_offsets is None else frozenset(kernel.spill_offsets)
    moved: dict[str, list[int]] = {"STL": [], "LDL": []}
    for instruction in instructions_of(kernel.code):
        if marked is not None and instruction.offset not in marked:
            continue
        name = mnemonics.get(instruction.opcode, "")
        if name in moved:
            moved[name].append(instruction.width_bytes)
        elif marked is not None:
            raise MalformedObject(f"{name or 'an unknown instruction'} of {kernel.name} is marked as a spill")
    stores, loads = moved["STL"], moved["LDL"]
    return Spills(len(stores), len(loads), sum(stores), sum(loads), marked is not None)
