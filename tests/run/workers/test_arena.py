"""The arena finds and names forbidden writes, and restores changed inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes  # noqa: F401 - registers the small float types with numpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import CacheStorage
from fmha_cli.domain.plan import Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import appended_rows, largest, numpy_dtype
from fmha_cli.run.arena import Arena
from fmha_cli.run.guards import REPORTED, Pattern, fill_words, holds, zones_of
from fmha_cli.run.layout import layout_of
from fmha_cli.run.protocol import map_shared

LINES = {
    "fp32": "-b 1 -H 2 -s 3 --seqlen-k 4 -d 5 --dtype fp32 --lse",
    "fp16": "-b 2 -H 2 -s 3 -d 8 --dtype fp16 --lse --layout bshd",
    "fp8": "-b 1 -H 2 -s 3 -d 3 --dtype fp8_e4m3:fp8_e4m3",
    "bf8": "-b 1 -H 2 -s 3 -d 3 --dtype fp8_e5m2:fp8_e5m2",
    "group": "--seqlens-q 3,0,2 -H 2 -d 4 --dtype bf16 --bias elementwise:1hss",
}
WITHOUT_POISON = {Element.INT8, Element.INT32, Element.E8M0, Element.FP4_E2M1}
"""Integers, and types of inputs alone: no kernel writes them."""
FNUZ = {Element.FP8_E4M3_FNUZ, Element.FP8_E5M2_FNUZ}
FLOATS = [element for element in Element if element not in WITHOUT_POISON | FNUZ]


@pytest.fixture(params=LINES)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    problem = Problem.from_cli(LINES[request.param])
    with Arena(layout_of(problem, [Workspace("w", 40)], gaps=True)) as one:
        one.write(fill(problem))
        one.prepare()
        yield one


def poke(arena: Arena, offset: int, value: int | None = None) -> None:
    """Change one byte through a separate mapping, as the worker would."""
    with map_shared(arena.fd, arena.layout.size) as memory:
        memory[offset] = memory[offset] ^ 0x55 if value is None else value


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("pattern", Pattern)
def test_both_patterns_are_nan_in_every_float_type(element: Element, pattern: Pattern) -> None:
    dtype = numpy_dtype(element)
    one = np.zeros(4, dtype)
    fill_words(one, pattern)
    assert np.isnan(one.astype(np.float32)).all()
    for start in (0, 1):  # the byte at even and odd offsets
        if start % dtype.itemsize == 0:
            assert np.isnan(np.array(pattern.bytes(start, 4 * dtype.itemsize)).view(dtype).astype(np.float32)).all()


@pytest.mark.parametrize("element", sorted(FNUZ))
@pytest.mark.parametrize("pattern", Pattern)
def test_both_patterns_are_the_largest_numbers_of_fnuz(element: Element, pattern: Pattern) -> None:
    one = np.zeros(4, numpy_dtype(element))
    fill_words(one, pattern)
    assert (np.abs(one.astype(np.float32)) == largest(element)).all()


@pytest.mark.parametrize("element", [Element.FP32, Element.FP16, Element.BF16])
@pytest.mark.parametrize("pattern", Pattern)
def test_a_computed_nan_is_not_taken_for_poison(element: Element, pattern: Pattern) -> None:
    with np.errstate(invalid="ignore"):
        computed = np.array([np.inf], np.float32) - np.array([np.inf], np.float32)
        made = np.concatenate([computed, -computed, [np.float32(np.nan)]]).astype(numpy_dtype(element))
    nvidia = np.full(1, (1 << 8 * made.itemsize - 1) - 1, f"u{made.itemsize}").view(
        made.dtype
    )  # PTX: 0x7fffffff, 0x7fff
    assert np.isnan(nvidia.astype(np.float32)).all()
    assert not holds(np.concatenate([made, nvidia]), pattern).any()


@pytest.mark.parametrize("run", [0, 1])
def test_a_prepared_arena_is_in_order(arena: Arena, run: int) -> None:
    arena.prepare(run)
    assert arena.violations() == ()
    assert arena.changed_inputs() == ()
    assert {u.tensor: u.count for u in arena.unwritten()} == {
        name: arena.view(name).size for name in ("o", "lse") if name in arena.layout.tensors
    }


@pytest.mark.parametrize("run", [0, 1])
def test_one_byte_anywhere_outside_the_elements_is_found(arena: Arena, run: int) -> None:
    rng = np.random.default_rng(run)
    marks = np.zeros(arena.layout.size, np.uint8)
    for zone in zones_of(arena.layout):
        zone.view(marks)[...] = 1
    edges = [slot.start - 1 for slot in arena.layout.slots] + [slot.end for slot in arena.layout.slots]
    for offset in [*edges, 0, arena.layout.size - 1, *rng.choice(np.flatnonzero(marks), 60)]:
        arena.prepare(run)
        poke(arena, int(offset))
        (found,) = arena.violations()
        assert (found.offset, found.bytes) == (offset, 1)


def test_violations_are_named_by_the_nearest_tensor(arena: Arena) -> None:
    for slot in arena.layout.slots:
        arena.prepare()
        poke(arena, slot.start - 1)
        (before,) = arena.violations()
        assert before.text() == f"1 byte, one element before the start of {slot.name}"
        arena.prepare()
        poke(arena, slot.end)
        (after,) = arena.violations()
        assert after.text() == f"1 byte, one element after the end of {slot.name}"
        arena.prepare()
        poke(arena, slot.end + 2 * slot.itemsize)
        (further,) = arena.violations()
        assert further.text() == f"1 byte, 3 elements after the end of {slot.name}"


def test_a_gap_is_named_by_the_element_before_it(arena: Arena) -> None:
    slot = arena.layout.slot("o")
    dim = slot.tensor.shape[-1]
    poke(arena, slot.start + dim * slot.itemsize)
    row = slot.start + slot.tensor.strides[-2] * slot.itemsize  # the second row
    poke(arena, row + dim * slot.itemsize)
    texts = [violation.text() for violation in arena.violations()]
    assert texts == [f"1 byte in the gap after element {n * dim - 1} of o" for n in (1, 2)]


def test_a_run_of_bytes_is_one_violation_and_a_flood_is_cut(arena: Arena) -> None:
    slot = arena.layout.slot("o")
    for byte in range(64):
        poke(arena, slot.end + byte, 0)
    (found,) = arena.violations()
    assert found.bytes == 64
    arena.prepare()
    for n in range(REPORTED + 5):
        poke(arena, slot.end + 16 * n, 0)
    assert len(arena.violations()) == REPORTED


def test_a_write_of_the_other_pattern_is_found(arena: Arena) -> None:
    """A copy of poison over a guard is found. A copy of one guard over another is found in the next run."""
    offset = arena.layout.slot("o").end + 100
    arena.prepare(0)
    poke(arena, offset | 1, 0x7F)
    assert len(arena.violations()) == 1
    arena.prepare(1)
    assert arena.violations() == ()
    poke(arena, offset | 1, 0xFF)
    assert len(arena.violations()) == 1


def test_a_changed_input_is_named_and_restored(arena: Arena) -> None:
    k = arena.view("k")
    k[(0,) * k.ndim] = -k[(0,) * k.ndim]
    k.flat[-1] = 7
    (change,) = arena.changed_inputs()
    assert (change.tensor, change.count, change.first) == ("k", 2, (0,) * k.ndim)
    arena.prepare()
    assert arena.changed_inputs() == ()


def test_nan_inputs_are_compared_by_their_bits() -> None:
    problem = Problem.from_cli("-b 1 -H 2 -s 2 -d 8 --kv-cache paged:4 --cache-seqlens 5 --dtype fp16")
    inputs = fill(problem)
    assert np.isnan(inputs["k"].astype(np.float32)).any(), "unused pages hold NaN"
    with Arena(layout_of(problem, gaps=True)) as arena:
        arena.write(inputs)
        arena.prepare()
        assert arena.changed_inputs() == ()


def test_a_cache_that_is_appended_to_starts_anew_in_every_run() -> None:
    problem = Problem.from_cli("-b 1 -H 1 -s 2 -d 8 --kv-cache linear --cache-seqlens 5 --append 1 --dtype fp16")
    inputs = fill(problem)
    with Arena(layout_of(problem, gaps=True)) as arena:
        arena.write(inputs)
        arena.prepare()
        arena.view("k")[...] = 1
        assert arena.changed_inputs() == ()
        assert (arena.read()["k"] == 1).all()
        arena.prepare(1)
        assert np.array_equal(arena.read()["k"].view(np.uint16), inputs["k"].view(np.uint16))


def test_what_was_not_written_is_known_to_the_element(arena: Arena) -> None:
    o = arena.view("o")
    hole = tuple(n - 1 for n in o.shape)
    kept = o[hole].copy()
    o[...] = 1
    o[hole] = kept
    (missing,) = [u for u in arena.unwritten() if u.tensor == "o"]
    assert [tuple(at) for at in np.argwhere(missing.where)] == [hole]


def test_workspaces_are_poisoned_too(arena: Arena) -> None:
    for run in (0, 1):
        arena.prepare(run)
        words = arena.view("w").view(np.float32)
        assert np.isnan(words).all()
        words[...] = 0


def test_outputs_are_read_as_dense_copies(arena: Arena) -> None:
    o = arena.view("o")
    o[...] = 2
    outputs = arena.read()
    o[...] = 3
    assert outputs["o"].flags.c_contiguous
    assert (outputs["o"] == 2).all()
    assert set(outputs) == {"o", "lse"} & set(arena.layout.tensors)


def test_inputs_that_do_not_fit_are_refused(arena: Arena) -> None:
    inputs = {name: np.array(arena.view(name)) for name in ("q", "k", "v")}
    with pytest.raises(InternalError):
        arena.write({"q": inputs["q"]})
    if "bias" not in arena.layout.tensors:
        with pytest.raises(InternalError):
            arena.write({**inputs, "k": inputs["k"][..., :1]})


@given(data=st.data())
@settings(max_examples=40)
def test_a_stray_element_never_passes_unseen(data: st.DataObject) -> None:
    """One element written at any offset is a violation, a changed input or an output."""
    problem = Problem.from_cli(LINES["fp16"])
    with Arena(layout_of(problem, gaps=data.draw(st.booleans()))) as arena:
        arena.write(fill(problem))
        arena.prepare()
        offset = 2 * data.draw(st.integers(0, arena.layout.size // 2 - 1))
        poke(arena, offset, 0x12)
        seen = bool(arena.violations()) or bool(arena.changed_inputs())
        written = any(u.count < arena.view(u.tensor).size for u in arena.unwritten())
        was_there = any(  # the input may already have contained 0x12
            slot.start <= offset < slot.end for slot in arena.layout.slots if slot.name in ("q", "k", "v")
        )
        assert seen or written or was_there


@pytest.mark.parametrize("row", [4, 5, 6, 7])
def test_a_run_may_write_the_rows_that_it_appends_and_no_others(row: int) -> None:
    """Rows 5 and 6 of the cache are the new keys; a write to any other is a change of an input, also of one that holds no key."""
    problem = Problem.from_cli("-H 1 -s 1 -d 8 --kv-cache linear --cache-seqlens 5 --append 2")
    problem = replace(problem, storage=CacheStorage(rows=9))
    inputs = fill(problem)
    with Arena(layout_of(problem)) as arena:
        arena.write(inputs, appended_rows(problem, inputs))
        arena.prepare()
        arena.view("k")[0, 0, row, 3] = 7
        found = [(change.tensor, change.count, change.first) for change in arena.changed_inputs()]
        assert found == ([] if row in (5, 6) else [("k", 1, (0, 0, row, 3))])
        arena.prepare(1)
        assert arena.changed_inputs() == ()
