"""Writing runs and records into the store. Each record is there once, however often it is written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmha_cli import __version__
from fmha_cli.bench.stats import median, quantile
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.report.parts import Environment, RunRow
from fmha_cli.report.record import Record
from fmha_cli.results.moments import moment_of, seconds_of
from fmha_cli.results.packing import Stages, checksum, packed_samples, packed_text
from fmha_cli.results.parts import Parts, RowPlace, Shared, taken_apart
from fmha_cli.results.store import Store

_LONGEST_DICTIONARY = 2**14

PACKED = ("setup",)
"""Tables of shared parts that hold packed texts: a record that is measured once has its own."""

QUANTILE = 0.1
"""The quantile of a process's samples that comparisons of runs look at."""


@dataclass(frozen=True)
class StoredRun:
    """A run that the store has: the number of its row, and what its records say of it."""

    id: int
    about: RunRow


def put_run(
    db: sqlite3.Connection, run: RunRow, *, argv: Sequence[str] = (), environment: Environment | None = None
) -> StoredRun:
    """The run, which is written if the store does not have it. Missing members are added, and none is replaced."""
    told = None if environment is None else canonical_json(to_json(environment))
    version = __version__ if environment is None else environment.fmha
    words = {"argv": json.dumps(list(argv)), "fmha": version, "environment": told}
    about = {"uuid": run.id, "started": run.started, "command": run.command, "label": run.label}
    insert(db, "run", {**about, "rev": run.revision, "dirty": run.dirty, **words}, "insert or ignore")
    db.execute(
        "update run set environment = coalesce(environment, ?), rev = coalesce(rev, ?), dirty = coalesce(dirty, ?) "
        "where uuid = ?",
        (told, run.revision, run.dirty, run.id),
    )
    id, *row = db.execute(
        "select id, command, started, label, rev, dirty from run where uuid = ?", (run.id,)
    ).fetchone()
    return StoredRun(id, run_row(run.id, *row))


def held(value: Any) -> Any:
    """A value as a column can hold it: a text with its lone surrogates escaped, and no number of more than 64 bits. Columns are for
    questions; a record is put together from its parts, which are whole."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def insert(db: sqlite3.Connection, table: str, told: Mapping[str, Any], verb: str = "insert") -> sqlite3.Cursor:
    """One row of a table."""
    marks = ", ".join("?" * len(told))
    return db.execute(f"{verb} into {table}({', '.join(told)}) values ({marks})", tuple(map(held, told.values())))


def run_row(uuid: str, command: str, started: str, label: str | None, rev: str | None, dirty: int | None) -> RunRow:
    """What a row of the table ``run`` says of its run."""
    state = None if dirty is None else bool(dirty)
    return RunRow(id=uuid, command=command, started=started, label=label, revision=rev, dirty=state)


def end_run(db: sqlite3.Connection, run: StoredRun, ended: str) -> None:
    """Note when a run ended (ISO 8601 in UTC); one that is resumed ends again."""
    db.execute("update run set ended = ? where id = ?", (ended, run.id))


def arrange_records(db: sqlite3.Connection, run: StoredRun, keys: Sequence[str]) -> None:
    """Put the records of a run in the order of their keys. Rows that end in another order, as interleaved ones do, are
    written in that order.
    """
    place = {bytes.fromhex(key): number for number, key in enumerate(keys)}
    rows = db.execute("select id, row, process from record where run = ? order by id", (run.id,)).fetchall()
    wanted = sorted(rows, key=lambda r: (place.get(r[1], len(place)), r[2] if r[1] in place else 0))
    if wanted == rows:
        return
    (last,) = db.execute("select max(id) from record").fetchone()
    moves = [(last + number, id) for number, (id, *_) in enumerate(wanted, 1)]
    db.executemany("update record set id = ? where id = ?", moves)


def put_record(store: Store, db: sqlite3.Connection, run: StoredRun, record: Record, key: str) -> bytes | None:
    """Write a record: its checksum; None if its run has one with this key already.

    Args:
        key: of the row within its run, 24 hexadecimal digits.
    """
    row = bytes.fromhex(key)
    if db.execute("select 1 from record where run = ? and row = ?", (run.id, row)).fetchone():
        return None
    started = seconds_of(record.started)
    parts = taken_apart(record, RowPlace(run=run.about, key=key, started=moment_of(started)))
    kind = held(" ".join((record.backend or "", run.about.command, record.verdict.value)))
    ids = _shared_ids(store, db, record, parts, kind)
    dictionary, rest = _packed(db, kind, canonical_json(parts.rest))
    packed = [_times(samples) for samples in parts.samples]
    for process, times in enumerate(packed):
        first = process == 0
        told = {**ids, **_columns(record, first), **times, "run": run.id, "row": row, "process": process}
        told |= {"started": started, "rest": rest if first else None, "dictionary": dictionary if first else None}
        insert(db, "record", told)
    db.execute(
        "insert into tally(run, verdict, device, records) values (?, ?, ?, 1) "
        "on conflict(run, verdict, device) do update set records = records + 1",
        (run.id, record.verdict.value, held(record.device or "")),
    )
    digests = [None if part is None else part.digest for part in parts.shared.values()]
    return checksum(key, started, digests, rest, [times.get("samples") for times in packed])


def replace_record(store: Store, db: sqlite3.Connection, run: StoredRun, record: Record, key: str) -> bytes | None:
    """Write a record in place of the one with its key, which has the same verdict and device: its checksum."""
    db.execute("delete from record where run = ? and row = ?", (run.id, bytes.fromhex(key)))
    db.execute(
        "update tally set records = records - 1 where run = ? and verdict = ? and device = ?",
        (run.id, record.verdict.value, held(record.device or "")),
    )
    return put_record(store, db, run, record, key)


def _columns(record: Record, first: bool) -> Mapping[str, Any]:
    """The members of a record that queries read; among its summaries, only process 0 has them."""
    measured, kernel = record.measurement, record.kernel
    told: dict[str, Any] = {
        "backend": record.backend,
        "device": record.device,
        "verdict": record.verdict.value,
        "cache": None if measured is None else measured.cache.value,
        "threads": None if measured is None else measured.threads,
    }
    if not first:
        return told
    told |= {"regret": record.regret, "is_default": record.default_choice if kernel is not None else None}
    if measured is not None:
        ends, seen = measured.ci95_ns or (None, None), measured.conditions
        told |= {"whole_ns": measured.median_ns, "ci_lo": ends[0], "ci_hi": ends[1], "tflops": measured.tflops}
        told |= {"gbps": measured.gbps, "peak_fraction": measured.peak_fraction}
        told |= {} if seen is None else vars(seen)
    return told


def _times(samples: Stages) -> Mapping[str, Any]:
    """The samples of one process, and their summaries."""
    if not samples:
        return {}
    whole = [sum(launch) for launch in zip(*samples, strict=True)]
    low = round(quantile(whole, QUANTILE))
    return {"n": len(whole), "median_ns": median(whole), "q10_ns": low, "samples": packed_samples(samples)}


def _shared_ids(
    store: Store, db: sqlite3.Connection, record: Record, parts: Parts, kind: str
) -> Mapping[str, int | None]:
    """The numbers of what the record shares with others, by the table that has it."""
    kernel = record.kernel
    told = {} if kernel is None else {"family": kernel.family.value, "name": kernel.name}
    about: dict[str, Mapping[str, Any]] = {
        "problem": _asked_of(record.problem),
        "kernel": {"backend": record.backend, "arch": record.arch, **told},
    }
    return {table: _id(store, db, table, text, about.get(table, {}), kind) for table, text in parts.shared.items()}


def _asked_of(problem: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns of a problem."""
    names = ("dtype", "mask", "direction", "batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "hdim", "hdim_v")
    return {name: problem.get(name) for name in names}


def problem_id(store: Store, db: sqlite3.Connection, problem: Mapping[str, Any]) -> int:
    """The number of a problem (its JSON form), which is written if it is new."""
    found = _id(store, db, "problem", Shared.of(dict(problem)), _asked_of(problem), "")
    assert found is not None
    return found


def _id(
    store: Store, db: sqlite3.Connection, table: str, shared: Shared | None, about: Mapping[str, Any], kind: str
) -> int | None:
    """The number of a text in one of the tables of shared parts; a new text is written."""
    if shared is None:
        return None
    digest = shared.digest
    if (table, digest) not in store.known:
        found = db.execute(f"select id from {table} where digest = ?", (digest,)).fetchone()
        if found is None:
            told: dict[str, Any] = {"digest": digest, **about}
            if table in PACKED:
                told["dictionary"], told["packed"] = _packed(db, f"{table} {kind}", shared.text)
            else:
                told["json"] = shared.text
            found = (int(insert(db, table, told).lastrowid or 0),)
        store.known[table, digest] = found[0]
    return store.known[table, digest]


def _packed(db: sqlite3.Connection, kind: str, text: str) -> tuple[int, bytes]:
    """The number of the dictionary for texts of a kind, which is the first of them, and the packed text."""
    found = db.execute("select id, content from dictionary where kind = ?", (kind,)).fetchone()
    if found is None:
        content = text.encode()[-_LONGEST_DICTIONARY:]
        done = db.execute("insert into dictionary(kind, content) values (?, ?)", (kind, content))
        found = (int(done.lastrowid or 0), content)
    return found[0], packed_text(text, found[1])
