from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.mask import SPELLINGS, Align, Mask, MaskKind, mask_pattern, parse_mask

bounds = st.none() | st.integers(-6, 14)


@pytest.mark.promise("Equal masks have one form, and visible pairs are counted exactly.")
@given(st.sampled_from(Align), bounds, bounds, st.integers(0, 12), st.integers(0, 12), st.integers(0, 9))
def test_pairs_count_what_visible_says(
    align: Align, left: int | None, right: int | None, rows: int, keys: int, sink: int
) -> None:
    mask = Mask.make(align, left, right)
    brute = sum(mask.visible(i, j, rows, keys, sink) for i in range(rows) for j in range(keys))
    assert mask.pairs(rows, keys, sink) == brute


@given(st.sampled_from(Align), bounds, bounds, st.integers(0, 12), st.integers(0, 12), st.integers(0, 9))
def test_what_is_visible_follows_the_formula(
    align: Align, left: int | None, right: int | None, rows: int, keys: int, sink: int
) -> None:
    mask, delta = Mask.make(align, left, right), keys - rows if align is Align.BOTTOM_RIGHT else 0
    first, last = (-99 if left is None else delta - left), (99 if right is None else delta + right)
    brute = [[j <= i + last and (j >= i + first or j < sink) for j in range(keys)] for i in range(rows)]
    i, j = np.arange(rows)[:, None], np.arange(keys)[None]
    assert mask.visible(i, j, rows, keys, sink).tolist() == brute
    assert mask.visible(i, j, np.full_like(i, rows), np.full_like(i, keys), sink).tolist() == brute
    assert [[mask.visible(i, j, rows, keys, sink) for j in range(keys)] for i in range(rows)] == brute
    assert not any(mask.visible(i, j, rows, keys, sink) for i in range(rows) for j in (-1, keys))


@given(st.sampled_from(Align), bounds, bounds, st.integers(0, 12), st.integers(0, 12), st.integers(0, 9))
def test_the_rows_that_see_a_key_are_those_of_visible(
    align: Align, left: int | None, right: int | None, rows: int, keys: int, sink: int
) -> None:
    mask = Mask.make(align, left, right)
    brute = [i for i in range(rows) if any(mask.visible(i, j, rows, keys, sink) for j in range(keys))]
    assert list(mask.seeing(rows, keys, sink)) == brute


@given(st.sampled_from(Align), bounds, bounds, st.integers(0, 12), st.integers(0, 12), st.integers(0, 9))
def test_a_blind_row_is_found_at_an_end(
    align: Align, left: int | None, right: int | None, rows: int, keys: int, sink: int
) -> None:
    mask = Mask.make(align, left, right)
    brute = any(not any(mask.visible(i, j, rows, keys, sink) for j in range(keys)) for i in range(rows))
    assert mask.blinds(rows, keys, sink) == brute


@pytest.mark.promise("Equal masks have one form, and visible pairs are counted exactly.")
@pytest.mark.parametrize(
    ("spellings", "kind"),
    [
        (["none", "0", "window:-1,-1", "b:-1,-1", "t:-5,-1", "window-tl:-1,-2"], MaskKind.NONE),
        (["causal", "2", "b", "window:-1,0", "b:-1,0", "xb:0", "xb:-3"], MaskKind.CAUSAL),
        (["causal-tl", "1", "t", "window-tl:-1,0", "t:-1,0", "xt:-1"], MaskKind.CAUSAL_TL),
        (["window:3,4", "b:3,4", "xb:8"], MaskKind.WINDOW),
        (["generic:4,3", "g:4,3", "window-tl:3,2", "t:3,2"], MaskKind.WINDOW_TL),
        (["generic:0,3", "g:0,3"], MaskKind.GENERIC),
    ],
)
def test_spellings_collapse(spellings: list[str], kind: MaskKind) -> None:
    masks = [parse_mask(text)[0] for text in spellings]
    assert {m.kind for m in masks} == {kind}
    if kind is not MaskKind.WINDOW:
        assert len(set(masks)) == 1
    for mask in masks:
        assert parse_mask(mask.text()) == (mask, None)


def test_xformers_window_is_split_as_ck_does() -> None:
    assert parse_mask("xb:8")[0] == Mask(Align.BOTTOM_RIGHT, 4, 3)
    assert parse_mask("xt:7")[0] == Mask(Align.TOP_LEFT, 3, 3)


def test_the_third_number_is_the_sink() -> None:
    assert parse_mask("b:3,4,2") == (Mask(Align.BOTTOM_RIGHT, 3, 4), 2)


@pytest.mark.parametrize("text", ["", "casual", "window:1", "window:a,b", "none:", "b:1,2,3,4", "xt:", "generic:1"])
def test_what_is_no_mask_is_refused(text: str) -> None:
    with pytest.raises(ImpossibleProblem, match="not a mask"):
        parse_mask(text)


def test_generic_follows_ck() -> None:
    """Row i sees the columns from max(i - y + 1, 0) up to, but not including, min(i + x, seqlen_k)."""
    for y in range(6):
        for x in range(6):
            mask = parse_mask(f"g:{y},{x}")[0]
            for i in range(7):
                expected = [j for j in range(9) if max(i - y + 1, 0) <= j < min(i + x, 9)]
                assert [j for j in range(9) if mask.visible(i, j, 7, 9)] == expected


def test_every_kind_has_a_spelling_that_is_read() -> None:
    assert {spelling.partition(":")[0] for spelling in SPELLINGS} == {*MaskKind}
    for spelling in SPELLINGS:
        mask, _ = parse_mask(re.sub("[A-Z]", "4", spelling))
        assert re.fullmatch(mask_pattern(), mask.text())
        assert mask.text().partition(":")[0] == spelling.partition(":")[0] or spelling == "generic:Y,X"


@given(st.sampled_from(Align), st.none() | st.integers(0, 50), st.none() | st.integers(0, 50))
def test_text_reads_back(align: Align, left: int | None, right: int | None) -> None:
    mask = Mask.make(align, left, right)
    assert parse_mask(mask.text())[0] == mask
