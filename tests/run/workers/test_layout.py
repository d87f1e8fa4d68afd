"""Every byte of the arena belongs to an element or a guard, and every tensor is in its place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.plan import Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.run.guards import zones_of
from fmha_cli.run.layout import ALIGN, GAP, GUARD, PAGE, ArenaLayout, LayoutMessage, layout_of

LINES = [
    "-b 2 -H 2 -s 3 --seqlen-k 5 -d 5 --hdim-v 3 --dtype fp16 --lse",
    "-b 2 -H 2 -s 3 -d 1 --dtype fp8_e4m3 --layout bshd:bhsd",
    "--seqlens-q 3,0,2 -H 3 --kv-heads 1 -d 7 --dtype fp32 --bias elementwise:1hss --direction fwd+bwd --dbias",
    "--seqlens-q 0,0 -H 1 -d 4 --lse",
    "-b 2 -s 2 -d 8 -H 2 --kv-cache paged:4 --cache-seqlens 3,5 --append 1 --alibi-slopes filled:bh",
    "-b 1 -s 2 -d 8 -H 2 --qscale head --dtype fp8_e5m2:fp32 --sink-logits filled",
]


def paint(layout: ArenaLayout) -> np.ndarray:
    """The number of elements and zones that claim each byte."""
    claims = np.zeros(layout.size, np.uint8)
    for slot in layout.slots:
        index = np.full(slot.tensor.shape, slot.start)
        for axis, stride in enumerate(slot.tensor.strides):
            steps = np.arange(slot.tensor.shape[axis]) * stride * slot.itemsize
            index = index + steps.reshape([-1 if a == axis else 1 for a in range(index.ndim)])
        for byte in range(slot.itemsize):
            np.add.at(claims, index.ravel() + byte, 1)
    for zone in zones_of(layout):
        view = zone.view(claims)
        np.add(view, 1, out=view)
    return claims


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("line", LINES)
def test_every_byte_is_claimed_once(line: str, gaps: bool) -> None:
    layout = layout_of(Problem.from_cli(line), [Workspace("w", 100), Workspace("x", 0, 4096)], gaps=gaps)
    assert (paint(layout) == 1).all()


@given(
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    bits=st.sampled_from(["fp32", "fp16", "fp8_e4m3"]),
    layout=st.sampled_from(["bhsd", "bshd"]),
    gaps=st.booleans(),
)
@settings(max_examples=60)
def test_any_shape_is_claimed_once(shape: list[int], bits: str, layout: str, gaps: bool) -> None:
    rows, dim, *rest = (*shape, 1, 1)
    problem = Problem.of(batch=rest[0], heads=rest[1], seqlen=rows, hdim=dim, dtype=bits, layout=layout, lse=True)
    found = layout_of(problem, gaps=gaps)
    assert (paint(found) == 1).all()
    assert {name: t.shape for name, t in found.tensors.items()} == {n: s.shape for n, s in shapes_of(problem).items()}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("line", LINES)
def test_tensors_are_aligned_and_guarded(line: str, gaps: bool) -> None:
    layout = layout_of(Problem.from_cli(line), [Workspace("w", 100, 4096)], gaps=gaps)
    assert layout.size % PAGE == 0
    last = 0
    for slot in layout.slots:
        assert slot.start % ALIGN == 0
        assert slot.start - last >= GUARD
        assert slot.tensor.strides[-1] == 1
        last = slot.start + slot.extent
    assert layout.size - last >= GUARD
    assert layout.slot("w").start % 4096 == 0


def test_with_gaps_no_row_touches_the_next() -> None:
    layout = layout_of(Problem.from_cli(LINES[0]), gaps=True)
    for name in ("q", "k", "v", "o", "lse"):
        slot = layout.slot(name)
        for axis in range(len(slot.tensor.shape) - 1):
            inner = slot.tensor.shape[axis + 1] * slot.tensor.strides[axis + 1]
            assert (slot.tensor.strides[axis] - inner) * slot.itemsize >= GAP
            assert slot.tensor.strides[axis] * slot.itemsize % GAP == 0


def test_without_gaps_tensors_are_dense() -> None:
    layout = layout_of(Problem.from_cli(LINES[0]))
    assert all(slot.dense for slot in layout.slots)
    assert layout.tensors["q"].strides == (2 * 3 * 5, 3 * 5, 5, 1)


def test_the_wire_form_comes_back() -> None:
    layout = layout_of(Problem.from_cli(LINES[2]), [Workspace("w", 8)], gaps=True)
    message = from_json(LayoutMessage, json.loads(json.dumps(to_json(layout.message))))
    assert message == layout.message
    assert message.bound() == dict(layout.tensors)
    assert [region.name for region in message.regions] == [slot.name for slot in layout.slots if slot.end > slot.start]


@pytest.mark.parametrize(
    "work", [[Workspace("q", 8)], [Workspace("w", 8), Workspace("w", 8)], [Workspace("w", 8, 8192)]]
)
def test_a_workspace_that_cannot_be_placed_is_refused(work: list[Workspace]) -> None:
    with pytest.raises(InternalError):
        layout_of(Problem.from_cli(LINES[0]), work)


def test_a_tensor_that_is_not_there_is_refused() -> None:
    with pytest.raises(InternalError, match="no tensor 'bias'"):
        layout_of(Problem.from_cli(LINES[0])).slot("bias")
