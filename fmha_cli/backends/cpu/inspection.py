"""The content of a compiled CPU kernel, read from its disassembly: instructions, their use of the stack, innermost loops."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.elf import machine_of_file

_BRANCH = re.compile(r"^(j\w+|b\.\w+|cbn?z|tbn?z)$")
_JUMP = re.compile(r"^(jmpq?|b|br|retq?|ud2|udf|brk)$")
"""Instructions that never continue with the next one."""
_FILLER = re.compile(r"^(nop[lw]?\b|(data16|cs)\b.* nopw\b|xchg +%ax,%ax$)")
_TARGET = re.compile(r"(?:0x)?([0-9a-f]+) <")
_PRODUCT = re.compile(
    r"^(vfn?m(add|sub|addsub|subadd)\d+p[sd]|v?mulp[sd]|v?dpbf16ps|tdp\w+|fml[as]|bfdot|bfmmla|fmul)$"
)
_WHOLE_ARM = re.compile(r"\bv\d+\.(4s|2d|8h)")

Graph = Mapping[int, Sequence[int]]
"""Block -> the blocks that follow it; a block is the index of its first instruction."""


@dataclass(frozen=True)
class Loop:
    """A loop that holds no other: its instructions, in the order of addresses."""

    body: tuple[CpuInstruction, ...]

    @property
    def symbol(self) -> str:
        """The function that it is in."""
        return self.body[0].symbol

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each mnemonic occurs."""
        return Counter(one.mnemonic for one in self.body)

    @property
    def stack_moves(self) -> int:
        """Its instructions that move vectors to the stack or from it."""
        return sum(one.moves_to_stack for one in self.body)

    @property
    def multiplies(self) -> bool:
        """Whether it multiplies vectors of numbers: a loop over keys or the head dim, in products or in the softmax."""
        return any(_multiplies(one) for one in self.body)


def innermost_loops(listing: str) -> tuple[Loop, ...]:
    """The loops of an ``objdump -d --no-show-raw-insn`` listing that hold no other.

    A loop follows from its jumps: instructions each of which can follow every other one. Blocks that a compiler put
    elsewhere belong to it, and a jump back to code that never returns there is none. Jumps through a register lead
    nowhere.
    """
    found = []
    for _, group in groupby(instructions(listing), lambda one: one.symbol):
        code = tuple(group)
        blocks, follows = _blocks(code)
        for members in _innermost(follows):
            found.append(Loop(tuple(one for block in sorted(members) for one in code[block : blocks[block]])))
    return tuple(found)


def _multiplies(one: CpuInstruction) -> bool:
    vectors = "%" in one.operands or bool(_WHOLE_ARM.search(one.operands))
    return vectors and bool(_PRODUCT.match(one.mnemonic))


def _blocks(code: Sequence[CpuInstruction]) -> tuple[dict[int, int], Graph]:
    """The basic blocks of a function, start -> end, and which blocks follow each."""
    place = {one.address: at for at, one in enumerate(code)}
    leads: dict[int, int | None] = {}
    for at, one in enumerate(code):
        if _BRANCH.match(one.mnemonic) or _JUMP.match(one.mnemonic):
            target = _TARGET.search(one.operands)
            leads[at] = place.get(int(target[1], 16)) if target else None
    starts = sorted({0, *(to for to in leads.values() if to is not None), *(at + 1 for at in leads)} - {len(code)})
    ends = dict(zip(starts, [*starts[1:], len(code)], strict=True))
    follows: dict[int, list[int]] = {}
    for start, end in ends.items():
        to = leads.get(end - 1)
        after = [] if to is None else [to]
        if end < len(code) and not _JUMP.match(code[end - 1].mnemonic):
            after.append(end)
        follows[start] = after
    reached = {0}.union(*follows.values())
    gaps = [start for start in starts if start not in reached and all(map(_fills, code[start : ends[start]]))]
    return ends, {start: after for start, after in follows.items() if start not in gaps}


def _fills(one: CpuInstruction) -> bool:
    """Whether an instruction does nothing: behind a jump such ones align what follows, and nothing enters a loop through them."""
    return _FILLER.match(f"{one.mnemonic} {one.operands}") is not None


def _innermost(follows: Graph) -> Iterator[frozenset[int]]:
    """Cycles without cycles inside. A cycle's parts are the ones that remain without the jumps to its entry."""
    waiting = [(follows, frozenset(follows))]
    while waiting:
        graph, within = waiting.pop()
        for members in _cycles(graph, within):
            entries = {to for block in within - members for to in graph[block] if to in members}
            entries |= {to for block in follows.keys() - within for to in follows[block] if to in members}
            heads = entries or {min(members)}
            inside = {block: [to for to in graph[block] if to in members and to not in heads] for block in members}
            if any(True for _ in _cycles(inside, members)):
                waiting.append((inside, members))
            else:
                yield members


def _cycles(graph: Graph, within: Collection[int]) -> Iterator[frozenset[int]]:
    """The strongly connected parts that hold a cycle (Tarjan), without recursion."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack, on_stack = list[int](), set[int]()
    for root in within:
        if root in number:
            continue
        path = [(root, iter(graph[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while path:
            block, after = path[-1]
            for to in after:
                if to not in number:
                    number[to] = low[to] = len(number)
                    stack.append(to)
                    on_stack.add(to)
                    path.append((to, iter(graph[to])))
                    break
                if to in on_stack:
                    low[block] = min(low[block], number[to])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[block])
                if low[block] == number[block]:
                    members = set[int]()
                    while block not in members:
                        members.add(stack.pop())
                    on_stack -= members
                    if len(members) > 1 or block in graph[block]:
                        yield frozenset(members)


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


_MATRIX = re.compile(r"^(vdpbf16ps|vpdp\w+|tdp\w+|bfdot|bfmmla|[us]?mmla|fmmla|fmopa)$")
_WIDTHS = (("%zmm", 512), ("%ymm", 256), ("%xmm", 128))
_ARM = re.compile(r"\bv\d+\.(4s|2d|8h|16b)")
_TIMEOUT_S = 60


def inspect_cpu(kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
    """What :func:`inspect_library` finds in a kernel's library."""
    return inspect_library(artifact.path)


def inspect_library(path: Path) -> dict[str, object]:
    """Instruction counts, vector width, an estimate of register spills, and the innermost loops.

    ``spills`` counts vector moves between a register and the stack frame. It is an estimate, because a C++ array on the
    stack looks the same. ``loop_stack_moves`` counts those in the innermost loops that multiply vectors, and
    ``loop_stack_functions`` says in which functions. Without objdump every figure is null and ``why`` states the reason.
    """
    machine = machine_of_file(path)
    tool = disassembler(machine)
    if tool is None:
        package = "binutils" if machine in (None, machine_here()) else f"binutils-{machine}-linux-gnu".replace("_", "-")
        return _nothing(f"objdump is not installed (package {package})")
    try:
        listing = _read_output(tool, "-d", "--no-show-raw-insn", str(path))
    except (OSError, subprocess.SubprocessError) as fault:
        return _nothing(f"objdump failed: {fault}")
    return {**summarise(listing), "symbols": _symbols(path), "why": None}


def _read_output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True).stdout


def summarise(listing: str) -> dict[str, object]:
    """The figures of one ``objdump -d`` listing."""
    counts: Counter[str] = Counter()
    spills, widest = 0, 0
    for one in instructions(listing):
        counts[one.mnemonic] += 1
        spills += one.moves_to_stack
        widest = max(widest, _width(one.operands))
    loops = innermost_loops(listing)
    multiplying = [loop for loop in loops if loop.multiplies]
    moves = Counter[str]()
    for loop in multiplying:
        moves[loop.symbol] += loop.stack_moves
    matrix = {name: n for name, n in sorted(counts.items()) if _MATRIX.match(name)}
    return {
        "instructions": dict(sorted(counts.items())),
        "matrix_instructions": sum(matrix.values()),
        "matrix_mnemonics": matrix,
        "spills": spills,
        "vector_bits": widest or None,
        "registers": None,
        "innermost_loops": len(loops),
        "multiplying_loops": len(multiplying),
        "loop_stack_moves": moves.total(),
        "loop_stack_functions": {symbol: n for symbol, n in sorted(moves.items()) if n} or None,
    }


def _width(operands: str) -> int:
    if _ARM.search(operands):
        return 128
    return next((bits for mark, bits in _WIDTHS if mark in operands), 0)


def _symbols(path: Path) -> list[str]:
    """Exported functions and data."""
    tool = shutil.which("nm")
    if tool is None:
        return []
    try:
        lines = _read_output(tool, "-D", "--defined-only", str(path)).splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    return sorted(line.split()[-1] for line in lines if line.split())


def _nothing(why: str) -> dict[str, object]:
    return {**dict.fromkeys(summarise("")), "symbols": None, "why": why}
