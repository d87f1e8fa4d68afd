"""The innermost loops of compiled kernels, from the jumps in a disassembly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from fmha_cli.backends.cpu.listing import CpuInstruction, instructions

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
