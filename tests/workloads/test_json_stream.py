"""Arrays that are read item by item give what the standard library reads at once, however the bytes arrive."""

from __future__ import annotations

import json
import random
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.domain.reading import NotJson
from fmha_cli.workloads.json_stream import JsonStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


class Dribble(BytesIO):
    """Gives a few bytes at each read."""

    def __init__(self, data: bytes, seed: int) -> None:
        super().__init__(data)
        self._random = random.Random(seed)

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._random.randint(1, 7))


@settings(max_examples=60)
@given(
    st.lists(VALUES, max_size=5),
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    st.integers(0, 99),
    st.booleans(),
)
def test_items_are_those_of_the_whole(items: list[Any], before: dict[str, Any], seed: int, plain: bool) -> None:
    before.pop("k", None)
    text = json.dumps(
        items if plain else {**before, "k": items, "after": [1]}, ensure_ascii=bool(seed % 2), indent=seed % 3 or None
    )
    stream = JsonStream(Dribble(text.encode(), seed))
    assert list(stream.items("k")) == items
    assert stream.passed == ({} if plain else before)


@pytest.mark.parametrize(
    "text", ["", "{", '{"k"', '{"k": 3}', '{"k": [1, 2', '{"k": [{"a": 1]}', "[1, }", '{"a": nul, "k": []}', "[" * 5000, "{3: 4}"]
)  # fmt: skip
def test_what_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(NotJson, match="character"):
        list(JsonStream(BytesIO(text.encode())).items("k"))


def test_an_object_without_the_member_has_no_items() -> None:
    assert list(JsonStream(BytesIO(b'{"a": [1], "b": 2}')).items("k")) == []


def test_one_item_is_in_memory_at_a_time() -> None:
    """The text that is kept does not grow with the file."""
    stream = JsonStream(BytesIO(b"[" + b'{"name": "x", "args": {}},' * 200_000 + b"1]"))
    longest = 0
    for _ in stream.items("k"):
        longest = max(longest, len(stream._text))
    assert longest < 3 << 20
