"""The table ``tuned`` of the store: which kernel to choose for a problem, and in which scope."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator

from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.domain.codec import DecodeError, to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import FmhaError
from fmha_cli.results.store import Store
from fmha_cli.results.writing import insert, problem_id

_MEMBERS = ("flags", "scope", "result", "default", "kernel", "gain", "run", "made", "why")
_COLUMNS = "flags, scope, result, fallback, kernel, gain, run, made, why, gain_lo, gain_hi"


def put_entry(store: Store, entry: RememberedChoice) -> None:
    """Remember an entry in place of the one with its problem and scope.

    Raises:
        EnvironmentProblem: X050; nothing was changed.
    """
    told, place = entry.to_dict(), entry.place
    told["fallback"], ends = told.pop("default"), told.pop("gain_ci95") or (None, None)
    told |= {"gain_lo": ends[0], "gain_hi": ends[1], "family": place.family, "at": place.at}
    told |= {"device_digest": entry.scope.device_digest, "scope": canonical_json(told["scope"])}
    with store.transaction() as db:
        insert(db, "tuned", {**told, "problem": problem_id(store, db, entry.problem.to_dict())}, "insert or replace")


def entries(store: Store, family: str | None = None) -> tuple[RememberedChoice, ...]:
    """The entries of a family of problems, or all, by family and length; of one length the newest first. A row that this version
    cannot read is passed over.

    Raises:
        EnvironmentProblem: X050.
    """
    where = "" if family is None else "where family = ? "
    with store.reading() as db:
        rows = db.execute(
            f"select {_COLUMNS} from tuned {where}order by family, at, made desc, scope",
            () if family is None else (family,),
        ).fetchall()
    return tuple(_read(rows))


def _read(rows: Iterable[sqlite3.Row]) -> Iterator[RememberedChoice]:
    for *row, low, high in rows:
        told = dict(zip(_MEMBERS, row, strict=True))
        ends = None if low is None else (low, high)
        try:
            yield RememberedChoice.from_dict({**told, "scope": json.loads(told["scope"]), "gain_ci95": ends})
        except (FmhaError, DecodeError, ValueError):
            continue


def remove_entries(store: Store, gone: Iterable[RememberedChoice]) -> int:
    """Forget entries: how many there were. All are removed, or none.

    Raises:
        EnvironmentProblem: X050.
    """
    count = 0
    with store.transaction() as db:
        for entry in gone:
            done = db.execute(
                "delete from tuned where problem = ? and device_digest = ? and scope = ?",
                (
                    problem_id(store, db, entry.problem.to_dict()),
                    entry.scope.device_digest,
                    canonical_json(to_json(entry.scope)),
                ),
            )
            count += done.rowcount
    return count
