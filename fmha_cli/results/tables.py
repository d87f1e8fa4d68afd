"""The tables of the store, and the numbered steps from each version of them to the next.

``record`` has one row for every process that took samples of a record; process 0 holds the rest of the record
(``rest``). ``tally`` counts the records of each run, because counting a million rows takes seconds. Problems, kernels,
builds, setups and hosts are shared by many records and kept once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

APPLICATION = 0x666D6861
"""``fmha``: SQLite keeps it in the header, which identifies another program's file."""

_FIRST = """
create table run(
  id integer primary key, uuid text unique not null, started text, ended text, command text, argv text, label text,
  rev text, dirty int, fmha text, environment text);
create table host(id integer primary key, digest blob unique not null, json text not null);
create table problem(
  id integer primary key, digest blob unique not null, dtype text, mask text, direction text, batch int, heads int,
  kv_heads int, seqlen_q int, seqlen_k int, hdim int, hdim_v int, json text not null);
create table kernel(
  id integer primary key, digest blob unique not null, backend text, arch text, family text, name text, json text not null);
create table build(id integer primary key, digest blob unique not null, json text not null);
create table setup(id integer primary key, digest blob unique not null, dictionary int references dictionary, packed blob not null);
create table dictionary(id integer primary key, kind text unique not null, content blob not null);
create table record(
  id integer primary key, run int not null references run, row blob not null, process int not null,
  host int references host, problem int not null references problem, kernel int references kernel,
  build int references build, setup int not null references setup, backend text, device text, cache text, threads int, verdict text not null, started int,
  n int, median_ns int, q10_ns int, whole_ns int, ci_lo int, ci_hi int, tflops real, gbps real, peak_fraction real,
  regret real, is_default int, clock_mhz real, temp_c real, throttled int,
  samples blob, dictionary int references dictionary, rest blob, unique(run, row, process));
create table tally(
  run int not null references run, verdict text not null, device text not null, records int not null,
  primary key(run, verdict, device)) without rowid;
create index by_point on record(problem, kernel, run, whole_ns) where process = 0;
create index by_time on record(problem, whole_ns) where process = 0 and verdict in ('PASSED', 'UNCHECKED') and whole_ns is not null;
create index by_rev on run(rev) where rev is not null;
create index by_label on run(label) where label is not null;
"""


_TUNED = """
create table tuned(
  problem int not null references problem, device_digest text not null, scope text not null, family text not null, at int not null,
  flags text not null, result text not null, kernel text not null, fallback text not null, run text, gain real, gain_lo real,
  gain_hi real, made text not null, why text, primary key(problem, device_digest, scope)) without rowid;
create index by_family on tuned(family, device_digest);
"""
"""``tuned`` has one row for each tuned problem and scope. Kernels stand there by name, because a kernel that was never run by this
version is none of the table ``kernel``; ``fallback`` is the default at that time."""

_WITHOUT_BY_TIME = "drop index by_time"
"""``by_time`` served a question that no command asks."""

_UNFINISHED = (
    "create table unfinished(run int not null references run, what text not null, key text not null, value, "
    "primary key(run, what, key)) without rowid"
)
"""What a run is resumed from, which is there until all its rows are done and delivered. ``what`` is the plan (``start``, with
the digest of its identity), ``built`` with the build of a kernel, ``dispatched`` with the number of times of a row, ``sum``
with the checksum of a record, or ``note`` with what came of a step that is no record."""

STEPS = (_FIRST, _TUNED, _WITHOUT_BY_TIME, _UNFINISHED)
"""Step n leads from version n to version n + 1; an empty file has version 0."""


class Newer(Exception):
    """A later version of this tool wrote the file."""


class Foreign(Exception):
    """Another program wrote the file."""


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[str] = STEPS) -> None:
    """Bring a store to the newest version: all steps in one transaction, after a backup next to the file.

    Raises:
        Newer, Foreign: nothing was changed.
        sqlite3.Error: nothing was changed.
    """
    if _version(connection, len(steps)) == len(steps):
        return
    connection.execute("begin immediate")
    try:
        now = _version(connection, len(steps))  # another process may have done it meanwhile
        if now == 0:
            connection.execute(f"pragma application_id = {APPLICATION}")
        elif now < len(steps):
            connection.execute("rollback")
            _back_up(connection, path, now)
            connection.execute("begin immediate")
            now = _version(connection, len(steps))
        for statement in filter(str.strip, ";".join(steps[now:]).split(";")):
            connection.execute(statement)
        connection.execute(f"pragma user_version = {len(steps)}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _version(connection: sqlite3.Connection, newest: int) -> int:
    """The version of the tables. Raises Newer, Foreign."""
    (version,) = connection.execute("pragma user_version").fetchone()
    (application,) = connection.execute("pragma application_id").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if application != APPLICATION and (application or version or tables):
        raise Foreign
    if version > newest:
        raise Newer(f"it has version {version}, this fmha knows versions up to {newest}")
    return int(version)


def backup_path(path: Path, version: int) -> Path:
    """Where a store is kept as it was before it left a version."""
    return path.with_name(f"{path.name}.version-{version}")


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> None:
    target = backup_path(path, version)
    target.unlink(missing_ok=True)
    connection.execute("vacuum into ?", (str(target),))
