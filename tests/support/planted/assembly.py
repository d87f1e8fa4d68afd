"""Faults in a kernel's assembly text: every place for a fault of each class, and the text with a fault in it.

A fault replaces one line of the kernel's body. The classes are mistakes that a change of an attention kernel could
introduce by accident: a wait dropped or made too weak, an address shifted, the operands of a matrix instruction
exchanged, a barrier or a change of EXEC left out, a register mistaken for its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

WAVE32 = ("gfx1100", "gfx1201")
FAR = 1 << 24
"""An offset in bytes that is beyond every tensor of a small problem."""

NOTHING = "s_nop 0"
"""The replacement of a dropped wait or barrier; every other instruction keeps its address."""


class Planted(StrEnum):
    """The classes of faults."""

    WAIT_DROPPED = "wait dropped"
    WAIT_RAISED = "wait too weak by one"
    BY_AN_ELEMENT = "address off by an element"
    BY_A_ROW = "address off by a row"
    FAR_AWAY = "address far away"
    SWAPPED = "matrix operands swapped"
    BARRIER = "barrier deleted"
    SIGNAL = "barrier's signal deleted"
    WAIT = "barrier's wait deleted"
    EXEC = "EXEC change dropped"
    RENUMBERED = "register renumbered"


@dataclass(frozen=True)
class Fault:
    """``lines`` (from 0) of the text become ``after``; ``before`` is the original instruction."""

    kind: Planted
    lines: tuple[int, ...]
    before: str
    after: str


@dataclass(frozen=True)
class Code:
    """One instruction of the kernel's body."""

    line: int
    mnemonic: str
    operands: tuple[str, ...]
    text: str


_LABEL = re.compile(r"^[\w.$]+:")
_COMMENT = re.compile(r"\s*(;|//).*$")
_OFFSET = re.compile(r"\boffset:(0x[0-9a-f]+|\d+)")
_PAIR_OFFSET = re.compile(r"\boffset([01]):(0x[0-9a-f]+|\d+)")
_COUNTER = re.compile(r"\b(vmcnt|lgkmcnt|expcnt)\((\d+)\)")
_HIGHEST = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}
"""lgkmcnt has six bits on RDNA; compilers never wait for sixteen of them."""
_MEMORY = re.compile(r"^(global|flat|buffer|ds)_")
_MATRIX = re.compile(r"^v_(s?mfma|s?wmma|swmmac)")
_VGPR = re.compile(r"^v(\d+)$")
_VGPRS = re.compile(r"^v(\d+)$|^v\[(\d+):(\d+)\]$")
_NOT_DATA = ("ds_nop", "buffer_wbl2", "buffer_inv", "buffer_gl", "global_wb", "global_inv")


def body(text: str) -> list[Code]:
    """The instructions of the text's single kernel, including inline assembly."""
    lines = text.splitlines()
    end = next(k for k, line in enumerate(lines) if line.strip().startswith(".amdhsa_kernel "))
    name = lines[end].split()[1]
    start = next(k for k, line in enumerate(lines) if line.startswith(f"{name}:"))
    return list(_codes(lines, start + 1, end))


def _codes(lines: Sequence[str], start: int, end: int) -> Iterator[Code]:
    for k in range(start, end):
        text = _COMMENT.sub("", lines[k]).strip()
        if text and not text.startswith((".", "#")) and not _LABEL.match(text):
            mnemonic, _, rest = text.partition(" ")
            yield Code(k, mnemonic, tuple(o.strip() for o in re.split(r",(?![^\[]*\])", rest)), text)


def planted(text: str, *faults: Fault) -> str:
    """The text with the faults in it; line numbers stay the same."""
    lines = text.splitlines()
    for fault in faults:
        for line in fault.lines:
            lines[line] = NOTHING
        lines[fault.lines[0]] = fault.after
    return "\n".join(lines) + "\n"


def trapped(text: str, fault: Fault) -> str:
    """The text with a trap at the fault's place, which shows whether the place is ever executed."""
    lines = text.splitlines()
    lines[fault.lines[0]] = "s_trap 2\n" + lines[fault.lines[0]]
    return "\n".join(lines) + "\n"


def faults(text: str, arch: str, row_bytes: int, element_bytes: int = 2) -> list[Fault]:
    """Every fault of every class, in the order of the text."""
    codes = body(text)
    top = int(re.search(r"\.amdhsa_next_free_vgpr (\d+)", text)[1])  # type: ignore[index]
    found: list[Fault] = []
    for index, code in enumerate(codes):
        found += [*_waits(code), *_barriers(codes, index), *_swaps(code), *_masks(code)]
        found += [*_addresses(code, arch, row_bytes, element_bytes), *_registers(code, min(top, 256))]
    return found


def _one(kind: Planted, code: Code, after: str) -> Fault:
    return Fault(kind, (code.line,), code.text, after)


def _waits(code: Code) -> Iterator[Fault]:
    """The faults of a wait. A count at its field's maximum limits nothing and cannot be raised."""
    if code.mnemonic == "s_waitcnt":
        yield _one(Planted.WAIT_DROPPED, code, NOTHING)
        for match in _COUNTER.finditer(code.text):
            if int(match[2]) < _HIGHEST[match[1]]:
                weak = f"{match[1]}({int(match[2]) + 1})"
                yield _one(Planted.WAIT_RAISED, code, code.text[: match.start()] + weak + code.text[match.end() :])
    elif code.mnemonic.startswith("s_wait_") and code.mnemonic not in ("s_wait_alu", "s_wait_idle"):
        yield _one(Planted.WAIT_DROPPED, code, NOTHING)
        value = int(code.operands[0], 0)
        fields = ((0x100, value >> 8), (1, value & 0xFF)) if code.mnemonic.endswith("cnt_dscnt") else ((1, value),)
        for step, count in fields:
            if count < 63:
                yield _one(Planted.WAIT_RAISED, code, f"{code.mnemonic} {value + step:#x}")


def _barriers(codes: Sequence[Code], index: int) -> Iterator[Fault]:
    code = codes[index]
    if code.mnemonic == "s_barrier":
        yield _one(Planted.BARRIER, code, NOTHING)
    elif code.mnemonic == "s_barrier_wait":
        yield _one(Planted.WAIT, code, NOTHING)
    elif code.mnemonic == "s_barrier_signal":
        yield _one(Planted.SIGNAL, code, NOTHING)
        wait = next((c for c in codes[index:] if c.mnemonic == "s_barrier_wait"), None)
        if wait is not None:
            yield Fault(Planted.BARRIER, (code.line, wait.line), f"{code.text}; {wait.text}", NOTHING)


def _swaps(code: Code) -> Iterator[Fault]:
    if _MATRIX.match(code.mnemonic) and len(code.operands) >= 4:
        d, a, b, *rest = code.operands
        if a != b:
            yield _one(Planted.SWAPPED, code, f"{code.mnemonic} {', '.join((d, b, a, *rest))}")


def _masks(code: Code) -> Iterator[Fault]:
    target = code.operands[0].partition(" ")[0]  # `s_mov_b64 exec s[0:1]` in inline assembly needs no comma
    if "saveexec" in code.mnemonic:
        wide = "b64" if code.mnemonic.endswith("b64") else "b32"
        yield _one(Planted.EXEC, code, f"s_mov_{wide} {target}, {'exec' if wide == 'b64' else 'exec_lo'}")
    elif code.mnemonic.startswith("v_cmpx") or (target in ("exec", "exec_lo") and code.mnemonic.startswith("s_")):
        yield _one(Planted.EXEC, code, "")


def _addresses(code: Code, arch: str, row: int, element: int) -> Iterator[Fault]:
    if code.mnemonic.startswith("s_load") and code.operands[-1].split()[0].startswith("0x"):
        yield _one(Planted.BY_AN_ELEMENT, code, _scalar_shifted(code, 4))
        yield _one(Planted.FAR_AWAY, code, _scalar_shifted(code, 0x10000))
    if not _MEMORY.match(code.mnemonic) or code.mnemonic.startswith(_NOT_DATA):
        return
    if "permute" in code.mnemonic:  # its address is a lane, so this is the next lane
        yield _one(Planted.BY_AN_ELEMENT, code, _shifted(code, 4))
        return
    for kind, step in ((Planted.BY_AN_ELEMENT, element), (Planted.BY_A_ROW, row)):
        yield _one(kind, code, _shifted(code, step))
    far = _far(code, arch)
    if far:
        yield _one(Planted.FAR_AWAY, code, far)


def _scalar_shifted(code: Code, step: int) -> str:
    offset, *rest = code.operands[-1].split()
    words = (*code.operands[:-1], " ".join((f"{int(offset, 16) + step:#x}", *rest)))
    return f"{code.mnemonic} {', '.join(words)}"


def _shifted(code: Code, step: int) -> str:
    """The text with its offset a step further, or nearer if the field has no room (12 bits, as in CDNA's buffers)."""
    if code.mnemonic.startswith("ds_") and (
        "read2" in code.mnemonic or "write2" in code.mnemonic or "2addr" in code.mnemonic
    ):
        units = max(1, step // (8 if code.mnemonic.endswith("b64") else 4))
        return _pair_shifted(code, units)
    limit = 65535 if code.mnemonic.startswith("ds_") else 4095
    match = _OFFSET.search(code.text)
    if match is None and " offen" in code.text:  # `lds` must remain the last word
        return code.text.replace(" offen", f" offen offset:{step}")
    if match is None:
        return f"{code.text} offset:{step}"
    old = int(match[1], 0)
    new = old + step if old + step <= limit else old - step
    return f"{code.text[: match.start()]}offset:{new}{code.text[match.end() :]}"


def _pair_shifted(code: Code, units: int) -> str:
    offsets = {int(m[1]): int(m[2], 0) for m in _PAIR_OFFSET.finditer(code.text)}
    plain = _PAIR_OFFSET.sub("", code.text).strip()
    both = [offsets.get(k, 0) for k in (0, 1)]
    step = units if max(both) + units <= 255 else -units
    low, high = (max(0, b + step) for b in both)
    return f"{plain} offset0:{low} offset1:{high}"


def _far(code: Code, arch: str) -> str:
    """An addition to the address register before the instruction, undone after it unless the load replaces it."""
    store = "store" in code.mnemonic or "write" in code.mnemonic
    add = "v_add_nc_u32_e32" if arch in WAVE32 else "v_add_u32_e32"
    lds = code.text.endswith(" lds") or "_lds_" in code.mnemonic
    place = 0 if store or lds or "atomic" in code.mnemonic or code.mnemonic.startswith("ds_add") else 1
    address = code.operands[place].split()[0] if place < len(code.operands) else ""
    found = _VGPRS.match(address)
    if code.mnemonic.startswith("buffer_"):
        found = _VGPRS.match(code.operands[0 if lds else 1].split()[0])
        if "offen" not in code.text:
            return ""
    if not found:
        return ""
    register, step = (int(found[1]), FAR) if found[1] else (int(found[3]), 1)
    if code.mnemonic.startswith("ds_"):
        step = 0x10000
    lines = [f"{add} v{register}, {step:#x}, v{register}", code.text]
    target = _VGPRS.match(code.operands[0].split()[0])
    loaded = range(0)
    if target and place == 1 and not code.mnemonic.startswith("buffer_store"):
        loaded = range(int(target[1] or target[2]), int(target[1] or target[3]) + 1)
    if register not in loaded:
        lines.append(f"{add} v{register}, {(1 << 32) - step:#x}, v{register}")
    return "\n".join(lines)


def _registers(code: Code, top: int) -> Iterator[Fault]:
    if (
        not code.mnemonic.startswith("v_")
        or _MATRIX.match(code.mnemonic)
        or "dual" in code.mnemonic
        or "::" in code.text
    ):
        return
    for k in range(1, len(code.operands)):
        word, *rest = code.operands[k].split()
        match = _VGPR.match(word)
        if match and int(match[1]) + 1 < top:
            words = list(code.operands)
            words[k] = " ".join((f"v{int(match[1]) + 1}", *rest))
            yield _one(Planted.RENUMBERED, code, f"{code.mnemonic} {', '.join(words)}")
