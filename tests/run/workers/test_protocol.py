"""Frames survive any fragmentation of the stream, and nothing else is accepted as a frame."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.run import protocol
from fmha_cli.run.protocol import Decoder, ProtocolError, encode

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=12)
messages = st.dictionaries(st.text(max_size=8), values, max_size=5)


@given(sent=st.lists(messages, max_size=5), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=50))
@pytest.mark.slow
@pytest.mark.ci
def test_messages_survive_any_cut(sent: list[dict[str, Any]], cuts: list[int]) -> None:
    stream = b"".join(encode(message) for message in sent)
    decoder, got, at, turn = Decoder(), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        got += decoder.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert got == sent


@given(data=st.binary(max_size=200), cut=st.integers(1, 50))
@settings(max_examples=120)
def test_garbage_is_refused_or_waited_for(data: bytes, cut: int) -> None:
    """Random bytes raise ProtocolError, or yield nothing while they could still become a frame."""
    decoder, got = Decoder(), []
    try:
        for at in range(0, len(data), cut):
            got += decoder.feed(data[at : at + cut])
    except ProtocolError:
        return
    assert got == []
    assert data == b"" or b"FMHA".startswith(data[:4])


@given(message=messages, at=st.integers(0, 10**6), value=st.integers(0, 255))
@settings(max_examples=120)
@pytest.mark.slow
@pytest.mark.ci
def test_a_changed_byte_is_refused_or_changes_one_value(message: dict[str, Any], at: int, value: int) -> None:
    frame = bytearray(encode(message))
    frame[at % len(frame)] = value
    try:
        got = Decoder().feed(bytes(frame))
    except ProtocolError:
        return
    assert len(got) <= 1
    assert all(isinstance(one, dict) for one in got)


@given(head=st.binary(min_size=1, max_size=30), message=messages)
def test_a_frame_after_garbage_is_never_believed(head: bytes, message: dict[str, Any]) -> None:
    try:
        got = Decoder().feed(head + encode(message))
    except ProtocolError:
        return
    assert message not in got or head[:4] == b"FMHA"


@pytest.mark.parametrize("payload", [b"[]", b"1", b"{", b"\xff\xfe", b"null"])
def test_a_frame_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        Decoder().feed(b"FMHA%08x %s\n" % (len(payload), payload))


def test_a_frame_without_its_end_is_refused() -> None:
    with pytest.raises(ProtocolError, match="without an end"):
        Decoder().feed(b"FMHA00000002 {}{}")


@pytest.mark.parametrize(
    "frame", [b"FMHA00000002x{}\n", b"FMHA0000000g {}\n", b"FMHX00000002 {}\n", b"FMHA+0000002 {}\n"]
)
def test_a_header_is_exact(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="not a frame"):
        Decoder().feed(frame)


def test_long_messages_are_refused_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError):
        Decoder().feed(b"FMHAffffffff ")
    monkeypatch.setattr(protocol, "LIMIT", 10)
    with pytest.raises(ProtocolError):
        encode({"long": "x" * 20})


def test_frames_are_ascii_lines() -> None:
    frame = encode({"text": "\u00fc\u2028\n"})
    assert frame.isascii()
    assert frame.count(b"\n") == 1
    assert json.loads(frame[13:]) == {"text": "\u00fc\u2028\n"}
