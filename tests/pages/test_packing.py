"""Packed columns hold what they were made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.pages.packing import column, packed, script_text, text_of
from tests.pages.test_page import unpacked

VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)


@given(st.lists(VALUES, max_size=40))
def test_a_column_is_unpacked_as_it_was(values: list[Any]) -> None:
    found = unpacked(column(values))
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (["a", "b"], ["a", "b"]),
        (["long", "text"] * 9, {"of": ["long", "text"], "at": [0, 1] * 9}),
        (["long"] * 30, {"of": ["long"], "runs": [30]}),
        ([10001, 10002, 10004, 10005], {"steps": [10001, 1, 2, 1]}),
    ],
)
def test_the_shortest_form_is_taken(values: list[Any], form: Any) -> None:
    assert column(values) == form


def test_nothing_ends_a_script_and_nothing_is_nan() -> None:
    text = script_text({"a": "</script><!--", "b": float("nan"), "c": [float("inf")]})
    assert "<" not in text
    assert text_of({"b": float("-inf")}) == '{"b":null}'


def test_no_rows() -> None:
    assert packed([]) == {"n": 0, "columns": {}}
