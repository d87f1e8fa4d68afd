"""Tables of instructions with their formulas, and the runner that tests of integers, moves and compares share.

A formula works on Python integers: the raw bits of each source in one lane. It returns the raw bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.harness import ARCHS, Snippets, check_each

Words = npt.NDArray[np.uint32]

CDNA = ("gfx90a", "gfx942", "gfx950")
RDNA = ("gfx1100", "gfx1201")
ALL = ARCHS

SPECIAL = (
    0, 1, 2, 3, 7, 15, 16, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x10000,
    0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x55555555,
    0xAAAAAAAA, 0x00010001, 0x7FFF7FFF, 0x80008000, 0xFFFF0000, 0x0000FFFF, 0x7FFF8000, 0x00200004,
)  # fmt: skip


def words(seed: int, *shape: int) -> Words:
    """Random 32-bit words; a third are special, a sixth are small."""
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 2**32, shape, dtype=np.uint32)
    kind = rng.integers(0, 6, shape)
    out = np.where(kind < 2, rng.choice(np.array(SPECIAL, np.uint32), shape), out)
    return np.where(kind == 2, rng.integers(0, 40, shape, dtype=np.uint32), out).astype(np.uint32)


def signed(x: int, bits: int) -> int:
    """The low ``bits`` of x as a two's complement number."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def clamp(x: int, low: int, high: int) -> int:
    """x limited to the range from low to high."""
    return min(max(x, low), high)


@dataclass(frozen=True)
class IntegerInstruction:
    """One vector instruction: ``widths`` of the destination and of the sources in bits (16, 32, 64, 128).

    Attributes:
        keeps: whether a 16-bit result leaves the upper half of its register unchanged on CDNA too.
        mods: the text after the operands.
    """

    name: str
    archs: tuple[str, ...]
    widths: tuple[int, ...]
    formula: Callable[..., int]
    keeps: bool = False
    mods: str = ""

    @property
    def key(self) -> str:
        """A label that the assembler accepts."""
        return self.name + "".join(c if c.isalnum() else "_" for c in self.mods)


ROWS = 4
"""Instances of an instruction in one snippet, each on separate registers."""
EXEC = 0xF3A5_9C71_5B0F_E6D9


def _register(number: int, width: int, half: int | None) -> str:
    if width > 32:
        return f"v[{number}:{number + width // 32 - 1}]"
    return f"v{number}" + ("" if half is None else (".l", ".h")[half])


def _halves(case: IntegerInstruction, arch: str, row: int) -> list[int | None]:
    """The half that each 16-bit operand names: varied on gfx1100, the lower one elsewhere."""
    if arch != "gfx1100" or 16 not in case.widths:
        return [None] * len(case.widths)
    return [(row >> k & 1) if width == 16 else None for k, width in enumerate(case.widths)]


def _numbers(case: IntegerInstruction, row: int) -> list[int]:
    """The first registers of the destination and of each source."""
    return [8 + 4 * row, *(32 + 16 * k + 4 * row for k in range(len(case.widths) - 1))]


def text_of(case: IntegerInstruction, arch: str) -> str:
    """The snippet."""
    lines = []
    for row in range(ROWS):
        halves, numbers = _halves(case, arch, row), _numbers(case, row)
        registers = [_register(n, w, h) for n, w, h in zip(numbers, case.widths, halves, strict=True)]
        lines.append(f"{case.name} {', '.join(registers)} {case.mods}")
    return "\n".join(lines)


@cache
def snippets_of(cases: tuple[IntegerInstruction, ...], arch: str, folder: Path) -> Snippets:
    """All cases that exist on the architecture, assembled together."""
    return Snippets(arch, folder, {case.key: text_of(case, arch) for case in cases if arch in case.archs})


def _read(v: list[list[int]], number: int, width: int, half: int | None, lane: int) -> int:
    if width > 32:
        return sum(v[number + d][lane] << (32 * d) for d in range(width // 32))
    value = v[number][lane]
    return value >> (16 * (half or 0)) & 0xFFFF if width == 16 else value


def check_vector(case: IntegerInstruction, arch: str, snippets: Snippets) -> None:
    """Run it on random and special values with some lanes disabled; compare every lane with the formula."""
    registers = words(sum(map(ord, case.key)), 96, 64)
    result = snippets.run(case.key, v={0: registers}, exec=EXEC & ((1 << snippets.lanes) - 1)).v
    before, after = registers.tolist(), result[: len(registers)].tolist()
    for row in range(ROWS):
        halves, numbers = _halves(case, arch, row), _numbers(case, row)
        for lane in range(64):
            old = _read(before, numbers[0], max(32, case.widths[0]), None, lane)
            want = old
            sources: list[int] = []
            if lane < snippets.lanes and EXEC >> lane & 1:
                sources = [
                    _read(before, n, w, h, lane)
                    for n, w, h in zip(numbers[1:], case.widths[1:], halves[1:], strict=True)
                ]
                want = case.formula(*sources) & ((1 << case.widths[0]) - 1)
                if case.widths[0] == 16:
                    want = _placed(case, arch, old, want, halves[0])
            got = _read(after, numbers[0], max(32, case.widths[0]), None, lane)
            assert got == want, f"{case.key} lane {lane} of {[hex(s) for s in sources]}: {got:#x}, not {want:#x}"


def _placed(case: IntegerInstruction, arch: str, old: int, value: int, half: int | None) -> int:
    """The register after a 16-bit result: common CDNA instructions clear the other half, all others keep it."""
    if half:
        return old & 0xFFFF | value << 16
    return value if arch in CDNA and not case.keeps else old & 0xFFFF0000 | value


def check_vectors(cases: Iterable[IntegerInstruction], arch: str, snippets: Snippets) -> None:
    """Check every instruction of an architecture."""
    check_each((case.key, partial(check_vector, case, arch, snippets)) for case in cases if arch in case.archs)
