"""Check many problems at once: ``fmha sweep`` with several workers that share one device.

Judging takes much longer on the host than on the device, so the workers hardly wait for each other. A problem whose time was
over is NOT_RUN. Where the sweep did not end well, rows without a record have its last words.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import fmha_cli
from fmha_cli.domain.problem import Problem
from nvidia_check.results import Result

WORST = ("PASSED", "UNCHECKED", "MISTRUSTED", "NOT_RUN", "UNSUPPORTED")
"""The verdicts from good to bad; any other verdict is worse."""
_LAST_WORDS = 300
_LATE_S = 20.0
"""Seconds more than its own limit after which a sweep is killed."""


@dataclass(frozen=True)
class Wanted:
    """A problem to check: its name, its flags, the families that it must use (empty: any), and its kernel (empty: the first one)."""

    name: str
    flags: str
    families: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The settings that all workers share."""

    backend: str
    device: str
    cache_root: str
    folder: Path
    fills: tuple[str, ...]
    processes: int
    seed: int = 0
    timeout_s: float = 30.0
    oracle_s: float = 4.0

    @property
    def options(self) -> list[str]:
        """As options of ``validate`` and of ``sweep --step validate``, which print records."""
        return [
            *("--backend", self.backend, "--fill", ",".join(self.fills), "--fill-seed", str(self.seed)),
            *(
                "--timeout",
                f"{self.timeout_s:g}",
                "--check-budget",
                f"{self.oracle_s:g}",
                "--cache-dir",
                self.cache_root,
            ),
            *("--offline", "--no-store", "--jsonl"),
        ]


def validate(part: str, wanted: Sequence[Wanted], setting: Setting, seconds: float) -> list[Result]:
    """The verdict of every problem, in the given order, after about ``seconds`` at most: the problems for the first
    kernel first.
    """
    end = monotonic() + seconds
    together = [w for w in wanted if not w.kernel]
    done = _swept(part, together, setting, seconds) if together or not wanted else {}
    for w in wanted:
        if w.kernel:
            done[w.name] = _alone(part, w, setting, end - monotonic())
    return [done[w.name] for w in wanted]


def _alone(part: str, wanted: Wanted, setting: Setting, seconds: float) -> Result:
    """The verdict of a problem with its own kernel, which a sweep does not take."""
    if seconds <= 0:
        return Result(part, wanted.name, wanted.flags, why="the time of this part was over")
    records = setting.folder / f"{part}-{re.sub(r'[^a-z0-9]+', '-', wanted.name.lower())}.jsonl"
    words = ["validate", "--device", setting.device, *shlex.split(wanted.flags), "--kernel", wanted.kernel]
    said = _said([*program(), *words, *setting.options], records, seconds + _LATE_S)
    return judged(part, wanted, _records(records).get(key_of(wanted.flags), []), said)


def _swept(part: str, wanted: Sequence[Wanted], setting: Setting, seconds: float) -> dict[str, Result]:
    """The verdicts by name of problems that one sweep checks."""
    problems, records = (setting.folder / f"{part}.{ending}" for ending in ("txt", "jsonl"))
    problems.write_text("".join(f"{w.flags}  # {w.name}\n" for w in wanted), "utf-8")
    devices = f"{setting.device}*{setting.processes}"
    words = ["sweep", "--step", "validate", "--devices", devices, "--problems", str(problems), "--chunk", "4"]
    said = _said(
        [*program(), *words, "--time-limit", f"{max(seconds, 1e-3):g}", *setting.options], records, seconds + _LATE_S
    )
    found = _records(records)
    return {w.name: judged(part, w, found.get(key_of(w.flags), []), said) for w in wanted}


def program() -> list[str]:
    """``fmha`` of this very package, as words."""
    return [sys.executable, "-m", "fmha_cli"]


def _said(words: Sequence[str], records: Path, seconds: float) -> str:
    """Run a command whose output is the records. Returns why some may be missing, or an empty string."""
    log = records.with_suffix(".log")
    with records.open("wb") as out, log.open("wb") as talk:
        try:
            code = subprocess.run(
                words, stdout=out, stderr=talk, timeout=seconds, check=False, env=environ_of_children()
            ).returncode
        except subprocess.TimeoutExpired:
            return "the time of this part was over"
    last = log.read_text("utf-8").strip()[-_LAST_WORDS:]
    verb = next(word for word in words if word in ("sweep", "validate"))
    return f"fmha {verb} ended with {code}: {last}" if code else ""


def environ_of_children() -> dict[str, str]:
    """The environment, with this very package and these modules first on Python's path."""
    own = [str(Path(fmha_cli.__file__).parents[1]), str(Path(__file__).parents[1])]
    before = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([*own, *before])}


@contextmanager
def children_find_us() -> Iterator[None]:
    """Let processes that start meanwhile find this package, whatever their working folder."""
    before = os.environ.get("PYTHONPATH")
    os.environ.update(environ_of_children())
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({} if before is None else {"PYTHONPATH": before})


def key_of(flags: str) -> str:
    """A key that identifies a problem, with or without a returned LSE."""
    return _key(Problem.from_cli(flags).to_dict())


def _key(problem: Mapping[str, Any]) -> str:
    return json.dumps({**problem, "lse": None}, sort_keys=True)


def _records(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of a file by problem, without an incomplete last line."""
    out: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if "problem" in record:  # the first line is the environment
            out.setdefault(_key(record["problem"]), []).append(record)
    return out


def judged(part: str, wanted: Wanted, records: Sequence[Mapping[str, Any]], said: str) -> Result:
    """The row of one problem from its records: the problem itself, and its LSE sibling where LSE can be returned."""
    result = Result(part, wanted.name, wanted.flags)
    if not records:
        result.why = said or "there is no record of it"
        return result
    worst = max(records, key=lambda r: _badness(r["verdict"]))
    result.verdict = worst["verdict"]
    result.families = [stage["family"] for stage in worst["stages"]]
    result.used = used_of(records)
    result.figures = {
        "rows": len(records),
        "kernels": [stage["digest"][:16] for stage in worst["stages"]],
        "prebuilt_by": sorted({by for stage in worst["stages"] if (by := stage["prebuilt_by"])}),
    }
    if result.verdict != "PASSED":
        notes = [*(f"{r['id']} {r['text']}" for r in worst["reasons"]), *worst["notes"]]
        result.why = "; ".join(notes) or "no reason given"
    elif wanted.families and tuple(result.families) != wanted.families:
        result.verdict, result.why = "WRONG", f"{', '.join(wanted.families)} expected, not {', '.join(result.families)}"
    return result


def row_of(part: str, wanted: Wanted, records: Path) -> Result:
    """The row of the only problem in a file of records."""
    return judged(part, wanted, _records(records).get(key_of(wanted.flags), []), "")


def _badness(verdict: str) -> int:
    return WORST.index(verdict) if verdict in WORST else len(WORST)


def used_of(records: Iterable[Mapping[str, Any]]) -> float | None:
    """The largest share of its error budget that an output used, over all fills."""
    checks = [
        c
        for r in records
        for fill in (r["fills"] or [r["checks"]])
        for c in (fill or {}).values()
        if isinstance(c, dict)
    ]
    return max(
        (c["row_l2"] / c["row_l2_budget"] for c in checks if c.get("row_l2") is not None and c.get("row_l2_budget")),
        default=None,
    )
