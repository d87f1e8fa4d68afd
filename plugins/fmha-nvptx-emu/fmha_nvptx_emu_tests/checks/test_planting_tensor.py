"""Faults in tensor memory, products of descriptors, boxes, clusters and mbarriers: what is changed. Nothing is executed."""

from __future__ import annotations

import pytest

from tests.support.planted.ptx import faults
from tests.support.planted.ptx_runs import KERNELS
from tests.support.planted.statements import Planted

PRODUCT = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r2 + 0 ], %rd1, %rd2, %r3, %p2;"
FROM_TENSOR_MEMORY = "@%p1 tcgen05.mma.cta_group::2.kind::f16 [ %r2 + 0 ], [ %r4 + 8 ], %rd2, %r3, %p2;"
COMMIT = "@%p1 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %rs1;"
LOAD = "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1, {%r2, %r3}], [%r4], %rs1;"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];"
ROW = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r4];"
SUMS = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;"
WARPGROUP = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, %rd1, %rd2, p, 1, 1, 0, 0;"
FROM_REGISTERS = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, {%r1, %r2}, %rd2, p, 1, 1, 0;"
ALLOC = "@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;"
FREE = "@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 512;"


def changes(line: str, kind: Planted) -> list[str]:
    """What the faults of one class make of a line."""
    return [fault.after for fault in faults(f"{line}\n", row_bytes=128) if fault.kind is kind]


def moved(line: str, *pairs: tuple[str, str]) -> str:
    for before, after in pairs:
        assert line.count(before) == 1
        line = line.replace(before, after)
    return line


def scope(type_: str, operation: str, line: str) -> str:
    return f"{{ .reg .{type_} %planted; {operation}; {line} }}"


@pytest.mark.parametrize(
    ("line", "kind", "wanted"),
    [
        (ALLOC, Planted.ALLOCATED, [moved(ALLOC, ("512", "256"))]),
        (FREE, Planted.FREED, ["", moved(FREE, ("512", "256"))]),
        (COMMIT, Planted.COMMIT, [""]),
        (COMMIT, Planted.COMMITTED, [moved(COMMIT, ("[%r5]", "[%r5+8]"))]),
        (COMMIT, Planted.MULTICAST, [scope("b16", "xor.b16 %planted, %rs1, 1", moved(COMMIT, ("%rs1", "%planted")))]),
        (PRODUCT, Planted.PRODUCT, [""]),
        (PRODUCT, Planted.COLUMN, [moved(PRODUCT, ("[ %r2 + 0 ]", "[%r2+1]"))]),
        (FROM_TENSOR_MEMORY, Planted.COLUMN, [moved(FROM_TENSOR_MEMORY, ("[ %r2 + 0 ]", "[%r2+1]")), moved(FROM_TENSOR_MEMORY, ("[ %r4 + 8 ]", "[%r4+9]"))]),
        (PRODUCT, Planted.MATRIX, [scope("b64", f"add.s64 %planted, {r}, 1", moved(PRODUCT, (r, "%planted"))) for r in ("%rd1", "%rd2")]),
        (FROM_TENSOR_MEMORY, Planted.STRIDE, [scope("b64", f"xor.b64 %planted, %rd2, {1 << 32}", moved(FROM_TENSOR_MEMORY, ("%rd2", "%planted")))]),
        (FROM_TENSOR_MEMORY, Planted.MATRIX_SWIZZLE, [scope("b64", f"xor.b64 %planted, %rd2, {1 << 62}", moved(FROM_TENSOR_MEMORY, ("%rd2", "%planted")))]),
        (PRODUCT, Planted.FORM, [scope("b32", f"xor.b32 %planted, %r3, {1 << b}", moved(PRODUCT, ("%r3", "%planted"))) for b in (15, 16, 17, 24)]),
        (PRODUCT, Planted.KEPT, [scope("pred", "not.pred %planted, %p2", moved(PRODUCT, ("%p2", "%planted")))]),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3 + 64];", Planted.COLUMN, ["tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3+65];"]),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3 + 0], {%r1};", Planted.QUARTER, [f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3+{32 << 16}], {{%r1}};"]),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32[%r22],{%r1};", Planted.COLUMN, ["tcgen05.st.sync.aligned.32x32b.x1.b32 [%r22+1], {%r1};"]),
        ("tcgen05.wait::ld.sync.aligned;", Planted.WAIT_DROPPED, [""]),
        ("tcgen05.fence::after_thread_sync;", Planted.FENCE, [""]),
        (LOAD, Planted.COORDINATE, [scope("b32", f"add.s32 %planted, {r}, 1", moved(LOAD, (r, "%planted"))) for r in ("%r2", "%r3")]),
        (LOAD, Planted.COPIED, [moved(LOAD, ("[%r1]", "[%r1+1024]"))]),
        (STORE, Planted.COPIED, [moved(STORE, ("[%r1]", "[%r1+1024]"))]),
        (LOAD, Planted.COMMITTED, [scope("b32", "add.s32 %planted, %r4, 8", moved(LOAD, ("[%r4]", "[%planted]")))]),
        (STORE, Planted.COMMITTED, []),
        (LOAD, Planted.LOST, [""]),
        (ROW, Planted.LOST, [""]),
        (ROW, Planted.COPIED, [moved(ROW, ("[%r1]", "[%r1+1024]"))]),
        (ROW, Planted.COMMITTED, [moved(ROW, ("[%r4]", "[%r4+8]"))]),
        (SUMS, Planted.LOST, [""]),
        (SUMS, Planted.COPIED, [moved(SUMS, ("[%r1]", "[%r1+1024]"))]),
        (SUMS, Planted.COMMITTED, []),
        *((line, Planted.BYTES, [scope("b32", "add.s32 %planted, %r2, 16", moved(line, ("%r2", "%planted")))]) for line in (ROW, SUMS)),
        (WARPGROUP, Planted.PRODUCT, [""]),
        (WARPGROUP, Planted.MATRIX, [scope("b64", f"add.s64 %planted, {r}, 1", moved(WARPGROUP, (r, "%planted"))) for r in ("%rd1", "%rd2")]),
        (FROM_REGISTERS, Planted.STRIDE, [scope("b64", f"xor.b64 %planted, %rd2, {1 << 32}", moved(FROM_REGISTERS, ("%rd2", "%planted")))]),
        (FROM_REGISTERS, Planted.MATRIX_SWIZZLE, [scope("b64", f"xor.b64 %planted, %rd2, {1 << 62}", moved(FROM_REGISTERS, ("%rd2", "%planted")))]),
        (LOAD, Planted.MULTICAST, [scope("b16", "xor.b16 %planted, %rs1, 1", moved(LOAD, ("%rs1", "%planted")))]),
        ("mapa.shared::cluster.u32 %r1, %r2, %r3;", Planted.RANK, [scope("b32", "xor.b32 %planted, %r3, 1", "mapa.shared::cluster.u32 %r1, %r2, %planted;")]),
        ("barrier.cluster.wait.aligned;", Planted.CLUSTER, [""]),
    ],
)  # fmt: skip
def test_a_fault_changes_one_thing(line: str, kind: Planted, wanted: list[str]) -> None:
    assert changes(line, kind) == wanted


def test_every_mbarrier_is_invalidated_ahead_of_the_closing_barriers() -> None:
    inits = "@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;\n@%p2 mbarrier.init.shared::cta.b64 [%r2], 1;\n"
    text = (
        f"{inits}bar.sync 0;\nbarrier.sync 1;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n{FREE}\n"
    )
    found = [fault for fault in faults(text, 128) if fault.kind is Planted.INVALIDATED]
    assert [fault.line for fault in found] == [2, 2, 3, 3, 4, 4]
    assert found[4].after == "@%p1 mbarrier.inval.shared::cta.b64 [%r1]; barrier.cluster.arrive.aligned;"


def test_the_blackwell_kernels_are_those_of_the_plan() -> None:
    """16-bit floats, head dims 64 and 128, with a causal mask and without: one problem each. One more names two CTAs, with fp8."""
    here = [kernel for kernel in KERNELS if kernel.arch == "sm_100a"]
    flags = [kernel.flags for kernel in here if not kernel.kernels]
    assert [kernel.kernels for kernel in here if "fp8" in kernel.flags] == ["num_ctas=2"]
    assert len(set(flags)) == 8
    assert sum("--causal" in one for one in flags) == sum("-d 128" in one for one in flags) == 4
