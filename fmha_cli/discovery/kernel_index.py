"""An index of kernels by digest and by upstream name. It returns candidates to verify.

A table covers the kernels of one backend and architecture. For each kernel it holds the first bytes of the digest, and of
the hash of the upstream name, with the kernel's place in the backend's order. A lookup makes the kernel at that place
and compares it again, so a wrong entry costs time but never selects a wrong kernel.

One more table has the digests of all tables. A text that is none of them is refused without importing a backend.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from typing import Protocol

from fmha_cli.domain.errors import UsageError

_HEX, _BYTES, _PLACE = 16, 8, 4
_RECORD = _BYTES + _PLACE


EVERY = ("every", "arch")
"""The names under which the table of all digests is kept, in place of a backend and an architecture."""
MIN_PREFIX = 8
"""Hex digits that a digest prefix must have (contract, section 4)."""


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


def join_tables(tables: Iterable[bytes]) -> bytes:
    """The table with the digests of others. Its places mean nothing."""
    found = [table[at : at + _BYTES] for table in tables for at in range(_PLACE, _names_at(table), _RECORD)]
    return len(found).to_bytes(_PLACE, "big") + b"".join(digest + bytes(_PLACE) for digest in sorted(found))


def digest_prefix(text: str) -> str:
    """The text in small letters if it is a digest prefix, else an empty text."""
    prefix = text.lower()
    return prefix if len(prefix) >= MIN_PREFIX and set(prefix) <= set("0123456789abcdef") else ""


def refuse_unknown(text: str, tables: KernelTables) -> None:
    """Refuse a digest prefix that no kernel of the built-in backends has, for any architecture or for tuning.

    Raises:
        UsageError: E006.
    """
    prefix = digest_prefix(text)
    table = tables.load(*EVERY) if prefix else None
    if table is not None and not places_by_digest(table, prefix):
        raise unknown_kernel(text)


def unknown_kernel(text: str) -> UsageError:
    """The refusal of a name that no kernel has."""
    short = f" (a digest prefix has at least {MIN_PREFIX} hex digits)" if len(text) < MIN_PREFIX else ""
    help = "`fmha list-kernels --arch A` prints names and digests"
    return UsageError(f"--kernel {text}: no such kernel{short}", code="E006", where="--kernel", help=help)


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
