"""Check many problems at once: parallel processes on one device, each with its own worker.

Judging takes much longer on the host than on the device, so the processes hardly wait for each other. A problem is
NOT_RUN if its process did not finish it in time or died, in which case the row has the process's last output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fmha_cli
from fmha_cli.domain.problem import Problem
from nvidia_check.budget import Budget
from nvidia_check.results import Result

SCRIPT = Path(__file__).with_name("shard.py")
WORST = ("PASSED", "UNCHECKED", "MISTRUSTED", "NOT_RUN", "UNSUPPORTED")
"""The verdicts from good to bad; any other verdict is worse."""
_LAST_WORDS = 300


@dataclass(frozen=True)
class Wanted:
    """A problem to check: its name, its flags, and the families that it must use (empty: any)."""

    name: str
    flags: str
    families: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The settings that all processes share."""

    backend: str
    device: str
    cache_root: str
    folder: Path
    fills: tuple[str, ...]
    processes: int
    seed: int = 0
    timeout_s: float = 30.0
    oracle_s: float = 4.0


def validate(part: str, wanted: Sequence[Wanted], setting: Setting, seconds: float) -> list[Result]:
    """The verdict of every problem, in the given order, after at most ``seconds``."""
    lists = [wanted[n :: setting.processes] for n in range(setting.processes)]
    lists = [mine for mine in lists if mine]
    budget = Budget(seconds)
    running = [_start(part, n, mine, setting) for n, mine in enumerate(lists)]
    words = [_finish(process, budget) for process in running]
    found: dict[str, Result] = {}
    for n, (mine, said) in enumerate(zip(lists, words, strict=True)):
        records = _records(setting.folder / f"{part}{n}.jsonl")
        found |= {w.name: judged(part, w, records.get(key_of(w.flags), []), said) for w in mine}
    return [found[w.name] for w in wanted]


def write_job(name: str, wanted: Sequence[Wanted], setting: Setting) -> Path:
    """Write the job of one process and delete its old records and journal."""
    records = setting.folder / f"{name}.jsonl"
    records.unlink(missing_ok=True)
    Path(f"{records}.journal").unlink(missing_ok=True)
    job = {
        "backend": setting.backend,
        "cache_root": setting.cache_root,
        "device": setting.device,
        "fills": setting.fills,
        "flags": [w.flags for w in wanted],
        "oracle_s": setting.oracle_s,
        "records": str(records),
        "seed": setting.seed,
        "timeout_s": setting.timeout_s,
    }
    path = setting.folder / f"{name}.json"
    path.write_text(json.dumps(job), "utf-8")
    return path


def _start(part: str, n: int, wanted: Sequence[Wanted], setting: Setting) -> subprocess.Popen[str]:
    path = write_job(f"{part}{n}", wanted, setting)
    # Each process's numpy would use all cores for its products, so the processes share them.
    threads = str(max(1, (os.cpu_count() or 1) // setting.processes))
    environ = environ_of_children() | dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads
    )
    talk = path.with_suffix(".log").open("w", encoding="utf-8")
    with talk:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), str(path)], stdout=talk, stderr=talk, text=True, env=environ
        )


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


def _finish(process: subprocess.Popen[str], budget: Budget) -> str:
    """Wait within the budget. Returns why the process did not do everything, or an empty string."""
    try:
        code = process.wait(budget.left)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "the time of this part was over"
    if code == 0:
        return ""
    log = Path(process.args[-1]).with_suffix(".log")  # type: ignore[index]
    return f"its process ended with {code}: {log.read_text('utf-8').strip()[-_LAST_WORDS:]}"


def key_of(flags: str) -> str:
    """A key that identifies a problem, with or without a returned LSE."""
    return _key(Problem.from_cli(flags).to_dict())


def _key(problem: Mapping[str, Any]) -> str:
    return json.dumps({**problem, "lse": None}, sort_keys=True)


def _records(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of a process by problem, without an incomplete last line."""
    out: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        out.setdefault(_key(record["problem"]), []).append(record)
    return out


def judged(part: str, wanted: Wanted, records: Sequence[Mapping[str, Any]], said: str) -> Result:
    """The row of one problem from its records: the problem itself, and its LSE sibling where LSE can be returned."""
    result = Result(part, wanted.name, wanted.flags)
    if not records:
        result.why = said or "its process gave no record"
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


def row_of(part: str, wanted: Wanted, job: Path) -> Result:
    """The row of a job's only problem, after its process has ended."""
    return judged(part, wanted, _records(job.with_suffix(".jsonl")).get(key_of(wanted.flags), []), "")


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
