"""Samples and texts as bytes: what a row of the store costs is mostly these two.

Samples are written as differences from their stage's median, because noise around a level has small differences and a
random walk would not. Texts are compressed with a preset dictionary (RFC 1950, section 2.2): an earlier text of the same kind.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence

Stages = tuple[tuple[int, ...], ...]
"""Samples of each stage, all of one length."""

_PLAIN, _DEFLATED = b"\x00", b"\x01"
_LEVEL = 9


class DamagedError(ValueError):
    """Bytes that no function of this module wrote, or that were changed since."""


def checksum(
    key: str, started: int | None, shared: Sequence[bytes | None], rest: bytes, samples: Sequence[bytes | None]
) -> bytes:
    """A digest of a record as the store has it.

    Args:
        started: seconds since 1970. shared: digests of the parts that it has in common with others. rest: its own packed text.
        samples: of each process, packed.
    """
    return hashlib.sha256(repr((key, started, list(shared), rest, list(samples))).encode()).digest()[:16]


def packed_samples(stages: Sequence[Sequence[int]]) -> bytes:
    """The samples of some stages in nanoseconds."""
    count = len(stages[0]) if stages else 0
    numbers = bytearray(_number(len(stages)) + _number(count))
    for samples in stages:
        level = sorted(samples)[count // 2] if samples else 0
        numbers += _number(level)
        for sample in samples:
            away = sample - level
            numbers += _number(2 * away if away >= 0 else -2 * away - 1)
    deflated = zlib.compress(bytes(numbers), _LEVEL)
    return _DEFLATED + deflated if len(deflated) < len(numbers) else _PLAIN + bytes(numbers)


def unpacked_samples(data: bytes) -> Stages:
    """The inverse of :func:`packed_samples`.

    Raises:
        DamagedError: not such bytes.
    """
    try:
        body = zlib.decompress(data[1:]) if data[:1] == _DEFLATED else data[1:]
    except zlib.error as fault:
        raise DamagedError(f"samples: {fault}") from fault
    numbers = _numbers(body)
    try:
        stages, count = next(numbers), next(numbers)
        if stages * (count + 1) > len(body):
            raise DamagedError("samples: fewer bytes than numbers")
        out = []
        for _ in range(stages):
            level = next(numbers)
            out.append(tuple(level + _signed(next(numbers)) for _ in range(count)))
    except (StopIteration, RuntimeError) as fault:
        raise DamagedError("samples: cut short") from fault
    return tuple(out)


def packed_text(text: str, dictionary: bytes = b"") -> bytes:
    """A text, compressed."""
    press = zlib.compressobj(_LEVEL, zdict=dictionary) if dictionary else zlib.compressobj(_LEVEL)
    return press.compress(text.encode()) + press.flush()


def unpacked_text(data: bytes, dictionary: bytes = b"") -> str:
    """The inverse of :func:`packed_text`, with the same dictionary.

    Raises:
        DamagedError: not such bytes, or another dictionary.
    """
    try:
        press = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
        text = press.decompress(data) + press.flush()
        if not press.eof:
            raise DamagedError("text: cut short")
        return text.decode()
    except (zlib.error, UnicodeDecodeError) as fault:
        raise DamagedError(f"text: {fault}") from fault


def _number(value: int) -> bytes:
    """A natural number, seven bits a byte, the lowest first; all bytes but the last have the top bit (LEB128)."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield value
            value = shift = 0


def _signed(number: int) -> int:
    return -(number + 1) // 2 if number & 1 else number // 2
