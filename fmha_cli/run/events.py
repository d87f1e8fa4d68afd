"""What a run yields, in this order: ``Found``, ``Planned``, ``Built`` unless nothing is built, then for the rows ``Started``, ``Judged`` and
``Done``, and ``Ended``. A dry run ends behind ``Planned``. Rows that are done together start together; each is ``Done`` as soon as everything that it is compared with is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.oracle.tensors import Array
from fmha_cli.report.record import Record
from fmha_cli.run.rows import Row


@dataclass(frozen=True)
class Found:
    """What the wanted backends answered."""

    availability: Mapping[str, Availability]


@dataclass(frozen=True)
class Planned:
    """Every row that will have a record; events name a row by its number from 0."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Built:
    """The digests of the build cache's entries from which the rows run."""

    digests: tuple[str, ...]


@dataclass(frozen=True)
class Started:
    """Rows that are dispatched together, and how many rows are done by then."""

    numbers: tuple[int, ...]
    done: int


@dataclass(frozen=True)
class Judged:
    """The outputs of a row that ran by itself, numpy arrays by name; none if it did not get so far."""

    number: int
    outputs: Mapping[str, Array]


@dataclass(frozen=True)
class Done:
    """A row's complete record."""

    number: int
    record: Record


@dataclass(frozen=True)
class Ended:
    """The last event. When the iterator goes on behind it, a run that was not interrupted cannot be resumed any more.

    Attributes:
        records: one for each row, in their order; rows that did not run are NOT_RUN.
        interrupted: by Ctrl-C, or because the iterator was closed.
        journal: what ``--resume`` takes: the name of the run in the store, or its file; None if it cannot be resumed.
        unwritten: files of ``--out`` and ``--save-failures`` that could not be written, each with the reason.
        outside: why the store does not have the rows, and how to bring them in; None if it has them, or none was named.
        missing: why this machine cannot build the host code that shows the launches of a dry run.
    """

    records: tuple[Record, ...]
    interrupted: bool
    journal: str | None = None
    unwritten: tuple[str, ...] = ()
    outside: str | None = None
    missing: EnvironmentProblem | None = None


Event = Found | Planned | Built | Started | Judged | Done | Ended
