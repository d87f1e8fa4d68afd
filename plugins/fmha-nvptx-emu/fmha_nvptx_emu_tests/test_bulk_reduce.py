"""cp.reduce.async.bulk: bytes and boxes of shared memory that change global memory element by element, against numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen, launch, module
from fmha_nvptx_emu_tests.test_tensor_copy import HEAD, PARAMETERS, PROXY, encode

TYPES: dict[str, Any] = {
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
OPS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16"), "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",), "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip
"""PTX ISA 9.1, 9.7.9.25.4.2."""
BYTES = 256
FILL = f"""ld.param.u64 %rd1, [p1]; shl.b32 %r5, %r0, 3; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd1; ld.global.b64 %rd6, [%rd5];
mov.u32 %r6, tile; add.s32 %r6, %r6, %r5; st.shared.b64 [%r6], %rd6; {PROXY} bar.sync 0; setp.eq.u32 %p1, %r0, 0;"""
DONE = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
ONE = (".param .u64 p0, .param .u64 p1",)


def reduced(op: str, old: Array, by: Array) -> Any:
    """numpy's word for one element after another."""
    if op in ("inc", "dec"):
        up = np.where(old >= by, 0, old + 1)
        return up if op == "inc" else np.where((old == 0) | (old > by), by, old - 1)
    if op in ("and", "or", "xor"):
        return getattr(np, f"bitwise_{op}")(old, by)
    return {"add": np.add, "min": np.minimum, "max": np.maximum}[op](old, by)


def numbers(type_: str, random: np.random.Generator, count: int) -> Array:
    dtype = TYPES[type_]
    if type_ in ("f16", "bf16", "f32", "f64"):
        return random.normal(0, 3, count).astype(dtype)
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count, dtype, endpoint=True)


def run(modifiers: str, old: Array, by: Array, done: str = DONE, fill: str = FILL, blocks: int = 1, size: int = BYTES) -> tuple[Array, Seen]:  # fmt: skip
    """What became of ``old``, 256 bytes."""
    out = old.copy()
    body = f"{fill} @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{modifiers} [%rd0], [tile], {size}; {done}"
    seen = launch(module(body, *ONE, head=HEAD), out.view(np.uint8), by.view(np.uint8), grid=(blocks, 1, 1), read_only=(1,))  # fmt: skip
    return out, seen


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize(("op", "type_"), [(op, type_) for op, types in OPS.items() for type_ in types])
def test_each_reduction_of_each_type(op: str, type_: str) -> None:
    plain = type_.removeprefix("noftz.")
    random, count = np.random.default_rng(len(op)), BYTES // np.dtype(TYPES[plain]).itemsize
    old, by = numbers(plain, random, count), numbers(plain, random, count)
    out, seen = run(f"{op}.{type_}", old, by)
    assert (seen.fault, seen.findings) == (None, [])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, reduced(op, old, by).astype(TYPES[plain]))


def test_sums_of_f32_flush_subnormal_numbers() -> None:
    old, by = np.zeros(64, np.float32), np.zeros(64, np.float32)
    old[:3], by[:3] = [1e-40, -1e-40, 2e-38], [1e-39, -1e-41, -1.9e-38]
    out, _ = run("add.f32", old, by)
    np.testing.assert_array_equal(out[:3], np.zeros(3, np.float32))
    assert np.signbit(out[:3]).tolist() == [False, True, False]


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_the_larger_one_of_special_halves(type_: str) -> None:
    nan = float("nan")
    old, by = np.ones(128, TYPES[type_]), np.ones(128, TYPES[type_])
    old[:4], by[:4] = [nan, 2, -0.0, nan], [1, nan, 0.0, nan]
    largest, _ = run(f"max.{type_}", old, by)
    least, _ = run(f"min.{type_}", old, by)
    np.testing.assert_array_equal(largest[:4].astype(np.float32), [1, 2, 0, nan])
    assert not np.signbit(largest[2].astype(np.float32))
    assert np.signbit(least[2].astype(np.float32))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("op", ["add.f32", "add.u32"])
def test_blocks_that_add_to_one_place_are_no_conflict(op: str) -> None:
    old, by = np.zeros(64, TYPES[op[4:]]), np.arange(64).astype(TYPES[op[4:]])
    out, seen = run(op, old, by, blocks=5)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out, 5 * by)


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"fill": FILL.replace(PROXY, "")}, "missing-fence", "no fence.proxy.async between"),
        ({"done": "@%p1 st.shared.u32 [tile], 7;" + DONE}, "missing-wait", "writes"),
        ({"fill": FILL.replace("st.shared.b64", "setp.lt.u32 %p2, %r0, 16; @%p2 st.shared.b64")}, "uninitialised-shared", "never written"),
        ({"size": 512}, "out-of-bounds", "writes 512 bytes"),
        ({"done": "@%p1 cp.async.bulk.commit_group;"}, "missing-wait", "still read its shared memory"),
    ],
)  # fmt: skip
def test_a_reduction_that_is_misused(changed: dict[str, Any], kind: str, words: str) -> None:
    _, seen = run("add.u32", np.zeros(64, np.uint32), np.ones(64, np.uint32), **changed)
    assert seen.fault is None, seen.fault
    assert any(one["kind"] == kind and words in one["text"] for one in seen.findings), seen.findings


@pytest.mark.parametrize(
    ("modifiers", "words"),
    [
        ("add.f16", "need .noftz"), ("add.noftz.f32", "nothing else has it"), ("min.f32", "does not exist for its type"), ("inc.s32", "does not exist for its type"),
        ("u32", "it has no reduction"), ("add.s64", "does not exist for its type"),
    ],
)  # fmt: skip
def test_a_reduction_that_the_document_does_not_have_stops_the_load(modifiers: str, words: str) -> None:
    _, seen = run(modifiers, np.zeros(64, np.uint32), np.zeros(64, np.uint32))
    assert seen.fault is not None
    assert words in seen.fault


def boxed(op: str, tensor: Array, box: Array, at: tuple[int, int], lanes: int = 1) -> tuple[Array, Seen]:
    """``tensor`` behind a reduction by a box, issued by the first ``lanes`` lanes."""
    out = tensor.copy()
    answer, map_ = encode(out, box.shape)
    assert answer == 0
    fill = "".join(f"ld.global.b64 %rd6, [%rd5+{256 * k}]; st.shared.b64 [%r6+{256 * k}], %rd6;" for k in range(box.nbytes // 256))  # fmt: skip
    body = f"""ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p2]; shl.b32 %r5, %r0, 3; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd1;
mov.u32 %r6, tile; add.s32 %r6, %r6, %r5; {fill} {PROXY} bar.sync 0; setp.lt.u32 %p1, %r0, {lanes};
@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group [%rd2, {{{at[1]}, {at[0]}}}], [tile]; {DONE}"""
    return out, launch(module(body, PARAMETERS, head=HEAD), box, out, map_, read_only=(0,))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize(("op", "dtype"), [("add", np.float32), ("add", np.int32), ("max", np.int32), ("add", np.float16), ("min", np.float16), ("xor", np.int32)])  # fmt: skip
@pytest.mark.parametrize("at", [(0, 0), (-3, 4), (12, 20)])
def test_a_box_changes_what_is_inside_of_the_tensor(op: str, dtype: Any, at: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    tensor, box = (random.integers(-50, 50, shape).astype(dtype) for shape in ((16, 40), (8, 32)))
    out, seen = boxed(op, tensor, box, at)
    assert (seen.fault, seen.findings) == (None, [])
    wanted = tensor.copy()
    rows, columns = (slice(max(0, a), min(size, a + b)) for a, b, size in zip(at, box.shape, tensor.shape, strict=True))
    inside = box[rows.start - at[0] : rows.stop - at[0], columns.start - at[1] : columns.stop - at[1]]
    wanted[rows, columns] = reduced(op, tensor[rows, columns], inside)
    np.testing.assert_array_equal(out, wanted)


def test_each_lane_that_issues_it_changes_the_tensor() -> None:
    """Unlike a store, of which lanes may repeat the same one."""
    tensor, box = np.zeros((16, 32), np.int32), np.ones((8, 32), np.int32)
    out, seen = boxed("add", tensor, box, (0, 0), lanes=3)
    assert seen.fault is None
    assert (out[:8] == 3).all()


def test_elements_that_have_no_such_reduction_stop_the_launch() -> None:
    _, seen = boxed("inc", np.zeros((16, 40), np.int32), np.zeros((8, 32), np.int32), (0, 0))
    assert seen.fault is not None
    assert "does not exist for the elements of this tensor map" in seen.fault
