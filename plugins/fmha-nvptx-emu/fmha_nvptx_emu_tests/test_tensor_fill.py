"""tcgen05.cp that unpacks elements of 4 and 6 bits, tcgen05.shift, and what tcgen05.ld.red makes of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.block_scales import contained, packed
from fmha_nvptx_emu_tests.support.ptx_machine import Array, Seen
from fmha_nvptx_emu_tests.test_tensor_memory import CP, copied, placed, run, vector

PACKED = {"b4x16_p64": ("e2m1", 4, [0, 1, 4, 5]), "b6x16_p32": ("e3m2", 6, [0, 1, 2, 4, 5, 6])}
"""Format -> a type of its bits, their number, and the words of 32 bytes that hold elements."""


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("shape", CP)
@pytest.mark.parametrize("format_", PACKED)
def test_a_copy_unpacks_elements(shape: str, format_: str) -> None:
    """Sixteen elements and their padding become sixteen bytes; nothing needs to have written the padding."""
    type_, bits, stored = PACKED[format_]
    codes = np.random.default_rng(bits).integers(0, 2**bits, (256, 16)).astype(np.uint8)
    image = packed(codes, bits).reshape(-1)
    out, seen = copied(f"{shape}.b8x16.{format_}", image.view(np.uint32), stored)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out, placed(shape, contained(codes, type_).reshape(-1)))


def test_an_element_that_nothing_wrote() -> None:
    _, seen = copied("128x256b.b8x16.b6x16_p32", np.zeros(1024, np.uint32), [0, 1, 4, 5, 6])
    assert set(seen.kinds) == {"uninitialised-register"}


def test_a_format_that_a_copy_does_not_have() -> None:
    _, seen = copied("128x256b.b8x16", np.zeros(1024, np.uint32))
    assert seen.fault is not None
    assert "b6x16_p32" in seen.fault


COMMIT = """mov.u32 %r34, hold; add.s32 %r34, %r34, 512; @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r34];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [hold+512], 0; @!%p2 bra W; tcgen05.fence::after_thread_sync;"""


def shifted(lane: int, commit: str = COMMIT, filled: str = "tcgen05.wait::st.sync.aligned;", column: int = 4) -> tuple[Array, Seen]:  # fmt: skip
    """Sixteen columns of each lane behind a shift of eight of them; column c of lane l had 16 l + c."""
    out = np.zeros((128, 16), np.uint32)
    body = "\n".join([
        "mad.wide.u32 %rd4, %r0, 64, %rd0; shl.b32 %r20, %r0, 4;", *(f"add.s32 %a{k}, %r20, {k};" for k in range(16)),
        f"tcgen05.st.sync.aligned.32x32b.x16.b32 [%r12], {vector(16)}; {filled} setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [hold+512], 1;",
        "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;",
        f"@%p1 tcgen05.shift.cta_group::1.down [%r10+{(lane << 16) + column}]; {commit}",
        f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {vector(16)}, [%r12]; tcgen05.wait::ld.sync.aligned;", *(f"st.global.b32 [%rd4+{4 * k}], %a{k};" for k in range(16)),
        "tcgen05.fence::before_thread_sync;",
    ])  # fmt: skip
    return out, run(body, out)


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("lane", [0, 32, 96])
def test_a_shift_moves_rows_down(lane: int) -> None:
    """PTX ISA 9.1, 9.7.16.9.3: elements of 32 bytes, of all rows but the last, by one row."""
    out, seen = shifted(lane)
    assert (seen.fault, seen.findings) == (None, [])
    wanted: Any = 16 * np.arange(128)[:, None] + np.arange(16)
    wanted[lane + 1 : lane + 32, 4:12] = wanted[lane : lane + 31, 4:12].copy()
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"commit": ""}, "missing-wait", "no wait for a tcgen05.commit lies between"),
        ({"filled": ""}, "missing-wait", "no tcgen05.wait::st between"),
        ({"column": 508}, "tensor-memory-misuse", "not all of them are allocated"),
    ],
)
def test_a_shift_that_is_misused(changed: dict[str, Any], kind: str, words: str) -> None:
    _, seen = shifted(0, **changed)
    assert seen.fault is None
    assert any(one["kind"] == kind and words in one["text"] for one in seen.findings), seen.findings


def test_a_shift_begins_at_a_multiple_of_32_lanes() -> None:
    _, seen = shifted(16)
    assert seen.fault is not None
    assert "not a multiple of 32" in seen.fault


def loaded(modifiers: str, words: Array, before: str = "", behind: str = "tcgen05.wait::ld.sync.aligned;", result: str = "%r20") -> tuple[Array, Seen]:  # fmt: skip
    """What a load with a reduction of ``words`` (128, n) leaves: the columns, and behind them what became of them."""
    n = words.shape[1]
    out = np.zeros((128, n + 1), np.uint32)
    body = "\n".join([
        f"ld.param.u64 %rd1, [p1]; mad.wide.u32 %rd1, %r0, {4 * n}, %rd1; mad.wide.u32 %rd4, %r0, {4 * n + 4}, %rd0;", *(f"ld.global.b32 %a{k}, [%rd1+{4 * k}];" for k in range(n)),
        f"tcgen05.st.sync.aligned.32x32b.x{n}.b32 [%r12], {vector(n)}; tcgen05.wait::st.sync.aligned; {before}",
        f"tcgen05.ld.red.sync.aligned.32x32b.x{n}.{modifiers} {vector(n)}, {result}, [%r12]; {behind}",
        *(f"st.global.b32 [%rd4+{4 * k}], %a{k};" for k in range(n)), f"st.global.b32 [%rd4+{4 * n}], %r20; tcgen05.wait::ld.sync.aligned;",
    ])  # fmt: skip
    return out, run(body, out, np.ascontiguousarray(words).view(np.uint32))


@pytest.mark.promise("`tcgen05` and bulk reductions agree with numpy in every layout, type and shape.")
@pytest.mark.parametrize("n", [2, 16, 64])
@pytest.mark.parametrize("type_", ["u32", "s32", "f32"])
@pytest.mark.parametrize("what", ["min", "max"])
def test_a_load_reduces_its_columns(what: str, type_: str, n: int) -> None:
    random, dtype = np.random.default_rng(n), {"u32": np.uint32, "s32": np.int32, "f32": np.float32}[type_]
    words = random.normal(0, 5, (128, n)).astype(dtype) if type_ == "f32" else random.integers(0, 2**32, (128, n), np.uint32).view(dtype)  # fmt: skip
    out, seen = loaded(f"{what}.{type_}", words)
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out[:, :n], words.view(np.uint32))
    np.testing.assert_array_equal(out[:, n].view(dtype), getattr(words, what)(axis=1))


def test_the_result_may_be_a_vector_of_one() -> None:
    """So Triton writes it."""
    words = np.random.default_rng(1).normal(0, 5, (128, 4)).astype(np.float32)
    out, seen = loaded("max.f32", words, result="{%r20}")
    assert (seen.fault, seen.findings) == (None, [])
    np.testing.assert_array_equal(out[:, 4].view(np.float32), words.max(axis=1))


def test_a_reduction_of_special_values() -> None:
    """Magnitudes with .abs; NaN counts with .NaN alone; -0 is less than +0."""
    words = np.full((128, 4), 1, np.float32)
    words[0], words[1], words[2], words[3] = [-3, 2, -5, 1], [np.nan, 2, -5, 1], np.nan, [0, -0.0, 0, -0.0]
    least, _ = loaded("min.f32", words)
    largest, _ = loaded("max.f32", words)
    absolute, _ = loaded("max.abs.f32", words)
    kept, _ = loaded("min.NaN.f32", words)
    by = [x[:4, 4].view(np.float32) for x in (least, largest, absolute, kept)]
    np.testing.assert_array_equal(by[0], [-5, -5, np.nan, -0.0])
    np.testing.assert_array_equal(by[1], [2, 2, np.nan, 0])
    np.testing.assert_array_equal(by[2], [5, 5, np.nan, 0])
    np.testing.assert_array_equal(by[3], [-5, np.nan, np.nan, 0])
    assert np.signbit(by[0][3])
    assert not np.signbit(by[1][3])
    assert by[3][1].view(np.uint32) == 0x7FFFFFFF


def test_what_is_made_of_words_that_nothing_wrote() -> None:
    before = "add.s32 %r12, %r12, 1;"
    _, seen = loaded("max.f32", np.ones((128, 4), np.float32), before=before)
    assert seen.kinds.count("uninitialised-register") == 2  # the last column, and what became of all
    _, seen = loaded("max.f32", np.ones((128, 4), np.float32), behind="mov.b32 %r20, 0;")
    assert "missing-wait" in seen.kinds


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("ld.red.sync.aligned.32x32b.x1.max.f32 {%a0}, %r20, [%r12]", "from .x2 on"),
        ("ld.red.sync.aligned.16x32bx2.x2.max.f32 {%a0, %a1}, %r20, [%r12], 16", "32x32b from .x2 on"),
        ("ld.red.sync.aligned.32x32b.x2.f32 {%a0, %a1}, %r20, [%r12]", "it needs .min or .max"),
        ("ld.red.sync.aligned.32x32b.x2.max.abs.s32 {%a0, %a1}, %r20, [%r12]", "not implemented"),
    ],
)
def test_reductions_that_are_not_implemented_stop_by_their_name(instruction: str, words: str) -> None:
    seen = run(f"tcgen05.{instruction};", np.zeros(1, np.uint32))
    assert seen.fault is not None
    assert words in seen.fault
