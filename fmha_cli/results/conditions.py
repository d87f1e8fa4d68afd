"""``By``: what must be equal for two rows to be compared, and the values of a record's row."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.suggest import NameKind, suggest
from fmha_cli.report.ordering import at
from fmha_cli.report.record import Record

Value = str | int | None


class By(StrEnum):
    """One thing that may have to be equal."""

    PROBLEM = "problem"
    BACKEND = "backend"
    DEVICE = "device"
    ARCH = "arch"
    CACHE = "cache"
    THREADS = "threads"
    KERNEL = "kernel"
    MODEL = "model"


USUAL = (By.PROBLEM, By.BACKEND, By.DEVICE, By.ARCH, By.CACHE, By.THREADS)
"""Where several kernels ran under these, those of one name correspond."""


def parse_by(text: str | None) -> tuple[By, ...]:
    """The conditions of ``--by``; the usual ones without it.

    Raises:
        UsageError: E055, no such condition, or the problem is not among them.
    """
    if text is None:
        return USUAL
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in list(By):
            help = suggest(name, list(By), NameKind.OPTION)
            raise UsageError(f"--by {text}: no such condition {name!r}", code="E055", where="--by", help=help)
    if By.PROBLEM not in names:
        why = "times of different problems are no comparison"
        raise UsageError(f"--by {text}: lacks problem", code="E055", where="--by", why=why, help=f"--by problem,{text}")
    return tuple(By(name) for name in dict.fromkeys(names))


def value_of(record: Record, by: By) -> Value:
    """The value of one condition; None where the record does not have it."""
    return canonical_json(record.problem) if by is By.PROBLEM else told(record, by)


_PLACES = {
    "kernel": "kernel.name",
    "digest": "kernel.digest",
    "family": "kernel.family",
    "cache": "measurement.cache",
    "threads": "measurement.threads",
}


def told(record: Record, name: str) -> Any:
    """What a record says under a name of ``--by`` or ``--filter``; None where it says nothing."""
    return at(record, _PLACES.get(name, name).split("."))


def is_timed(record: Record) -> bool:
    """Whether the row has times that mean something: it is good, and no emulated device took them."""
    return record.measurement is not None and is_good(record) and not is_emulated(record.device)


def is_good(record: Record) -> bool:
    """Whether its verdict is PASSED or UNCHECKED."""
    return record.verdict.exit_code is ExitCode.OK


def kernel_name(record: Record) -> str | None:
    """The canonical name of the row's kernel."""
    return None if record.kernel is None else record.kernel.name


Key = tuple[Value, ...]


def key_of(record: Record, by: Sequence[By]) -> Key:
    """The values of all conditions."""
    return tuple(value_of(record, one) for one in by)


def agrees(partial: Key, key: Key) -> bool:
    """Whether a row of which only some conditions are known, because it failed, belongs to a key."""
    return all(mine is None or mine == other for mine, other in zip(partial, key, strict=True))
