"""The table ``tuned`` of the store: which kernel to choose for a problem, and in which scope."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.domain.codec import DecodeError, to_json
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import FmhaError
from fmha_cli.results.store import Store
from fmha_cli.results.writing import problem_id

_COLUMNS = "flags, scope, result, fallback, kernel, gain, gain_lo, gain_hi, run, made, why"


def put_entry(store: Store, entry: RememberedChoice) -> None:
    """Remember an entry in place of the one with its problem and scope.

    Raises:
        EnvironmentProblem: X050; nothing was changed.
    """
    low, high = entry.gain_ci95 or (None, None)
    place = entry.place
    with store.transaction() as db:
        told: dict[str, Any] = {
            "problem": problem_id(store, db, entry.problem.to_dict()),
            "device_digest": entry.scope.device_digest,
            "scope": canonical_json(to_json(entry.scope)),
            "family": place.family,
            "at": place.at,
            "flags": entry.flags,
            "result": entry.result.value,
            "kernel": entry.kernel,
            "fallback": entry.default,
            "run": entry.run,
            "gain": entry.gain,
            "gain_lo": low,
            "gain_hi": high,
            "made": entry.made,
            "why": entry.why,
        }
        marks = ", ".join("?" * len(told))
        db.execute(f"insert or replace into tuned({', '.join(told)}) values ({marks})", tuple(told.values()))


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
    for flags, scope, result, default, kernel, gain, low, high, run, made, why in rows:
        try:
            yield RememberedChoice.from_dict(
                {
                    "flags": flags,
                    "scope": json.loads(scope),
                    "result": result,
                    "default": default,
                    "kernel": kernel,
                    "gain": gain,
                    "gain_ci95": None if low is None else (low, high),
                    "run": run,
                    "made": made,
                    "why": why,
                }
            )
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
