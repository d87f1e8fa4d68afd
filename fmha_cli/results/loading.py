"""Reading the store: its runs with their counts, and the records of one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from fmha_cli.domain.codec import DecodeError, from_json
from fmha_cli.report.parts import Environment, RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.moments import moment_of
from fmha_cli.results.packing import DamagedError, checksum, unpacked_samples, unpacked_text
from fmha_cli.results.parts import RowPlace, Shared, joined
from fmha_cli.results.store import Store, unusable
from fmha_cli.results.writing import run_row


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A run in the store.

    Attributes:
        number: orders the runs as they were written.
        about: what its records say of it.
        ended: ISO 8601 in UTC; None for a run that was killed or is still going.
        verdicts: verdict -> number of records.
        devices: on which rows ran.
        environment: its JSON form; None if unknown.
    """

    number: int
    about: RunRow
    ended: str | None
    argv: tuple[str, ...]
    fmha: str
    verdicts: Mapping[str, int]
    devices: tuple[str, ...]
    environment: Mapping[str, Any] | None

    @property
    def records(self) -> int:
        """Number of its records."""
        return sum(self.verdicts.values())


def summaries(store: Store) -> tuple[Summary, ...]:
    """Every run, the newest first."""
    with store.reading() as db:
        counts: dict[int, dict[str, int]] = {}
        devices: dict[int, set[str]] = {}
        for run, verdict, device, count in db.execute("select run, verdict, device, records from tally"):
            counts.setdefault(run, {}).setdefault(verdict, 0)
            counts[run][verdict] += count
            devices.setdefault(run, set()).update([device] if device else ())
        rows = db.execute(
            "select id, uuid, command, started, label, rev, dirty, ended, argv, fmha, environment from run order by id desc"
        ).fetchall()
    return tuple(
        Summary(
            number=number,
            about=run_row(*about),
            ended=ended,
            argv=tuple(json.loads(argv or "[]")),
            fmha=fmha,
            verdicts=counts.get(number, {}),
            devices=tuple(sorted(devices.get(number, ()))),
            environment=None if environment is None else json.loads(environment),
        )
        for number, *about, ended, argv, fmha, environment in rows
    )


_RECORDS = """
select r.row, r.started, r.samples, r.rest, d.content, s.packed, e.content, p.json, k.json, b.json, h.json
from record r join problem p on p.id = r.problem join setup s on s.id = r.setup
  left join dictionary e on e.id = s.dictionary left join kernel k on k.id = r.kernel left join build b on b.id = r.build
  left join host h on h.id = r.host left join dictionary d on d.id = r.dictionary
where r.run = ? order by r.id
"""


def records_of(store: Store, run: Summary, sums: Mapping[str, bytes] | None = None) -> tuple[Record, ...]:
    """The records of a run, in the order in which they were written.

    Args:
        sums: key -> checksum, to which every record has to agree.

    Raises:
        EnvironmentProblem: X050, the store is damaged.
    """
    with store.reading() as db:
        rows = db.execute(_RECORDS, (run.number,)).fetchall()
    try:
        return tuple(_joined(rows, run.about, sums))
    except (DecodeError, DamagedError, ValueError, TypeError, KeyError) as fault:
        raise unusable(store.path, f"a record of run {run.about.id[:8]} is damaged: {fault}") from fault


def environment_of(store: Store, run: Summary) -> Environment | None:
    """The environment of a run; None if unknown.

    Raises:
        EnvironmentProblem: X050, the store is damaged.
    """
    try:
        return None if run.environment is None else from_json(Environment, run.environment)
    except DecodeError as fault:
        raise unusable(store.path, f"the environment of run {run.about.id[:8]} is damaged: {fault}") from fault


def _joined(rows: list[sqlite3.Row], about: RunRow, sums: Mapping[str, bytes] | None) -> Iterator[Record]:
    """The records of rows, in which the processes of one record follow each other."""
    parsed = cache(lambda text: json.loads(text) if text is not None else None)
    digest = cache(lambda text: None if text is None else Shared(text).digest)
    for _, group in groupby(rows, key=lambda row: row[0]):
        processes = list(group)
        key, started, _, rest, dictionary, setup, other, *texts = processes[0]
        shared = dict(zip(("problem", "kernel", "build", "host"), map(parsed, texts), strict=True))
        setup = unpacked_text(setup, other or b"")
        shared["setup"] = parsed(setup)
        if sums is not None:
            problem, kernel, build, host = map(digest, texts)
            digests = (problem, kernel, build, digest(setup), host)
            if sums.get(key.hex()) != checksum(key.hex(), started, digests, rest, [row[2] for row in processes]):
                raise DamagedError(f"row {key.hex()} was changed")
        yield joined(
            shared,
            json.loads(unpacked_text(rest, dictionary or b"")),
            [unpacked_samples(row[2]) if row[2] is not None else () for row in processes],
            RowPlace(run=about, key=key.hex(), started=moment_of(started)),
        )
