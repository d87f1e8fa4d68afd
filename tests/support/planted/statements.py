"""Statements of a PTX text, the classes of faults that are planted in them, and the text with a fault in it.

A fault replaces one line, so the lines of the text keep their numbers. Lines with more than one statement are left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_STATEMENT = re.compile(
    r"^\s*(?:@(?P<negated>!?)(?P<guard>[%$\w]+)\s+)?(?P<opcode>[a-z][\w:.]*)(?:(?:\s+|(?=[\[{]))(?P<rest>[^;]*?))?\s*;\s*$"
)
ADDRESS = re.compile(r"\[\s*(?P<base>%\w+)\s*(?:\+?\s*(?P<offset>-?\d+))?\s*\]")


class Planted(StrEnum):
    """The classes of faults."""

    WAIT_DROPPED = "wait dropped"
    WAIT_RAISED = "wait too weak by one"
    WAIT_SKIPPED = "mbarrier not waited for"
    PARITY = "mbarrier's parity flipped"
    COMMIT = "commit dropped"
    BARRIER = "barrier dropped"
    BARRIER_NUMBER = "barrier's number changed"
    BARRIER_COUNT = "barrier's count changed"
    FENCE = "fence dropped"
    ARRIVAL = "arrival dropped"
    ARRIVAL_COUNT = "mbarrier's count changed"
    BYTES = "expected bytes changed"
    BY_AN_ELEMENT = "address off by an element"
    BY_A_ROW = "address off by a row"
    FAR_AWAY = "address far away"
    SWIZZLE = "address with a swizzle bit flipped"
    NEGATED = "predicate negated"
    UNGUARDED = "predicate dropped"
    SWAPPED = "operands swapped"
    FRAGMENT = "matrix fragment's registers swapped"
    CONSTANT = "constant off by one"
    ROUNDING = "rounding changed"
    VECTOR = "vector's elements swapped"
    SHUFFLE = "shuffle's lanes changed"
    RENUMBERED = "register renumbered"
    ALLOCATED = "tensor memory allocated too small"
    FREED = "tensor memory freed otherwise"
    COMMITTED = "commit to another mbarrier"
    MULTICAST = "multicast mask changed"
    RANK = "block's rank changed"
    CLUSTER = "cluster barrier dropped"
    INVALIDATED = "mbarrier invalidated early"
    PRODUCT = "product dropped"
    MATRIX = "matrix descriptor off by 16 bytes"
    STRIDE = "matrix descriptor's stride changed"
    MATRIX_SWIZZLE = "matrix descriptor's swizzle changed"
    FORM = "instruction descriptor changed"
    KEPT = "sums kept or dropped"
    COLUMN = "tensor memory's column off by one"
    QUARTER = "tensor memory of another quarter"
    COORDINATE = "copied box off by one"
    COPIED = "copy to another place"
    LOST = "copy dropped"
    REGISTERS = "register count's change dropped"


ORDERING = (
    Planted.WAIT_DROPPED, Planted.WAIT_RAISED, Planted.WAIT_SKIPPED, Planted.COMMIT, Planted.BARRIER, Planted.BARRIER_NUMBER,
    Planted.BARRIER_COUNT, Planted.FENCE, Planted.PARITY, Planted.ARRIVAL, Planted.ARRIVAL_COUNT, Planted.BYTES,
    Planted.FREED, Planted.COMMITTED, Planted.CLUSTER, Planted.INVALIDATED,
)  # fmt: skip
"""Faults that may leave every number as it is here, because copies and products are over at once, or that show in some orders of warps."""

DROPS = (Planted.WAIT_DROPPED, Planted.WAIT_RAISED, Planted.WAIT_SKIPPED, Planted.BARRIER, Planted.FENCE)
"""What may do the work of another wait, barrier, commit or fence."""


@dataclass(frozen=True)
class Fault:
    """Line ``line`` (from 0) of the text becomes ``after``; ``before`` is the original statement."""

    kind: Planted
    line: int
    before: str
    after: str


@dataclass(frozen=True)
class Statement:
    """One instruction.

    Attributes:
        line: from 0. guard: ``@%p`` or ``@!%p`` with a blank behind it; empty without. operands: as written.
    """

    line: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    text: str

    def with_(self, *operands: str, opcode: str = "", guard: str | None = None) -> str:
        """The text with other operands."""
        head = self.guard if guard is None else guard
        return f"{head}{opcode or self.opcode} {', '.join(operands or self.operands)};"


def statements(text: str) -> list[Statement]:
    """The instructions of the text that have a line to themselves."""
    found = []
    for number, line in enumerate(text.splitlines()):
        match = _STATEMENT.match(line.split("//")[0])
        if match:
            guard = f"@{match['negated']}{match['guard']} " if match["guard"] else ""
            found.append(Statement(number, guard, match["opcode"], operands_of(match["rest"] or ""), line.strip()))
    return found


def operands_of(text: str) -> tuple[str, ...]:
    """Split at the commas outside of brackets and braces."""
    out, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            out.append(text[start:at].strip())
            start = at + 1
    return (*out, text[start:].strip()) if text.strip() else ()


def planted(text: str, *faults: Fault) -> str:
    """The text with the faults in it."""
    lines = text.splitlines()
    for fault in faults:
        lines[fault.line] = fault.after
    return "\n".join(lines) + "\n"


def trapped(text: str, fault: Fault, *, guarded: bool = False) -> str:
    """The text with a trap at the fault's place, which shows whether any warp comes there.

    Args:
        guarded: whether the statement's own predicate decides about the trap too.
    """
    lines = text.splitlines()
    match = _STATEMENT.match(lines[fault.line].split("//")[0])
    guard = f"@{match['negated']}{match['guard']} " if guarded and match and match["guard"] else ""
    lines[fault.line] = f"{guard}trap; {lines[fault.line]}"
    return "\n".join(lines) + "\n"


def changed(s: Statement, index: int, operation: str, by: str, kind: str = "b32") -> str:
    """The statement with another value of one operand, in a separate register."""
    operands = (*s.operands[:index], "%planted", *s.operands[index + 1 :])
    return f"{{ .reg .{kind} %planted; {operation} %planted, {s.operands[index]}, {by}; {s.with_(*operands)} }}"
