"""Fragments of mma and ldmatrix against plain matrix products; sums in ascending k."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, launch, module

KINDS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
SHAPES = [("f16", 16, "f32"), ("f16", 8, "f32"), ("bf16", 16, "f32"), ("bf16", 8, "f32"), ("tf32", 8, "f32"), ("tf32", 4, "f32"), ("f16", 16, "f16"), ("f16", 8, "f16"), *[(kind, k, sums) for kind in ("e4m3", "e5m2") for k in (16, 32) for sums in ("f32", "f16")]]  # fmt: skip


def registers(matrix: Array, place: Any, count: int) -> Array:
    """A fragment as (register, lane) words; ``place(register, lane, element)`` gives row and column."""
    per = 4 // matrix.dtype.itemsize
    out = np.zeros((count, 32, per), matrix.dtype)
    for r in range(count):
        for lane in range(32):
            for h in range(per):
                out[r, lane, h] = matrix[place(r, lane, h)]
    return out.reshape(count, -1).view(np.uint32)


def place_a(per: int) -> Any:
    """PTX ISA 9.7.14.5.8: row g + 8 (r % 2), column per t + h + 4 per (r / 2)."""
    return lambda r, lane, h: (lane // 4 + 8 * (r % 2), per * (lane % 4) + h + 4 * per * (r // 2))


def place_b(per: int) -> Any:
    return lambda r, lane, h: (per * (lane % 4) + h + 4 * per * r, lane // 4)


def place_d(per: int) -> Any:
    if per == 1:
        return lambda r, lane, h: (lane // 4 + 8 * (r // 2), 2 * (lane % 4) + r % 2)
    return lambda r, lane, h: (lane // 4 + 8 * r, 2 * (lane % 4) + h)


def multiply(kind: str, k: int, sums: str, a: Array, b: Array, c: Array) -> Array:
    """D of one mma; ``kind`` names the formats of A and B."""
    kind_a, _, kind_b = kind.partition(".")
    kind_b = kind_b or kind_a
    per_in, per_out = 4 // a.dtype.itemsize, 4 // c.dtype.itemsize
    counts = 16 * k // 32 // per_in, 8 * k // 32 // per_in, 4 // per_out
    fragments = np.concatenate(
        [
            registers(a, place_a(per_in), counts[0]),
            registers(b, place_b(per_in), counts[1]),
            registers(c, place_d(per_out), counts[2]),
        ]
    )
    names = [f"%r{10 + n}" for n in range(sum(counts))]
    loads = "\n".join(f"ld.global.b32 {name}, [%rd2+{128 * n}];" for n, name in enumerate(names))
    out = [f"%r{40 + n}" for n in range(counts[2])]
    groups = (out, names[: counts[0]], names[counts[0] : counts[0] + counts[1]], names[counts[0] + counts[1] :])
    operands = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    stores = "\n".join(f"st.global.b32 [%rd3+{128 * n}], {name};" for n, name in enumerate(out))
    body = f"""ld.param.u64 %rd1, [p1];
mad.wide.u32 %rd2, %r0, 4, %rd1;
mad.wide.u32 %rd3, %r0, 4, %rd0;
{loads}
mma.sync.aligned.m16n8k{k}.row.col.{sums}.{kind_a}.{kind_b}.{sums} {operands};
{stores}"""
    result = np.zeros((counts[2], 32), np.uint32)
    seen = launch(module(body, ".param .u64 p0, .param .u64 p1"), result, fragments)
    assert (seen.fault, seen.findings) == (None, [])
    assert seen.executed["matrix_flops"] == 2 * 16 * 8 * k
    d = np.zeros((16, 8), c.dtype)
    flat = result.view(c.dtype).reshape(counts[2], 32, per_out)
    for r in range(counts[2]):
        for lane in range(32):
            for h in range(per_out):
                d[place_d(per_out)(r, lane, h)] = flat[r, lane, h]
    return d


@pytest.mark.parametrize(("kind", "k", "sums"), SHAPES)
def test_a_product_is_the_plain_one(kind: str, k: int, sums: str) -> None:
    """Small integers: every order of sums gives the same, so a wrong place of a fragment is the only fault."""
    random = np.random.default_rng(k)
    a, b, c = (random.integers(-4, 5, shape) for shape in ((16, k), (k, 8), (16, 8)))
    out = np.float16 if sums == "f16" else np.float32
    d = multiply(kind, k, sums, a.astype(KINDS[kind]), b.astype(KINDS[kind]), c.astype(out))
    np.testing.assert_array_equal(d, (a @ b + c).astype(out))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_products_are_exact_and_sums_ascend(kind: str) -> None:
    """binary32 fma in ascending k, bit for bit."""
    random = np.random.default_rng(7)
    a, b = (random.normal(0, 2, shape).astype(KINDS[kind]) for shape in ((16, 16), (16, 8)))
    c = random.normal(0, 1, (16, 8)).astype(np.float32)
    wanted = c.copy()
    for k in range(16):  # a product of two halves and its sum with a float are exact in binary64 but for one rounding
        wanted = (a[:, k : k + 1].astype(np.longdouble) * b[k : k + 1].astype(np.longdouble) + wanted).astype(
            np.float32
        )
    np.testing.assert_array_equal(multiply(kind, 16, "f32", a, b, c), wanted)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_gives_rows_or_columns(count: int, transposed: bool) -> None:
    rows = np.arange(256, dtype=np.uint16).reshape(32, 8)
    names = [f"%r{10 + n}" for n in range(count)]
    vector = "{" + ", ".join(names) + "}"
    stores = "\n".join(f"st.global.b32 [%rd3+{128 * n}], {name};" for n, name in enumerate(names))
    body = f"""ld.param.u64 %rd1, [p1];
mul.wide.u32 %rd2, %r0, 16;
add.s64 %rd4, %rd1, %rd2;
ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd4];
shl.b32 %r30, %r0, 4;
mov.u32 %r31, tile;
add.s32 %r31, %r31, %r30;
st.shared.v4.b32 [%r31], {{%r20, %r21, %r22, %r23}};
bar.sync 0;
ldmatrix.sync.aligned.m8n8.x{count}{".trans" if transposed else ""}.shared.b16 {vector}, [%r31];
mad.wide.u32 %rd3, %r0, 4, %rd0;
{stores}"""
    result = np.zeros((count, 32), np.uint32)
    head = ".shared .align 16 .b8 tile[512];"
    seen = launch(module(body, ".param .u64 p0, .param .u64 p1", head=head), result, rows)
    assert (seen.fault, seen.findings) == (None, [])
    got = result.view(np.uint16).reshape(count, 8, 8)  # lane l holds elements 2(l % 4), 2(l % 4) + 1 of row l / 4
    for j in range(count):
        tile = rows[8 * j : 8 * j + 8]
        np.testing.assert_array_equal(got[j], tile.T if transposed else tile)
