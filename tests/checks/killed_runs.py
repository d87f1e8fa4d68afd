"""Runs and sweeps on the null backend that are ended by a signal at a random moment, and finished: no row is lost, doubled or changed.

A round begins a command, sends KILL, INT, TERM or HUP while it starts or between its rows, and repeats or resumes it as its user would. Rows
that it had printed must be on the disk when it is gone, and be the same at the end. The rows are kept in the store, in a file of the
user (``--journal``), without a store, or in the store by a sweep.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fmha_cli.results.plans import unfinished
from tests.checks.check import Check, Row, product
from tests.checks.sweep import records
from tests.checks.tables import crosstab
from tests.support.child_signals import hear_signals

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KINDS = ("store", "file", "none", "sweep")
ROUNDS, ROWS = 96, 40
WORDS: Mapping[str, Sequence[str]] = {
    "store": ("run",),
    "file": ("run", "--journal", "mine"),
    "none": ("run", "--no-store"),
    "sweep": ("sweep", "--step", "run", "--devices", "null", "--chunk", "4"),
}
PROBLEMS = ("--backend", "null", "-H", "1", "-d", "8", "-s", f"1:{ROWS}:+1")


@dataclass(frozen=True)
class KilledRun:
    """A round by its number, which draws the moment."""

    number: int

    @property
    def kind(self) -> str:
        return KINDS[self.number // len(SIGNALS) % len(KINDS)]

    @property
    def signal(self) -> signal.Signals:
        return SIGNALS[self.number % len(SIGNALS)]

    @property
    def name(self) -> str:
        return f"{self.number}: {self.kind}, {self.signal.name}"


@dataclass
class Round:
    """A round in a folder of its own.

    Attributes:
        told: the rows that were printed and done, by their keys. code: of the command that was ended.
    """

    case: KilledRun
    folder: Path
    told: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    code: int = 0

    @property
    def store(self) -> Path:
        return self.folder / "data" / "fmha" / "results.sqlite"

    def start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("FMHA_")}
        homes = {f"XDG_{name.upper()}_HOME": str(self.folder / name) for name in ("data", "state", "cache", "config")}
        return subprocess.Popen(
            [sys.executable, "-m", "fmha_cli", *words, "--jsonl"],
            cwd=self.folder,
            env=environ | homes,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=hear_signals,
        )

    def end(self) -> None:
        """Begin the command, and send the signal while it starts or after some of its rows."""
        draw = random.Random(self.case.number)
        after, pause = draw.randrange(-ROWS // 4, ROWS), draw.uniform(0, 0.03)
        process = self.start((*WORDS[self.case.kind], *PROBLEMS))
        assert process.stdout is not None
        lines: list[str] = []
        if after < 0:
            time.sleep(draw.uniform(0, 1))
        while len(lines) <= after and (line := process.stdout.readline()):
            lines.append(line)
        time.sleep(pause)
        process.send_signal(self.case.signal)
        lines += [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        self.code = process.wait(60)
        self.told = {row["row"]: row for row in records(lines) if row["verdict"] != "NOT_RUN"}

    @property
    def file(self) -> Path | None:
        """The file of the run, where it has one."""
        kept = sorted((self.folder / "cache" / "fmha" / "journals").glob("*.sqlite"))
        found = {"file": [self.folder / "mine"], "none": kept}.get(self.case.kind, [])
        return next((path for path in found if path.exists()), None)

    def again(self) -> Sequence[str] | None:
        """What its user does then; None if it was done."""
        begun = (*WORDS[self.case.kind], *PROBLEMS)
        if self.file is not None:
            return (
                "run",
                *(("--no-store",) if self.case.kind == "none" else ()),
                *PROBLEMS,
                "--resume",
                str(self.file),
            )
        if self.case.kind == "sweep" and list((self.folder / "state" / "fmha" / "sweeps").glob("*/sweep.json")):
            return ("sweep", "--resume", "latest")
        if runs := list(unfinished(self.store)):
            return (*begun, "--resume", runs[0][:8])
        return None if self.code == 0 else begun

    def rows(self) -> list[str]:
        """The keys of the rows that are on the disk."""
        path = self.file or self.store
        if not path.exists():
            return []
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)
            if not db.execute("select 1 from sqlite_master where name = 'record'").fetchone():
                return []
            return [row.hex() for (row,) in db.execute("select row from record where process = 0")]


def row_of(case: KilledRun) -> Row:
    """Carry out a round."""
    with TemporaryDirectory(prefix="fmha-killed-") as folder:
        ended = Round(case, Path(folder))
        ended.end()
        there = ended.rows() if ended.code or case.kind != "none" else list(ended.told)
        final = dict(ended.told)
        if (words := ended.again()) is not None:
            process = ended.start(words)
            output, _ = process.communicate(timeout=120)
            final = {row["row"]: row for row in records(output.splitlines())}
        kept = ended.rows() if case.kind != "none" or (words is not None and "--resume" in words) else list(final)
        left = [path.name for path in ended.folder.rglob(".*.lock")] + [
            path.name for path in ended.folder.rglob("*.part")
        ]
    return {
        "kind": case.kind,
        "signal": case.signal.name,
        "code": ended.code,
        "rows printed by then": len(ended.told),
        "rows on the disk by then": len(there),
        "printed and not on the disk": len(ended.told.keys() - set(there)),
        "lost": ROWS - len(final) + ROWS - len(set(kept)),
        "doubled": len(kept) - len(set(kept)) + len(there) - len(set(there)),
        "changed": sum(final.get(key) != row for key, row in ended.told.items()),
        "files left": left,
    }


def good(row: Row) -> bool:
    """Whether no row was lost, doubled or changed, and nothing is left behind."""
    return not any(row[name] for name in ("printed and not on the disk", "lost", "doubled", "changed", "files left"))


def summary(rows: Iterable[Row]) -> str:
    """How many rounds of each kind, by the number of rows that were on the disk when the signal had done its work."""

    def share(row: Row) -> str:
        there = row["rows on the disk by then"]
        return "none" if not there else "all" if there == ROWS else "some"

    return crosstab(rows, "kind", share, "rows on the disk")


CHECK = Check(
    cases=lambda: [KilledRun(number) for number in range(ROUNDS)],
    name=lambda case: case.name,
    carry_out=row_of,
    depends=lambda case: product(),
    good=good,
    by=("kind", "signal"),
    summarise=summary,
)
