"""Faults in a kernel's PTX: every place for a fault of each class.

``tensor.py`` has those of tensor memory, clusters and bulk copies, ``statements.py`` the classes. Where a fault needs
its own register, the line becomes a scope ``{ .reg ...; }``, as PTX ISA 9.1, 4.4 allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.planted.statements import ADDRESS, Fault, Planted, Statement, changed, operands_of, statements
from tests.support.planted.tensor import invalidations, tensor_faults

FAR = 1 << 24
"""An offset in bytes that is beyond every tensor of a small problem."""

_NUMBERED = re.compile(r"^(%[a-z]+)(\d+)$")
_WAITS = ("tcgen05.wait", "cp.async.wait_group", "cp.async.wait_all", "wgmma.wait_group", "cp.async.bulk.wait_group")
_COMMITS = ("tcgen05.commit", "cp.async.commit_group", "wgmma.commit_group", "cp.async.bulk.commit_group")
_FENCES = ("fence.proxy.async", "fence.mbarrier_init", "wgmma.fence", "tcgen05.fence")
_TRYING = ("mbarrier.try_wait", "mbarrier.test_wait")
_ARRIVALS = ("mbarrier.arrive", "cp.async.mbarrier.arrive")
_MEMORY = ("ld.global", "ld.shared", "st.global", "st.shared", "ldmatrix", "stmatrix", "red.global", "atom.global")
_ORDERED = ("setp.lt", "setp.gt", "setp.le", "setp.ge", "setp.lo", "setp.hi", "setp.ls", "setp.hs")
_CONSTANTS = ("add.s32", "add.s64", "mov.b32", "mov.u32", "mul.lo.s32", "shl.b32", "and.b32", "xor.b32", "mad.lo.s32")


def faults(text: str, row_bytes: int) -> list[Fault]:
    """Every fault of every class, in the order of the text.

    Args:
        row_bytes: of a row of the problem's tensors.
    """
    found: list[Fault] = []
    every = statements(text)
    for s in every:
        for kind, after in (
            *_order(s),
            *_addresses(s, row_bytes),
            *_guards(s),
            *_operations(s),
            *_registers(s),
            *tensor_faults(s),
        ):
            found.append(Fault(kind, s.line, s.text, after))
    return sorted((*found, *invalidations(every)), key=lambda fault: fault.line)


Change = tuple[Planted, str]


def _order(s: Statement) -> Iterator[Change]:
    if s.opcode.startswith(_WAITS):
        yield Planted.WAIT_DROPPED, ""
        if s.operands and s.operands[0].isdigit():
            yield Planted.WAIT_RAISED, s.with_(str(int(s.operands[0]) + 1))
    elif s.opcode.startswith(_TRYING) and not s.guard:
        yield Planted.WAIT_SKIPPED, f"setp.eq.u32 {s.operands[0]}, 0, 0;"
        if ".parity" in s.opcode:
            flipped = s.with_(*s.operands[:2], "%planted", *s.operands[3:])
            yield Planted.PARITY, f"{{ .reg .b32 %planted; xor.b32 %planted, {s.operands[2]}, 1; {flipped} }}"
    elif s.opcode.startswith(_COMMITS):
        yield Planted.COMMIT, ""
    elif s.opcode.startswith(_FENCES):
        yield Planted.FENCE, ""
    elif s.opcode in ("bar.sync", "barrier.sync", "bar.arrive", "barrier.sync.aligned", "barrier.cta.sync.aligned"):
        yield Planted.BARRIER, ""
        if len(s.operands) == 2:
            yield Planted.BARRIER_NUMBER, changed(s, 0, "add.s32", "1")
            yield Planted.BARRIER_COUNT, changed(s, 1, "add.s32", "32")
    elif s.opcode.startswith("mbarrier.init"):
        yield Planted.ARRIVAL_COUNT, changed(s, 1, "add.s32", "1")
    elif s.opcode.startswith(_ARRIVALS):
        yield Planted.ARRIVAL, ""
        if "expect_tx" in s.opcode:
            yield Planted.BYTES, changed(s, len(s.operands) - 1, "add.s32", "16")
    elif s.opcode.startswith("setmaxnreg"):
        yield Planted.REGISTERS, ""


def _addresses(s: Statement, row_bytes: int) -> Iterator[Change]:
    asynchronous = s.opcode.startswith(("cp.async.ca", "cp.async.cg"))
    if not (s.opcode.startswith(_MEMORY) or asynchronous):
        return
    if asynchronous:
        yield Planted.LOST, ""
    for index, operand in enumerate(s.operands):
        match = ADDRESS.fullmatch(operand)
        if not match:
            continue
        base, offset = match["base"], int(match["offset"] or 0)
        for kind, by in (
            (Planted.BY_AN_ELEMENT, 16 if asynchronous or "matrix" in s.opcode else _bytes(s.opcode)),
            (Planted.BY_A_ROW, row_bytes),
            (Planted.FAR_AWAY, FAR),
        ):
            operands = (*s.operands[:index], f"[{base}+{offset + by}]", *s.operands[index + 1 :])
            yield kind, s.with_(*operands)
        if "shared" in s.opcode and not (asynchronous and index):
            wide = "b64" if base.startswith("%rd") else "b32"
            operands = (*s.operands[:index], f"[%planted+{offset}]", *s.operands[index + 1 :])
            scope = f"{{ .reg .{wide} %planted; xor.{wide} %planted, {base}, 16; {s.with_(*operands)} }}"
            yield Planted.SWIZZLE, scope


def _bytes(opcode: str) -> int:
    """Bytes that a lane accesses."""
    element = re.search(r"\.[bsuf]f?(\d+)\b", opcode)
    several = re.search(r"\.v(\d)\b", opcode)
    return (int(element[1]) // 8 if element else 4) * (int(several[1]) if several else 1)


def _guards(s: Statement) -> Iterator[Change]:
    if not s.guard:
        return
    other = s.guard.replace("@!", "@") if s.guard.startswith("@!") else s.guard.replace("@", "@!")
    yield Planted.NEGATED, s.with_(guard=other)
    yield Planted.UNGUARDED, s.with_(guard="")


def _operations(s: Statement) -> Iterator[Change]:
    o, root = s.operands, s.opcode.split(".")[0]
    if (root in ("sub", "div", "shl", "shr") or s.opcode.startswith(_ORDERED)) and len(o) == 3 and o[1] != o[2]:
        yield Planted.SWAPPED, s.with_(o[0], o[2], o[1])
    elif root in ("selp", "fma", "mad") and len(o) == 4 and ".wide" not in s.opcode:
        first, second = (1, 2) if root == "selp" else (2, 3)
        if o[first] != o[second]:
            turned = list(o)
            turned[first], turned[second] = o[second], o[first]
            yield Planted.SWAPPED, s.with_(*turned)
    elif root == "mma" and len(o) == 4:
        for place in (1, 2):
            parts = operands_of(o[place].strip("{}"))
            if len(parts) > 1:
                swapped = "{" + ", ".join((parts[1], parts[0], *parts[2:])) + "}"
                yield Planted.FRAGMENT, s.with_(*o[:place], swapped, *o[place + 1 :])
    elif root == "wgmma" and len(o) > 3 and not o[1].startswith("{"):
        yield Planted.SWAPPED, s.with_(o[0], o[2], o[1], *o[3:])
    elif root == "wgmma" and len(o) > 3:
        parts = operands_of(o[1].strip("{}"))
        yield Planted.FRAGMENT, s.with_(o[0], "{" + ", ".join((parts[1], parts[0], *parts[2:])) + "}", *o[2:])
    elif root == "shfl" and len(o) >= 4:
        change = changed(s, 2, "xor.b32", "1")
        yield Planted.SHUFFLE, change
    elif root == "cvt" and ".rn." in s.opcode:
        yield Planted.ROUNDING, s.with_(opcode=s.opcode.replace(".rn.", ".rz."))
        if "x2" in s.opcode and len(o) == 3 and o[1] != o[2]:
            yield Planted.VECTOR, s.with_(o[0], o[2], o[1])
    if root in ("ld", "st", "mov"):
        for place, operand in enumerate(o):
            parts = operands_of(operand[1:-1]) if operand.startswith("{") else ()
            if len(parts) > 1:
                vector = "{" + ", ".join((parts[1], parts[0], *parts[2:])) + "}"
                yield Planted.VECTOR, s.with_(*o[:place], vector, *o[place + 1 :])
    if s.opcode in _CONSTANTS and re.fullmatch(r"-?\d+", o[-1]):
        yield Planted.CONSTANT, s.with_(*o[:-1], str(int(o[-1]) + 1))
    elif o and re.fullmatch(r"0f[0-9A-Fa-f]{8}", o[-1]):
        yield Planted.CONSTANT, s.with_(*o[:-1], f"0f{int(o[-1][2:], 16) ^ 0x00800000:08X}")


def _registers(s: Statement) -> Iterator[Change]:
    """The last source that is a plain register, mistaken for its neighbour."""
    for place in range(len(s.operands) - 1, 0, -1):
        match = _NUMBERED.match(s.operands[place])
        if match:
            neighbour = f"{match[1]}{int(match[2]) - 1 if int(match[2]) > 1 else int(match[2]) + 1}"
            yield Planted.RENUMBERED, s.with_(*s.operands[:place], neighbour, *s.operands[place + 1 :])
            return
