"""What masks come to, compared with the definition of visibility."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.host.checks import MaskForm, mask_forms, sees_nothing
from fmha_cli.backends.host.session import HostArrays, visible_keys
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import Layout
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor

MASKS = [
    "none",
    "causal",
    "causal-tl",
    "window:2,0",
    "window:99,0",
    "window-tl:2,0",
    "window:1,1",
    "generic:0,3",
    "generic:3,0",
]


def problems() -> list[Problem]:
    found = []
    for mask, rows, keys, sink in product(MASKS, (1, 3, 6), (1, 3, 8), (0, 2)):
        try:
            line = f"-b 2 -H 1 -s {rows} --seqlen-k {keys} -d 8 --mask {mask} --sink {sink}"
            found.append(Problem.from_cli(line))
        except ImpossibleProblem:
            continue
    return [*found, Problem.from_cli("-b 2 -H 1 -s 1 -d 8 --causal --kv-cache linear --cache-seqlens 7,3")]


def seen(problem: Problem) -> list[np.ndarray[Any, Any]]:
    """By the definition, for each sequence."""
    return [
        np.array([[problem.mask.visible(i, j, q, k, problem.sink) for j in range(k)] for i in range(q)])
        for q, k in zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    ]


FORMS = {
    MaskForm.PLAIN: lambda i, j, delta, left: True,
    MaskForm.TOP_LEFT: lambda i, j, delta, left: j <= i,
    MaskForm.BOTTOM_RIGHT: lambda i, j, delta, left: j <= i + delta,
    MaskForm.WINDOW: lambda i, j, delta, left: i + delta - left <= j <= i + delta,
}


@pytest.mark.sampled(20, ci="all")
@pytest.mark.parametrize("problem", problems(), ids=lambda p: p.repro())
def test_forms_tensor_and_empty_rows_follow_the_definition(problem: Problem) -> None:
    planes = seen(problem)
    for form in mask_forms(problem):
        rule = FORMS[form]
        for plane in planes:
            rows, keys = plane.shape
            own = [[rule(i, j, keys - rows, problem.mask.left) for j in range(keys)] for i in range(rows)]
            assert np.array_equal(plane, own), form
    tensor = visible_keys(problem, problem.cache_rows)
    for n, plane in enumerate(planes):
        mine = tensor[min(n, len(tensor) - 1), 0]
        assert np.array_equal(mine[:, : plane.shape[1]], plane)
        assert not mine[:, plane.shape[1] :].any()
    assert sees_nothing(problem) is any(not row.any() for plane in planes for row in plane)


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("-s 4", MaskForm.PLAIN),
        ("-s 4 --causal", MaskForm.TOP_LEFT),
        ("-s 4 --causal", MaskForm.BOTTOM_RIGHT),
        ("-s 4 --seqlen-k 9 --causal", MaskForm.BOTTOM_RIGHT),
        ("-s 4 --seqlen-k 9 --mask causal-tl", MaskForm.TOP_LEFT),
        ("-s 4 --seqlen-k 9 --mask window:2,0", MaskForm.WINDOW),
        ("-s 4 --mask window:3,0", MaskForm.BOTTOM_RIGHT),
        ("-s 1 --seqlen-k 9 --causal", MaskForm.PLAIN),
    ],
)
def test_a_form_that_a_library_has_is_found(line: str, form: MaskForm) -> None:
    assert form in mask_forms(Problem.from_cli(line))


@pytest.mark.parametrize(("gap", "order", "copied"), [(0, Layout.BSHD, 0), (0, Layout.BHSD, 48), (1, Layout.BSHD, 48)])
def test_only_what_a_library_cannot_take_is_copied(gap: int, order: Layout, copied: int) -> None:
    problem = Problem.from_cli("-H 2 -s 3 -d 2 --dtype fp32 --layout bshd")
    step = 4 + gap
    arena = memoryview(bytearray(4 * 3 * step))
    tensor = BoundTensor("q", 0, "fp32", (1, 3, 2, 2), (3 * step, step, 2, 1))
    arrays = HostArrays(problem, arena, {"q": tensor})
    view, given = arrays.view("q", order), arrays.given("q", order, written=True)
    view[:] = np.arange(12, dtype=np.float32).reshape(view.shape)
    arrays.before()
    assert np.array_equal(given, view)
    given += 1
    arrays.after()
    assert np.array_equal(view, given)
    remarks = arrays.remarks()
    assert remarks == () if not copied else f"copies {2 * copied:,} bytes" in remarks[0]
