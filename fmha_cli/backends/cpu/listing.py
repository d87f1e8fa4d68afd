"""Listings of compiled kernels: the disassembler for a library's machine, its instructions, and the innermost loops."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fmha_cli.domain.processor import machine_here

_LINE = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)$")
_SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_JUMP = re.compile(r"^(j\w+|b|b\.\w+|bl?eq|cbn?z|tbn?z)$")
_TARGET = re.compile(r"(?:0x)?([0-9a-f]+) <")
_STACK_X86 = re.compile(
    r"^v?mov[au]p[sd]\s+%[xyz]mm\d+,-?0x[0-9a-f]+\(%r[sb]p\)|^v?mov[au]p[sd]\s+-?0x[0-9a-f]+\(%r[sb]p\),%[xyz]mm"
)
_STACK_ARM = re.compile(r"^(?:ld|st)(?:p|r|ur)\s+q\d+, (?:q\d+, )?\[(?:sp|x29)\b")


@dataclass(frozen=True)
class Instruction:
    """One instruction with its address and the function that it belongs to."""

    address: int
    symbol: str
    mnemonic: str
    operands: str

    @property
    def moves_to_stack(self) -> bool:
        """Whether it moves a vector between a register and the stack frame. A C++ array on the stack looks the same."""
        text = f"{self.mnemonic} {self.operands}"
        return bool(_STACK_X86.match(text) or _STACK_ARM.match(text))


@dataclass(frozen=True)
class Loop:
    """A loop that holds no other: its instructions from the first to the jump back."""

    body: tuple[Instruction, ...]

    @property
    def symbol(self) -> str:
        """The function that it is in."""
        return self.body[0].symbol

    @property
    def counts(self) -> Counter[str]:
        """How often each mnemonic occurs."""
        return Counter(one.mnemonic for one in self.body)

    @property
    def stack_moves(self) -> int:
        """Its instructions that move vectors to the stack or from it."""
        return sum(one.moves_to_stack for one in self.body)


def disassembler(machine: str | None) -> str | None:
    """A program that disassembles code for a machine; None if there is none here."""
    own = ("objdump",) if machine in (None, machine_here()) else (f"{machine}-linux-gnu-objdump",)
    return next(filter(None, map(shutil.which, (*own, "llvm-objdump"))), None)


def instructions(listing: str) -> Iterator[Instruction]:
    """The instructions of an ``objdump -d --no-show-raw-insn`` listing, in order."""
    symbol = ""
    for line in listing.splitlines():
        if found := _SYMBOL.match(line):
            symbol = found[1]
        elif found := _LINE.match(line):
            yield Instruction(int(found[1], 16), symbol, found[2], found[3])


def innermost_loops(listing: str) -> tuple[Loop, ...]:
    """The loops of a listing that hold no other: a jump back within a function, and what lies between."""
    code = list(instructions(listing))
    place = {one.address: at for at, one in enumerate(code)}
    spans = []
    for end, one in enumerate(code):
        target = _TARGET.search(one.operands) if _JUMP.match(one.mnemonic) else None
        start = place.get(int(target[1], 16)) if target else None
        if start is not None and start <= end and code[start].symbol == one.symbol:
            spans.append((start, end))
    inner = [(a, b) for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
    return tuple(Loop(tuple(code[a : b + 1])) for a, b in inner)
