"""Bytes of the store: what is packed is unpacked the same, and damage is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.results.packing import DamagedError, packed_samples, packed_text, unpacked_samples, unpacked_text

TIMES = st.integers(0, 10**15)


@given(st.integers(1, 3).flatmap(lambda stages: st.lists(st.tuples(*[TIMES] * stages), max_size=20)))
def test_samples_come_back(launches: list[tuple[int, ...]]) -> None:
    stages = tuple(zip(*launches, strict=True))
    assert unpacked_samples(packed_samples(stages)) == stages


@given(st.text(max_size=60), st.binary(max_size=60))
def test_texts_come_back(text: str, dictionary: bytes) -> None:
    assert unpacked_text(packed_text(text, dictionary), dictionary) == text


def test_a_dictionary_saves_what_two_texts_share() -> None:
    text = '{"repro": "fmha bench -b 2 -H 8 -s 1024 --backend cpu", "notes": ["a note"]}'
    assert len(packed_text(text.replace("1024", "2048"), text.encode())) < len(packed_text(text)) / 2


@pytest.mark.parametrize("cut", [0, 1, 5, -1])
def test_a_cut_is_noticed(cut: int) -> None:
    for data in (packed_samples([[10**9 + n * n for n in range(9)]]), packed_samples([[7] * 500])):
        with pytest.raises(DamagedError):
            unpacked_samples(data[:cut])
    with pytest.raises(DamagedError):
        unpacked_text(packed_text("a text")[:cut])


def test_another_dictionary_is_noticed() -> None:
    with pytest.raises(DamagedError):
        unpacked_text(packed_text("a text", b"a te"), b"b te")


def test_sizes_beyond_the_data_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(DamagedError, match="fewer bytes"):
        unpacked_samples(b"\x00" + b"\xff\xff\xff\xff\x7f" * 2)
