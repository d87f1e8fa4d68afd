"""An index of kernels by digest and by upstream name. It returns candidates to verify.

A table covers the kernels of one backend and architecture. For each kernel it holds the first bytes of the digest, and of
the hash of the upstream name, with the kernel's place in the backend's order. A lookup makes the kernel at that place
and compares it again, so a wrong entry costs time but never selects a wrong kernel.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from typing import Protocol

_HEX, _BYTES, _PLACE = 16, 8, 4
_RECORD = _BYTES + _PLACE


class KernelTables(Protocol):
    """Where tables are kept. A backend is named with the revision of its source."""

    def load(self, backend: str, arch: str) -> bytes | None:
        """A table that belongs to the present version of the code and the facts, whole; None if there is none."""

    def keep(self, backend: str, arch: str, table: bytes) -> None:
        """Keep a table, if that is possible."""

    def announce(self) -> None:
        """Say that all kernels are looked through, this once."""


def make_table(kernels: Iterable[tuple[str, str | None]]) -> bytes:
    """The table of kernels, each with its digest and upstream name, in the backend's order."""
    digests, names = [], []
    for number, (digest, name) in enumerate(kernels):
        place = number.to_bytes(_PLACE, "big")
        digests.append(bytes.fromhex(digest[:_HEX]) + place)
        if name is not None:
            names.append(_hashed(name) + place)
    return len(digests).to_bytes(_PLACE, "big") + b"".join([*sorted(digests), *sorted(names)])


def places_by_digest(table: bytes, prefix: str) -> frozenset[int]:
    """The places at which a kernel's digest may begin with some hex digits."""
    low, high = (bytes.fromhex(prefix[:_HEX].ljust(_HEX, fill)) for fill in "0f")
    return _found(table[_PLACE : _names_at(table)], low, high)


def places_by_name(table: bytes, name: str) -> frozenset[int]:
    """The places at which a kernel may have an upstream name."""
    key = _hashed(name)
    return _found(table[_names_at(table) :], key, key)


def _names_at(table: bytes) -> int:
    return _PLACE + _RECORD * int.from_bytes(table[:_PLACE], "big")


def _hashed(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:_BYTES]


def _found(records: bytes, low: bytes, high: bytes) -> frozenset[int]:
    def at(number: int) -> bytes:
        return records[_RECORD * number : _RECORD * number + _BYTES]

    count = len(records) // _RECORD
    first = last = bisect_left(range(count), low, key=at)
    while last < count and at(last) <= high:
        last += 1
    places = (records[_RECORD * number + _BYTES : _RECORD * (number + 1)] for number in range(first, last))
    return frozenset(int.from_bytes(place, "big") for place in places)
