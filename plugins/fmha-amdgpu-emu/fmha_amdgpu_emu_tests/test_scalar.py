"""Every scalar integer instruction agrees with formulas for its result and SCC, on every architecture that has it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest

from fmha_amdgpu_emu_tests.support.harness import Snippets, check_each
from fmha_amdgpu_emu_tests.support.integer_cases import ALL, CDNA, RDNA, SPECIAL, signed

M32, M64 = 2**32 - 1, 2**64 - 1
GFX12 = ("gfx1201",)
OLDER = (*CDNA, "gfx1100")

Formula = Callable[..., int]


@dataclass(frozen=True)
class Op:
    """A scalar instruction.

    Attributes:
        widths: of the destination (0: none) and of the sources in bits; 16 is an immediate.
        value: the result for the sources. With ``more``, it also gets SCC and the old destination.
        scc: SCC for the sources ("keep": unchanged; "nonzero": of the result); with ``more``, called like ``value``.
    """

    name: str
    archs: tuple[str, ...]
    widths: tuple[int, ...]
    value: Formula | None
    scc: Formula | str = "keep"
    more: bool = False


def i32(x: int) -> int:
    """x as a signed 32-bit number."""
    return signed(x, 32)


def overflows(x: int) -> bool:
    """Whether the number does not fit in 32 signed bits."""
    return not -(2**31) <= x < 2**31


def find(text: str, what: str) -> int:
    """The position of the first such bit in the text; -1 if there is none."""
    return text.find(what)


def bits(x: int, width: int) -> str:
    """The bits, the highest first."""
    return f"{x:0{width}b}"


def field(width: int, sign: bool) -> Formula:
    """s_bfe: offset in the low bits of b, size in bits 22 to 16."""

    def formula(a: int, b: int) -> int:
        at, size = b & (width - 1), min(b >> 16 & 0x7F, width)
        if not sign:
            return a >> at & ((1 << size) - 1)
        return signed(signed(a, width) >> at, size) if size else 0

    return formula


def quads(x: int, width: int) -> list[bool]:
    """Whether any of four neighbouring bits is set, for each group of four."""
    return [bool(x >> 4 * k & 15) for k in range(width // 4)]


W2, W3 = (32, 32), (32, 32, 32)
D2, D3 = (64, 64), (64, 64, 64)
SHIFT = (64, 64, 32)


def both(name: str, formula: Callable[[int, int], int], archs: tuple[str, ...] = ALL) -> tuple[Op, Op]:
    """A bitwise instruction in both widths."""
    return Op(f"s_{name}_b32", archs, W3, formula, "nonzero"), Op(f"s_{name}_b64", archs, D3, formula, "nonzero")


SOP2 = (
    *(Op(n, a, W3, lambda a, b: a + b, lambda a, b: a + b > M32)
      for n, a in (("s_add_u32", OLDER), ("s_add_co_u32", GFX12))),
    *(Op(n, a, W3, lambda a, b: a - b, lambda a, b: b > a)
      for n, a in (("s_sub_u32", OLDER), ("s_sub_co_u32", GFX12))),
    *(Op(n, a, W3, lambda a, b: a + b, lambda a, b: overflows(i32(a) + i32(b)))
      for n, a in (("s_add_i32", OLDER), ("s_add_co_i32", GFX12))),
    *(Op(n, a, W3, lambda a, b: a - b, lambda a, b: overflows(i32(a) - i32(b)))
      for n, a in (("s_sub_i32", OLDER), ("s_sub_co_i32", GFX12))),
    *(Op(n, a, W3, lambda a, b, c, d: a + b + c, lambda a, b, c, d: a + b + c > M32, True)
      for n, a in (("s_addc_u32", OLDER), ("s_add_co_ci_u32", GFX12))),
    *(Op(n, a, W3, lambda a, b, c, d: a - b - c, lambda a, b, c, d: b + c > a, True)
      for n, a in (("s_subb_u32", OLDER), ("s_sub_co_ci_u32", GFX12))),
    Op("s_add_nc_u64", GFX12, D3, lambda a, b: a + b),
    Op("s_sub_nc_u64", GFX12, D3, lambda a, b: a - b),
    Op("s_mul_u64", GFX12, D3, lambda a, b: a * b),
    Op("s_min_i32", ALL, W3, lambda a, b: min(i32(a), i32(b)), lambda a, b: i32(a) < i32(b)),
    Op("s_min_u32", ALL, W3, min, lambda a, b: a < b),
    Op("s_max_i32", ALL, W3, lambda a, b: max(i32(a), i32(b)), lambda a, b: i32(a) >= i32(b)),
    Op("s_max_u32", ALL, W3, max, lambda a, b: a >= b),
    Op("s_absdiff_i32", ALL, W3, lambda a, b: abs(i32(a - b)), "nonzero"),
    *(Op(f"s_lshl{n}_add_u32", ALL, W3, lambda a, b, n=n: (a << n) + b, lambda a, b, n=n: (a << n) + b > M32)
      for n in (1, 2, 3, 4)),
    Op("s_mul_i32", ALL, W3, lambda a, b: a * b),
    Op("s_mul_hi_u32", ALL, W3, lambda a, b: a * b >> 32),
    Op("s_mul_hi_i32", ALL, W3, lambda a, b: i32(a) * i32(b) >> 32),
    *both("and", lambda a, b: a & b), *both("or", lambda a, b: a | b), *both("xor", lambda a, b: a ^ b),
    *both("andn2", lambda a, b: a & ~b, CDNA), *both("and_not1", lambda a, b: a & ~b, RDNA),
    *both("orn2", lambda a, b: a | ~b, CDNA), *both("or_not1", lambda a, b: a | ~b, RDNA),
    *both("nand", lambda a, b: ~(a & b)), *both("nor", lambda a, b: ~(a | b)), *both("xnor", lambda a, b: ~(a ^ b)),
    Op("s_lshl_b32", ALL, W3, lambda a, b: a << (b & 31), "nonzero"),
    Op("s_lshl_b64", ALL, SHIFT, lambda a, b: a << (b & 63), "nonzero"),
    Op("s_lshr_b32", ALL, W3, lambda a, b: a >> (b & 31), "nonzero"),
    Op("s_lshr_b64", ALL, SHIFT, lambda a, b: a >> (b & 63), "nonzero"),
    Op("s_ashr_i32", ALL, W3, lambda a, b: i32(a) >> (b & 31), "nonzero"),
    Op("s_ashr_i64", ALL, SHIFT, lambda a, b: signed(a, 64) >> (b & 63), "nonzero"),
    Op("s_cselect_b32", ALL, W3, lambda a, b, c, d: a if c else b, more=True),
    Op("s_cselect_b64", ALL, D3, lambda a, b, c, d: a if c else b, more=True),
    Op("s_bfe_u32", ALL, W3, field(32, False), "nonzero"), Op("s_bfe_i32", ALL, W3, field(32, True), "nonzero"),
    Op("s_bfe_u64", ALL, SHIFT, field(64, False), "nonzero"), Op("s_bfe_i64", ALL, SHIFT, field(64, True), "nonzero"),
    Op("s_bfm_b32", ALL, W3, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    Op("s_bfm_b64", ALL, (64, 32, 32), lambda a, b: ((1 << (a & 63)) - 1) << (b & 63)),
    Op("s_pack_ll_b32_b16", ALL, W3, lambda a, b: (b & 0xFFFF) << 16 | a & 0xFFFF),
    Op("s_pack_lh_b32_b16", ALL, W3, lambda a, b: (b >> 16) << 16 | a & 0xFFFF),
    Op("s_pack_hl_b32_b16", RDNA, W3, lambda a, b: (b & 0xFFFF) << 16 | a >> 16),
    Op("s_pack_hh_b32_b16", ALL, W3, lambda a, b: (b >> 16) << 16 | a >> 16),
)  # fmt: skip


def counting(old: str, new: str | None, of: tuple[str, str], formula: Callable[[int, int], int]) -> tuple[Op, ...]:
    """A bit count or position in 32 and 64 bits; ``new`` is its name on RDNA (None: RDNA lacks it)."""
    out = []
    for suffix, width in zip(of, (32, 64), strict=True):
        value = lambda a, width=width: formula(a, width)  # noqa: E731
        out.append(Op(f"s_{old}{suffix}", CDNA, (32, width), value))
    if new:
        for suffix, width in zip(("_u32", "_u64") if new == "clz_i32" else of, (32, 64), strict=True):
            value = lambda a, width=width: formula(a, width)  # noqa: E731
            out.append(Op(f"s_{new}{suffix}", RDNA, (32, width), value))
    return tuple(out)


B = ("_b32", "_b64")
SOP1 = (
    Op("s_mov_b32", ALL, W2, lambda a: a), Op("s_mov_b64", ALL, D2, lambda a: a),
    Op("s_cmov_b32", ALL, W2, lambda a, c, d: a if c else d, more=True),
    Op("s_cmov_b64", ALL, D2, lambda a, c, d: a if c else d, more=True),
    Op("s_not_b32", ALL, W2, lambda a: ~a, "nonzero"), Op("s_not_b64", ALL, D2, lambda a: ~a, "nonzero"),
    Op("s_brev_b32", ALL, W2, lambda a: int(bits(a, 32)[::-1], 2)),
    Op("s_brev_b64", ALL, D2, lambda a: int(bits(a, 64)[::-1], 2)),
    Op("s_wqm_b32", ALL, W2, lambda a: sum(15 << 4 * k for k, q in enumerate(quads(a, 32)) if q), "nonzero"),
    Op("s_wqm_b64", ALL, D2, lambda a: sum(15 << 4 * k for k, q in enumerate(quads(a, 64)) if q), "nonzero"),
    Op("s_quadmask_b32", ALL, W2, lambda a: sum(1 << k for k, q in enumerate(quads(a, 32)) if q), "nonzero"),
    Op("s_quadmask_b64", ALL, D2, lambda a: sum(1 << k for k, q in enumerate(quads(a, 64)) if q), "nonzero"),
    Op("s_bcnt0_i32_b32", ALL, W2, lambda a: 32 - a.bit_count(), "nonzero"),
    Op("s_bcnt0_i32_b64", ALL, (32, 64), lambda a: 64 - a.bit_count(), "nonzero"),
    Op("s_bcnt1_i32_b32", ALL, W2, lambda a: a.bit_count(), "nonzero"),
    Op("s_bcnt1_i32_b64", ALL, (32, 64), lambda a: a.bit_count(), "nonzero"),
    *counting("ff0_i32", None, B, lambda a, n: find(bits(a, n)[::-1], "0")),
    *counting("ff1_i32", "ctz_i32", B, lambda a, n: find(bits(a, n)[::-1], "1")),
    *counting("flbit_i32", "clz_i32", B, lambda a, n: find(bits(a, n), "1")),
    *counting("flbit_i32", "cls_i32", ("", "_i64"), lambda a, n: find(bits(a, n), "10"[a >> (n - 1)])),
    Op("s_sext_i32_i8", ALL, W2, lambda a: signed(a, 8)), Op("s_sext_i32_i16", ALL, W2, lambda a: signed(a, 16)),
    Op("s_abs_i32", ALL, W2, lambda a: abs(i32(a)), "nonzero"),
    Op("s_bitset0_b32", ALL, W2, lambda a, c, d: d & ~(1 << (a & 31)), more=True),
    Op("s_bitset1_b32", ALL, W2, lambda a, c, d: d | 1 << (a & 31), more=True),
    Op("s_bitset0_b64", ALL, (64, 32), lambda a, c, d: d & ~(1 << (a & 63)), more=True),
    Op("s_bitset1_b64", ALL, (64, 32), lambda a, c, d: d | 1 << (a & 63), more=True),
    Op("s_bitreplicate_b64_b32", ALL, (64, 32), lambda a: int("".join(2 * b for b in bits(a, 32)), 2)),
)  # fmt: skip

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}  # fmt: skip

SOPC = (
    *(Op(f"s_cmp_{n}_u32", ALL, (0, 32, 32), None, f) for n, f in COMPARISONS.items()),
    *(
        Op(f"s_cmp_{n}_i32", ALL, (0, 32, 32), None, lambda a, b, f=f: f(i32(a), i32(b)))
        for n, f in COMPARISONS.items()
    ),
    *(Op(f"s_cmp_{n}_u64", ALL, (0, 64, 64), None, COMPARISONS[n]) for n in ("eq", "lg")),
    *(Op(f"s_bitcmp{k}_b32", ALL, (0, 32, 32), None, lambda a, b, k=k: a >> (b & 31) & 1 == k) for k in (0, 1)),
    *(Op(f"s_bitcmp{k}_b64", ALL, (0, 64, 32), None, lambda a, b, k=k: a >> (b & 63) & 1 == k) for k in (0, 1)),
)

SOPK = (
    Op("s_movk_i32", ALL, (32, 16), lambda k: signed(k, 16)),
    Op("s_cmovk_i32", ALL, (32, 16), lambda k, c, d: signed(k, 16) if c else d, more=True),
    *(Op(n, a, (32, 16), lambda k, c, d: d + signed(k, 16), lambda k, c, d: overflows(i32(d) + signed(k, 16)), True)
      for n, a in (("s_addk_i32", OLDER), ("s_addk_co_i32", GFX12))),
    Op("s_mulk_i32", ALL, (32, 16), lambda k, c, d: d * signed(k, 16), more=True),
    *(Op(f"s_cmpk_{n}_u32", OLDER, (0, 32, 16), None, f) for n, f in COMPARISONS.items()),
    *(Op(f"s_cmpk_{n}_i32", OLDER, (0, 32, 16), None, lambda a, k, f=f: f(i32(a), signed(k, 16)))
      for n, f in COMPARISONS.items()),
)  # fmt: skip

OPS = (*SOP2, *SOP1, *SOPC, *SOPK)
INSTANCES = 12
IMMEDIATES = (0, 1, 0xFFFF, 0x7FFF, 0x8000, 0x1234, 0xFFF0, 5, 0x8001, 2, 0x7F, 0x80)


def _values(op: Op, seed: int) -> list[list[int]]:
    """Sources of each instance, then SCC and the old destination; in some instances both sources are equal."""
    rng = random.Random(f"{op.name} {seed}")
    out = []
    for at in range(INSTANCES):
        row = []
        for width in op.widths[1:]:
            pick = [rng.choice((rng.getrandbits(32), rng.choice(SPECIAL), rng.getrandbits(5))) for _ in range(2)]
            row.append(IMMEDIATES[at] if width == 16 else pick[0] | (pick[1] << 32 if width == 64 else 0))
        if len(row) == 2 and at % 4 == 0 and op.widths[2] != 16:
            row[1] = row[0] & ((1 << op.widths[2]) - 1)
        if len(row) == 2 and at == 5 and op.widths[2] == 16:
            row[0] = IMMEDIATES[at]
        out.append([*row, rng.getrandbits(1), rng.getrandbits(64)])
    return out


def _name(number: int, width: int) -> str:
    return f"s[{number}:{number + 1}]" if width == 64 else f"s{number}"


def text_of(op: Op) -> str:
    """Each instance uses s[8n:8n+7]: destination, sources, SCC before, SCC after."""
    lines: list[str] = []
    for at in range(INSTANCES):
        base = 8 * at
        operands = [_name(base, op.widths[0])] if op.widths[0] else []
        for k, width in enumerate(op.widths[1:]):
            operands.append(f"{IMMEDIATES[at]:#x}" if width == 16 else _name(base + 2 + 2 * k, width))
        lines += (
            f"s_cmp_lg_u32 s{base + 6}, 0",
            f"{op.name} {', '.join(operands)}",
            f"s_cselect_b32 s{base + 7}, 1, 0",
        )
    return "\n".join(lines)


@cache
def snippets(arch: str, folder: Path) -> Snippets:
    return Snippets(arch, folder, {op.name: text_of(op) for op in OPS if arch in op.archs})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the snippets of this module are assembled."""
    return tmp_path_factory.mktemp("scalar")


@pytest.mark.parametrize("arch", sorted({arch for op in OPS for arch in op.archs}))
def test_scalar_integers(arch: str, folder: Path) -> None:
    check_each((op.name, partial(check_scalar, arch, op, folder)) for op in OPS if arch in op.archs)


def check_scalar(arch: str, op: Op, folder: Path) -> None:
    """Results, SCC and the registers around them, for three sets of operands."""
    for seed in range(3):
        before = {}
        rows = _values(op, seed)
        for at, (*sources, scc, old) in enumerate(rows):
            base = 8 * at
            before.update({base: old & M32, base + 1: old >> 32, base + 6: scc})
            for k, value in enumerate(sources):
                before.update({base + 2 + 2 * k: value & M32, base + 3 + 2 * k: value >> 32})
        after = snippets(arch, folder).run(op.name, s=before)
        for at, (*sources, scc, old) in enumerate(rows):
            base, width = 8 * at, op.widths[0]
            old &= (1 << width) - 1 if width else M64
            given = (*sources, scc, old) if op.more else tuple(sources)
            shown = f"{op.name} of {[hex(x) for x in given]}, SCC {scc}"
            result = None
            if op.value is not None:
                result = op.value(*given) & ((1 << width) - 1)
                got = int(after.s[base]) | (int(after.s[base + 1]) << 32 if width == 64 else 0)
                assert got == result, f"{shown}: {got:#x}, not {result:#x}"
            if width < 64:  # the second register is unused
                assert int(after.s[base + 1]) == before[base + 1], shown
            want = scc if op.scc == "keep" else result != 0 if op.scc == "nonzero" else op.scc(*given)  # type: ignore[operator]
            assert int(after.s[base + 7]) == int(bool(want)), f"{shown}: SCC {after.s[base + 7]}, not {int(bool(want))}"


SAVES: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, e: a & e, "or": lambda a, e: a | e, "xor": lambda a, e: a ^ e, "nand": lambda a, e: ~(a & e),
    "nor": lambda a, e: ~(a | e), "xnor": lambda a, e: ~(a ^ e),
    "andn2": lambda a, e: a & ~e, "orn2": lambda a, e: a | ~e, "andn1": lambda a, e: ~a & e, "orn1": lambda a, e: ~a | e,
    "and_not1": lambda a, e: a & ~e, "or_not1": lambda a, e: a | ~e, "and_not0": lambda a, e: ~a & e,
    "or_not0": lambda a, e: ~a | e,
}  # fmt: skip
WRITES = {name: SAVES[name] for name in ("andn2", "andn1", "and_not1", "and_not0")}


def _exec_names(arch: str, width: int) -> list[tuple[str, Callable[[int, int], int]]]:
    new = arch not in CDNA
    kinds = ((SAVES, "saveexec"), (WRITES, "wrexec"))
    return [
        (f"s_{name}_{kind}_b{width}", formula)
        for table, kind in kinds
        for name, formula in table.items()
        if ("_not" in name) == new or name in ("and", "or", "xor", "nand", "nor", "xnor")
    ]


@pytest.mark.parametrize(("arch", "wave64"), [*((a, True) for a in ALL), *((a, False) for a in RDNA)])
def test_exec_saved_and_written(arch: str, wave64: bool, folder: Path) -> None:
    """saveexec returns the old EXEC, wrexec the new one; SCC shows whether a lane is left."""
    width = 64 if wave64 else 32
    full = (1 << width) - 1
    names = _exec_names(arch, width)
    assert len(names) == 12
    pair = _name(4, width), _name(6, width)
    run = Snippets(arch, folder, {name: f"{name} {pair[0]}, {pair[1]}" for name, _ in names}, wave64=wave64)
    rng = random.Random(5)
    for name, formula in names:
        for a, exec_ in (
            (0, full),
            (full, full),
            (0, 0),
            (full, 0),
            *((rng.getrandbits(64) & full, rng.getrandbits(64) & full) for _ in range(3)),
        ):
            after = run.run(name, s={6: a & M32, 7: a >> 32}, exec=exec_, scc=int(exec_ == 0))
            new = formula(a, exec_) & full
            assert after.exec_mask == new, name
            assert after.mask(4) == (new if "wrexec" in name else exec_), name
            assert after.scc == (new != 0), name


@pytest.mark.parametrize("arch", ALL)
def test_registers_through_m0(arch: str, folder: Path) -> None:
    texts = {
        "movrels": "s_movrels_b32 s3, s8",
        "movrels64": "s_movrels_b64 s[4:5], s[8:9]",
        "movreld": "s_movreld_b32 s20, s8",
        "movreld64": "s_movreld_b64 s[20:21], s[8:9]",
    }
    if arch in RDNA:
        texts["movrelsd_2"] = "s_movrelsd_2_b32 s20, s8"
    run = Snippets(arch, folder, texts)
    before = {k: 1000 + k for k in range(100)}
    assert run.run("movrels", s=before, m0=5).s[3] == 1013
    assert list(run.run("movrels64", s=before, m0=6).s[4:6]) == [1014, 1015]
    assert run.run("movreld", s=before, m0=5).s[25] == 1008
    assert list(run.run("movreld64", s=before, m0=6).s[26:28]) == [1008, 1009]
    if arch in RDNA:
        assert run.run("movrelsd_2", s=before, m0=7 << 16 | 3).s[27] == 1011
