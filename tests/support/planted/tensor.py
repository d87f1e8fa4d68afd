"""Faults in what Hopper and Blackwell have: tensor memory and its products, bulk copies of boxes, clusters, mbarriers that are invalidated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.support.planted.statements import ADDRESS, Fault, Planted, Statement, changed

_BARRIERS = ("bar.sync", "barrier.sync", "barrier.cluster.arrive")
_LANES = 32 << 16
"""Of a quarter, in an address of tensor memory."""

Change = tuple[Planted, str]


def tensor_faults(s: Statement) -> Iterator[Change]:
    """The faults of one statement."""
    root = s.opcode.split(".")[0]
    if root == "tcgen05":
        yield from _tensor_memory(s)
    elif s.opcode.startswith("cp.async.bulk.tensor"):
        yield Planted.LOST, ""
        yield from _boxes(s)
    elif s.opcode.startswith(("cp.async.bulk.shared", "cp.reduce.async.bulk.global.shared")):
        yield Planted.LOST, ""
        yield from _rows(s)
    elif root == "wgmma" and len(s.operands) > 3:
        yield from _products_of_warpgroups(s)
    elif root == "mapa":
        yield Planted.RANK, changed(s, 2, "xor.b32", "1")
    elif s.opcode.startswith("barrier.cluster"):
        yield Planted.CLUSTER, ""


def _tensor_memory(s: Statement) -> Iterator[Change]:
    what = s.opcode.split(".")[1]
    o = s.operands
    if what == "alloc":
        yield Planted.ALLOCATED, s.with_(o[0], str(int(o[1]) // 2))
    elif what == "dealloc":
        yield Planted.FREED, ""
        yield Planted.FREED, s.with_(o[0], str(int(o[1]) // 2))
    elif what == "commit":
        yield Planted.COMMITTED, s.with_(_moved(o[0], 8), *o[1:])
        if "multicast" in s.opcode:
            yield Planted.MULTICAST, changed(s, 1, "xor.b16", "1", "b16")
    elif what == "mma" and ".ws" not in s.opcode:
        yield from _products(s)
    elif what in ("ld", "st"):
        place = 1 if what == "ld" else 0
        for kind, by in ((Planted.COLUMN, 1), (Planted.QUARTER, _LANES)):
            yield kind, s.with_(*o[:place], _moved(o[place], by), *o[place + 1 :])


def _products(s: Statement) -> Iterator[Change]:
    """D, A, B, the instruction descriptor, and at the end the predicate that keeps D's sums (PTX ISA 9.7.16.10.9.1)."""
    o = s.operands
    yield Planted.PRODUCT, ""
    yield Planted.COLUMN, s.with_(_moved(o[0], 1), *o[1:])
    for place in (1, 2):
        if o[place].startswith("["):
            yield Planted.COLUMN, s.with_(*o[:place], _moved(o[place], 1), *o[place + 1 :])
            continue
        yield from _descriptor(s, place)
    for bit in (15, 16, 17, 24):
        yield Planted.FORM, changed(s, 3, "xor.b32", str(1 << bit))
    yield Planted.KEPT, changed(s, len(o) - 1, "xor.pred", "1", "pred") if o[-1].isdigit() else _other(s, len(o) - 1)


def _products_of_warpgroups(s: Statement) -> Iterator[Change]:
    """D, A (registers or a descriptor), B, and the predicate that keeps D's sums (PTX ISA 9.7.15.5.2)."""
    o = s.operands
    yield Planted.PRODUCT, ""
    for place in (1, 2):
        if not o[place].startswith("{"):
            yield from _descriptor(s, place)
    if not o[3].isdigit():
        yield Planted.KEPT, _other(s, 3)


def _descriptor(s: Statement, place: int) -> Iterator[Change]:
    yield Planted.MATRIX, changed(s, place, "add.s64", "1", "b64")
    yield Planted.STRIDE, changed(s, place, "xor.b64", str(1 << 32), "b64")
    yield Planted.MATRIX_SWIZZLE, changed(s, place, "xor.b64", str(1 << 62), "b64")


def _other(s: Statement, place: int) -> str:
    """The statement with the opposite of an operand, a predicate."""
    operands = (*s.operands[:place], "%planted", *s.operands[place + 1 :])
    return f"{{ .reg .pred %planted; not.pred %planted, {s.operands[place]}; {s.with_(*operands)} }}"


def _moved(operand: str, by: int) -> str:
    match = ADDRESS.fullmatch(operand)
    assert match, operand
    return f"[{match['base']}+{int(match['offset'] or 0) + by}]"


def _boxes(s: Statement) -> Iterator[Change]:
    """The box's coordinates, the place in shared memory, the mbarrier, and the blocks that get it."""
    o = s.operands
    loads = "mbarrier" in s.opcode
    box, shared = (1, 0) if loads else (0, 1)
    head, _, tail = o[box].partition("{")
    coordinates = [one.strip() for one in tail.rstrip("]} ").split(",")]
    for place in range(min(2, len(coordinates))):
        others = [*coordinates[:place], "%planted", *coordinates[place + 1 :]]
        moved = s.with_(*o[:box], f"{head}{{{', '.join(others)}}}]", *o[box + 1 :])
        yield Planted.COORDINATE, f"{{ .reg .b32 %planted; add.s32 %planted, {coordinates[place]}, 1; {moved} }}"
    yield Planted.COPIED, s.with_(*o[:shared], _moved(o[shared], 1024), *o[shared + 1 :])
    if loads:
        base = o[2].strip("[] ")
        moved = s.with_(*o[:2], "[%planted]", *o[3:])
        yield Planted.COMMITTED, f"{{ .reg .b32 %planted; add.s32 %planted, {base}, 8; {moved} }}"
    if "multicast" in s.opcode:
        yield Planted.MULTICAST, changed(s, 3, "xor.b16", "1", "b16")


def _rows(s: Statement) -> Iterator[Change]:
    """The place in shared memory, the number of bytes, and the mbarrier."""
    o = s.operands
    shared = 1 if s.opcode.startswith("cp.reduce") else 0
    yield Planted.COPIED, s.with_(*o[:shared], _moved(o[shared], 1024), *o[shared + 1 :])
    yield Planted.BYTES, changed(s, 2, "add.s32", "16")
    if "mbarrier" in s.opcode:
        yield Planted.COMMITTED, s.with_(*o[:3], _moved(o[3], 8), *o[4:])


def invalidations(every: Sequence[Statement]) -> Iterator[Fault]:
    """Each mbarrier, invalidated ahead of the last three barriers before tensor memory is freed: blocks or warps may still arrive at it."""
    inits = [s for s in every if s.opcode.startswith("mbarrier.init")]
    for at, s in enumerate(every):
        if s.opcode.startswith("tcgen05.dealloc"):
            before = [one for one in every[:at] if one.opcode.startswith(_BARRIERS)][-3:]
            for barrier in before:
                for init in inits:
                    after = f"{init.guard}mbarrier.inval.shared::cta.b64 {init.operands[0]}; {barrier.text}"
                    yield Fault(Planted.INVALIDATED, barrier.line, barrier.text, after)
