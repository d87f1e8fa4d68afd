"""Small parts that GPU backends share: addresses, strides, the arena's mirror, device numbers, host arithmetic."""

from __future__ import annotations

from math import inf
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.backends.gpu.arithmetic import single, split_heuristic
from fmha_cli.backends.gpu.auxiliary import given_tables, rotary_tables
from fmha_cli.backends.gpu.call import Call, Strides, page_strides, row_strides
from fmha_cli.backends.gpu.devices import device_number, multiprocessors_of
from fmha_cli.backends.gpu.dry_run import ARENA, auxiliary_places, places_of, pointer_text
from fmha_cli.backends.gpu.host_side import alibi_shift, head_sums, workspace
from fmha_cli.backends.gpu.mirror import ALIGN, Mirror
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem, InternalError
from fmha_cli.domain.features import Layout
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.run.layout import layout_of


def a_kernel() -> KernelSpec:
    from fmha_cli.backends.flash_attn.catalogue import family_kernels
    from fmha_cli.domain.arch import load_arch

    return family_kernels(load_arch("sm_90"), Family.FWD)[0]


def call_for(line: str, **auxiliaries: int) -> Call[None]:
    problem = Problem.from_cli(line)
    plan = Plan(problem, (Stage(a_kernel()),))
    return Call(plan, None, layout_of(problem, gaps=True).tensors, ARENA, auxiliaries)


class Memory:
    """Device memory in a dictionary."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytearray] = {}
        self.log: list[tuple[Any, ...]] = []

    def malloc(self, size: int) -> int:
        address = 4096 * (1 + len(self.log))
        self.log.append(("malloc", size))
        self.blocks[address] = bytearray(size)
        return address

    def free(self, address: int) -> None:
        del self.blocks[address]

    def copy_in(self, device: int, host: int, size: int) -> None:
        self.log.append(("in", device, size))

    def copy_out(self, host: int, device: int, size: int) -> None:
        self.log.append(("out", device, size))

    def fill(self, address: int, value: int, size: int, stream: Any) -> None:
        self.log.append(("fill", address, size, stream))


def test_addresses() -> None:
    call = call_for("-b 2 -H 2 -s 5 -d 64", cu=77)
    assert call.address("q") == ARENA + call.tensors["q"].offset
    assert (call.address("cu"), call.address("bias")) == (77, 0)
    with pytest.raises(InternalError, match="holds no bias"):
        call.tensor("bias")


@pytest.mark.parametrize(
    ("shape", "strides", "layout", "want"),
    [
        ((2, 3, 5, 8), (120, 40, 8, 1), Layout.BHSD, Strides(120, 40, 8)),
        ((2, 5, 3, 8), (120, 24, 8, 1), Layout.BSHD, Strides(120, 8, 24)),
        ((5, 3, 8), (24, 8, 1), Layout.BSHD, Strides(0, 8, 24)),
        ((3, 5, 8), (40, 8, 1), Layout.BHSD, Strides(0, 40, 8)),
    ],
)
def test_strides_of_rows(shape: tuple[int, ...], strides: tuple[int, ...], layout: Layout, want: Strides) -> None:
    assert row_strides(BoundTensor("x", 0, "fp16", shape, strides), layout) == want


def test_strides_of_pages_and_of_what_is_not_contiguous() -> None:
    assert page_strides(BoundTensor("k", 0, "fp16", (9, 16, 3, 8), (384, 24, 8, 1))) == Strides(384, 8, 24)
    with pytest.raises(InternalError, match="contiguous"):
        row_strides(BoundTensor("q", 0, "fp16", (3, 5, 8), (80, 16, 2)), Layout.BHSD)


def test_outputs_follow_their_own_layout() -> None:
    call = call_for("-b 2 -H 3 -s 5 -d 64 --layout bhsd:bshd")
    assert call.rows("q").head > call.rows("q").row
    assert call.rows("o").head < call.rows("o").row


def test_places_and_pointers() -> None:
    call = call_for("-b 1 -H 2 -s 5 -d 64", **auxiliary_places(["cu", "cos"]))
    places = tuple(places_of(call))
    for name in ("q", "k", "v", "o", "cu", "cos"):
        assert pointer_text(call.address(name), places) == name
    assert pointer_text(call.address("q") + 6, places) == "q+6"
    assert (pointer_text(0, places), pointer_text(17, places)) == (None, "0x11")


def test_the_mirror_holds_the_arena_and_small_arrays() -> None:
    memory, arena = Memory(), bytearray(range(200))
    mirror = Mirror(memory, memoryview(arena))
    arrays = {"a": np.zeros(3, np.int32), "b": np.zeros(ALIGN + 1, np.uint8), "c": np.zeros(0, np.int32)}
    places = mirror.places(arrays)
    assert (places["b"] - places["a"], places["c"] - places["b"]) == (ALIGN, 2 * ALIGN)
    assert memory.log == [("malloc", 200), ("malloc", 3 * ALIGN)]
    assert mirror.places({}) == {}
    mirror.upload()
    mirror.write(places["c"], arrays["c"])
    mirror.write(places["a"], arrays["a"])
    mirror.download()
    assert memory.log[2:] == [("in", mirror.base, 200), ("in", places["a"], 12), ("out", mirror.base, 200)]
    mirror.host[0] = 9
    assert arena[0] == 9
    mirror.close()
    mirror.close()
    assert not memory.blocks


def test_eviction_writes_twice_the_cache_and_allocates_once() -> None:
    memory = Memory()
    mirror = Mirror(memory, memoryview(bytearray(8)))
    mirror.evict(1000, "s")
    mirror.evict(1000, "s")
    (_, allocated, first, second) = memory.log
    assert allocated == ("malloc", 2000)
    assert first == second == ("fill", max(memory.blocks), 2000, "s")


@pytest.mark.parametrize("name", ["hip:0", "cuda", "cuda:x", "none"])
def test_a_device_of_another_kind(name: str) -> None:
    with pytest.raises(EnvironmentProblem, match=f"{name} is not a CUDA device") as caught:
        device_number(DeviceFacts(id=name, archs=()), "cuda", "N006")
    assert caught.value.code == "N006"
    assert device_number(DeviceFacts(id="cuda:3", archs=()), "cuda", "N006") == 3


def test_multiprocessors() -> None:
    def products(arch: str) -> tuple[int, str]:
        return {"a": (0, ""), "b": (60, "B60")}.get(arch, (0, ""))

    assert multiprocessors_of(DeviceFacts(id="cuda:0", archs=("b",), units=7), products)[0] == 7
    assert multiprocessors_of(DeviceFacts(id="cuda:0", archs=("a", "b"), units=1), products)[0] == 60
    assert "B60" in multiprocessors_of(DeviceFacts(id="none", archs=("b",), units=9), products)[1]
    assert multiprocessors_of(DeviceFacts(id="none", archs=("a",)), products)[0] == 1


def test_single_precision_overflows_to_infinity() -> None:
    assert [single(v) for v in (0.8, 1e300, -1e300, 1e-60)] == [float(np.float32(0.8)), inf, -inf, 0.0]


def test_splits_fill_the_device() -> None:
    assert split_heuristic(1, 8, range(1, 9)) == 7  # 7/8 of the slots are within 85 % of all of them
    assert split_heuristic(7, 8, range(1, 9)) == 1
    assert split_heuristic(0, 8, range(1, 9)) == split_heuristic(1, 8, ()) == 1


ROTATED = "-s 1 -d 16 --kv-cache linear --cache-seqlens 2 --append 1 --rotary 8 --dtype bf16"


def test_rotary_tables() -> None:
    tables = rotary_tables(Problem.from_cli(ROTATED), 3)
    assert {name: (t.shape, t.dtype) for name, t in tables.items()} == {
        name: ((3, 4), np.dtype(ml_dtypes.bfloat16)) for name in ("rotary_cos", "rotary_sin")
    }
    assert float(tables["rotary_sin"][2, 0]) == float(ml_dtypes.bfloat16(np.sin(2.0)))
    with pytest.raises(InternalError, match="no rotary tables in fp32"):
        rotary_tables(Problem.from_cli(f"{ROTATED} --dtype fp32"), 3)


def test_rotary_tables_of_another_base() -> None:
    tables = rotary_tables(Problem.from_cli(f"{ROTATED} --rotary-base 500000"), 40)
    want = np.cos(np.arange(40)[:, None] * np.array([500000.0 ** (-2 * t / 8) for t in range(4)]))
    np.testing.assert_array_equal(tables["rotary_cos"], want.astype(ml_dtypes.bfloat16))


def test_given_rotary_tables_are_rounded_and_followed_by_zeros() -> None:
    problem = Problem.from_cli(f"{ROTATED} --rotary-cos filled --rotary-sin filled")
    empty = rotary_tables(problem, 5)
    assert not any(table.any() for table in empty.values())
    given = {name: np.full((3, 4), n + 0.1, np.float32) for n, name in enumerate(empty)}
    tables = given_tables(problem, empty, given.__getitem__)
    for n, name in enumerate(empty):
        assert (tables[name][:3] == ml_dtypes.bfloat16(n + 0.1)).all()
        assert not tables[name][3:].any()
    assert given_tables(Problem.from_cli(ROTATED), empty, given.__getitem__) == {}


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("-b 1 -H 1 -s 2 --seqlen-k 5 -d 64 --causal --alibi-slopes filled:h --lse", [[[3, 4]]]),
        ("-b 1 -H 1 -s 2 --seqlen-k 5 -d 64 --mask causal-tl --alibi-slopes filled:h --lse", [[[0, 1]]]),
        ("--seqlens-q 1,2 --seqlens-k 4,2 -H 1 -d 64 --causal --alibi-slopes filled:h --lse", [[3, 0, 1]]),
    ],
)
def test_the_shift_of_alibi(line: str, want: list[Any]) -> None:
    from fmha_cli.backends.gpu.arena_views import view

    problem = Problem.from_cli(line)
    layout = layout_of(problem)
    arena = np.zeros(layout.size, np.uint8)
    view(arena, layout.tensors["alibi_slopes"])[...] = 0.5
    assert alibi_shift(problem, layout.tensors, arena).tolist() == (0.5 * np.array(want)).tolist()


@pytest.mark.parametrize("axis", [1, -2])
def test_sums_over_the_heads_of_a_group(axis: int) -> None:
    parts = np.arange(2 * 6 * 4, dtype=np.float16).reshape(2, 6, 4)
    summed = head_sums(parts, 2, axis)
    assert summed.dtype == np.float32
    assert (summed == parts.reshape(2, 2, 3, 4).astype(np.float32).sum(2)).all()


def test_a_workspace_must_be_large_enough() -> None:
    arena = np.zeros(64, np.uint8)
    tensors = {"w": BoundTensor("w", 16, "uint8", (24,), (1,))}
    found = workspace(tensors, arena, "w", (2, 3), np.dtype(np.float32))
    found[1, 2] = 1
    assert arena[16 + 20 : 16 + 24].view(np.float32)[0] == 1
    assert workspace({}, arena, "w", (0, 3), np.dtype(np.float32)).shape == (0, 3)
    for name, shape in (("w", (7,)), ("x", (1,))):
        with pytest.raises(InternalError, match=f"no workspace {name}"):
            workspace(tensors, arena, name, shape, np.dtype(np.float32))
