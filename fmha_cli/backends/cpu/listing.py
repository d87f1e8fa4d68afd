"""Listings of compiled kernels: the disassembler for a library's machine, its instructions, and their use of the stack."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from fmha_cli.domain.processor import machine_here

_LINE = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)$")
_SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_VECTOR_X86 = re.compile(r"%[xyz]mm\d+")
_SLOT_X86 = re.compile(r"(?<!\*)-?(?:0x[0-9a-f]+)?\(%r(sp|bp)\)")
"""A fixed place of the frame. With an index register it is an array, not a spill."""
_NUMBER_X86 = re.compile(r"^v?(\w+s[sd]|mov[dq]|broadcast\w+)$")
"""One number in a vector register, from memory to all lanes too."""
_FRAME_X86 = "%rsp,%rbp"
_STACK_ARM = re.compile(r"^(?:(?:ld|st)(?:p|r|ur)\s+q\d+, (?:q\d+, )?|(?:ld|st)1\s+\{[^}]*\}, )\[(?:sp|x29)\b")


@dataclass(frozen=True)
class CpuInstruction:
    """One instruction with its address and the function that it belongs to.

    Attributes:
        moves_to_stack: it moves a vector between a register and a fixed place of the stack frame, or computes with one from
            there. A small C++ array on the stack looks the same. Single numbers do not count.
    """

    address: int
    symbol: str
    mnemonic: str
    operands: str
    moves_to_stack: bool = False


def disassembler(machine: str | None) -> str | None:
    """A program that disassembles code for a machine; None if there is none here."""
    own = ("objdump",) if machine in (None, machine_here()) else (f"{machine}-linux-gnu-objdump",)
    return next(filter(None, map(shutil.which, (*own, "llvm-objdump"))), None)


def instructions(listing: str) -> Iterator[CpuInstruction]:
    """The instructions of an ``objdump -d --no-show-raw-insn`` listing, in order."""
    for symbol, lines in _functions(listing):
        # Without a frame, %rbp is a register like others, and may point anywhere.
        framed = any(mnemonic == "mov" and operands == _FRAME_X86 for _, mnemonic, operands in lines)
        for address, mnemonic, operands in lines:
            yield CpuInstruction(address, symbol, mnemonic, operands, _on_stack(mnemonic, operands, framed))


def _functions(listing: str) -> Iterator[tuple[str, list[tuple[int, str, str]]]]:
    symbol, lines = "", list[tuple[int, str, str]]()
    for line in listing.splitlines():
        if found := _SYMBOL.match(line):
            yield symbol, lines
            symbol, lines = found[1], []
        elif found := _LINE.match(line):
            lines.append((int(found[1], 16), found[2], found[3]))
    yield symbol, lines


def _on_stack(mnemonic: str, operands: str, framed: bool) -> bool:
    slot = _SLOT_X86.search(operands)
    if slot and _VECTOR_X86.search(operands):
        return (framed or slot[1] == "sp") and not _NUMBER_X86.match(mnemonic)
    return bool(_STACK_ARM.match(f"{mnemonic} {operands}"))
