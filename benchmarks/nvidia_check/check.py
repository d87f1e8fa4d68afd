"""The whole NVIDIA check in order, within one budget: kernels, cases, speed, decoding, random problems, sanitizer."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts, State
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.root import open_root
from nvidia_check.budget import Budget, out_of_time
from nvidia_check.kernels import Pool, Supply, pool_of, supply
from nvidia_check.plans import planned, unserved
from nvidia_check.random_problems import SEED, random_problems
from nvidia_check.results import NOT_RUN, Result, not_run
from nvidia_check.sanitizer import sanitize, tool
from nvidia_check.shards import Setting, Wanted, environ_of_children, validate
from nvidia_check.speed_points import Point
from nvidia_check.subjects import Subject

SPEED = Path(__file__).with_name("speed.py")
RANDOM_FILLS = ("normal", "coded", "large")
LEAST = {"cases": 30.0, "speed": 30.0, "random": 20.0}
MOST = {"build": 150.0, "cases": 170.0, "speed": 270.0, "random": 150.0}
KEPT = {"cases": 0.0, "speed": 60.0, "random": 0.0}
"""Least seconds for a part (with less it is not begun), most seconds, and seconds that are kept for later parts, of all
backends. The sanitizer gets the rest. A point of ``speed`` takes about four seconds, and a part of it PyTorch's import."""
_GRACE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line."""

    cache_root: Path
    folder: Path
    archive: Path | None
    processes: int
    jobs: int
    parts: tuple[str, ...]
    count: int | None = None
    seed: int = SEED

    def drawn(self, subject: Subject) -> int:
        """The number of random problems of a backend."""
        return subject.count if self.count is None else self.count


PARTS = ("cases", "speed", "random", "sanitizer")
"""The available parts in order; ``speed`` includes ceilings and decoding."""


def parts_of(names: str) -> tuple[str, ...]:
    """The parts of a comma list.

    Raises:
        ArgumentTypeError: there is no such part.
    """
    wanted = tuple(names.split(","))
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise ArgumentTypeError(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return wanted


def first_device(backends: Sequence[str]) -> tuple[DeviceFacts | None, str]:
    """The first device that a backend's probe finds in a worker, or the first backend's reason why there is none."""
    why = "no backend"
    with Supervisor() as supervisor:
        for name in reversed(backends):
            found = supervisor.probe(build_registry().entry_point(name), name)
            if found.state is State.OK:
                return found.devices[0], ""
            why = found.why or f"{name} sees no device"
    return None, why


@dataclass(frozen=True)
class Going:
    """One backend's part of a running check.

    ``weight`` is its share of the time of every part. ``first``: whether the machine's ceilings are measured with it.
    """

    subject: Subject
    backend: Backend
    device: DeviceFacts
    setting: Setting
    pool: Pool
    kernels: Supply
    weight: float
    first: bool

    def seconds(self, budget: Budget, part: str) -> float | None:
        """Seconds that a part may take."""
        return budget.share(LEAST[part] * self.weight, MOST[part] * self.weight, KEPT[part])


def check(
    device: DeviceFacts, subjects: Sequence[Subject], options: Options, budget: Budget
) -> tuple[list[Result], dict[str, Any]]:
    """Run the whole check on an available device. Returns the rows and the rest of the record."""
    notes: dict[str, Any] = {"environment": environment(), **bring(options), "kernels": {}}
    served, results = with_kernels(device, subjects, options)
    going = []
    for subject in served:
        one = _begun(device, subject.at(device), served, options, budget)
        notes["kernels"][subject.backend] = {"text": one.kernels.text(), "missing": dict(one.kernels.faults)}
        going.append(one)
    notes["arch"] = going[0].pool.arch if going else device.archs[0]
    budget.done("kernels")
    for part, do in (("cases", _cases), ("speed", _speed), ("random", _random), ("sanitizer", _sanitizer)):
        for one in going if part in options.parts else ():
            rows = do(one, options, budget)
            for row in (row for row in rows if row.part != "ceilings"):
                row.backend, row.arch = one.subject.backend, one.pool.arch
            results += rows
        budget.done(part)
    notes["seconds"] = dict(budget.spent)
    return results, notes


def with_kernels(
    device: DeviceFacts, subjects: Sequence[Subject], options: Options
) -> tuple[list[Subject], list[Result]]:
    """The subjects whose backends have kernels for the device, and the rows of the others, which are NOT_RUN."""
    registry, served, rows = build_registry(), list[Subject](), list[Result]()
    for subject in subjects:
        if why := unserved(registry.backend(subject.backend), device):
            rows += nothing_runs([subject], options, why)
        else:
            served.append(subject)
    return served, rows


def _begun(
    device: DeviceFacts, subject: Subject, subjects: Sequence[Subject], options: Options, budget: Budget
) -> Going:
    """Bring or build the kernels of a backend."""
    backend = build_registry().backend(subject.backend)
    weight = subject.share / sum(other.share for other in subjects)
    pool = pool_of(backend, device, subject.flags, subject.kernels)
    seconds = budget.share(0, MOST["build"] * weight) or 0
    kernels = supply(pool, backend, options.cache_root, jobs=options.jobs, seconds=seconds, slow=False)
    folder = options.folder / subject.backend
    folder.mkdir(exist_ok=True)
    setting = Setting(
        backend=subject.backend,
        device=device.id,
        cache_root=str(options.cache_root),
        folder=folder,
        fills=FILLS,
        processes=options.processes,
        seed=options.seed,
    )
    first = subject.backend == subjects[0].backend
    return Going(subject, backend, device, setting, pool, kernels, weight, first)


def bring(options: Options) -> dict[str, Any]:
    """Import the archive, if one is given, and report the result."""
    if options.archive is None:
        return {}
    done = import_entries(open_root(options.cache_root), options.archive)
    size = options.archive.stat().st_size
    return {"archive": {"bytes": size, "added": len(done.added), "present": len(done.present)}}


def _cases(one: Going, options: Options, budget: Budget) -> list[Result]:
    ready, out = [], {}
    for wanted in one.subject.wanted:
        out[wanted.name] = result = planned_row("cases", wanted, one.pool.plans[wanted.flags], one.kernels)
        ready += [] if result.why else [with_kernel(wanted, one.subject, one.pool)]
    seconds = one.seconds(budget, "cases")
    found = validate("cases", ready, one.setting, seconds) if seconds else _left_out(budget, "cases", ready)
    out |= {result.name: result for result in found}
    return list(out.values())


def with_kernel(wanted: Wanted, subject: Subject, pool: Pool) -> Wanted:
    """The problem with the name of its kernel, if that is not the first one."""
    plan = pool.plans[wanted.flags]
    named = wanted.flags in subject.kernels and not isinstance(plan, str)
    return replace(wanted, kernel=plan.stages[0].kernel.name) if named else wanted


def planned_row(part: str, wanted: Wanted, plan: Plan | str, kernels: Supply) -> Result:
    """A row before its problem has run: UNSUPPORTED if a rule refuses it, which no case expects."""
    verdict = "UNSUPPORTED" if isinstance(plan, str) else NOT_RUN
    return Result(part, wanted.name, wanted.flags, verdict, list(wanted.families), why=unready(plan, kernels))


def unready(plan: Plan | str, kernels: Supply) -> str | None:
    """Why a problem cannot be run: it is refused, or a kernel is missing."""
    if isinstance(plan, str):
        return plan
    missing = [kernels.faults[s.kernel.digest] for s in plan.stages if s.kernel.digest in kernels.faults]
    return f"a kernel is missing: {missing[0]}" if missing else None


def _left_out(budget: Budget, part: str, wanted: Sequence[Wanted]) -> list[Result]:
    return not_run(part, [(w.name, w.flags) for w in wanted], out_of_time(budget, part))


def _speed(one: Going, options: Options, budget: Budget) -> list[Result]:
    """Run the race in a separate process, which contains PyTorch's faults and memory."""
    setting, points = one.setting, one.subject.points
    seconds = one.seconds(budget, "speed")
    if seconds is None:
        return _points(points, out_of_time(budget, "speed"))
    job, records = setting.folder / "speed.json", setting.folder / "speed.jsonl"
    records.unlink(missing_ok=True)
    words: dict[str, Any] = {"backend": setting.backend, "cache_root": setting.cache_root, "device": setting.device}
    words |= {"records": str(records), "seconds": seconds - _GRACE_S, "ceilings": one.first}
    job.write_text(json.dumps(words), "utf-8")
    why = race(job, seconds)
    done = [Result(**json.loads(line)) for line in records.read_text("utf-8").splitlines()] if records.exists() else []
    have = {result.name for result in done}
    return done + [row for row in _points(points, why or "the race ended before it") if row.name not in have]


def race(job: Path, seconds: float) -> str:
    """Run ``speed.py``. Returns why it failed, or an empty string; its output goes to the log next to the job."""
    with job.with_suffix(".log").open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                [sys.executable, str(SPEED), str(job)],
                stdout=log,
                stderr=log,
                timeout=seconds,
                check=False,
                env=environ_of_children(),
            )
        except subprocess.TimeoutExpired:
            return "the time of this part was over"
    if done.returncode == 0:
        return ""
    words = job.with_suffix(".log").read_text("utf-8").strip().splitlines()
    return f"its process ended with {done.returncode}: {words[-1][:200] if words else 'no words'}"


def _points(points: Sequence[Point], why: str) -> list[Result]:
    return [Result(point.part, point.name, point.flags, why=why) for point in points]


def _random(one: Going, options: Options, budget: Budget) -> list[Result]:
    try:
        wanted = drawn(one.subject, one.pool.only(one.kernels.artifacts), one.backend, one.device, options)
    except ValueError as fault:
        name = f"{options.drawn(one.subject)} problems"
        return [Result("random", name, why=f"the kernels at hand serve too few: {fault}")]
    seconds = one.seconds(budget, "random")
    mixed = Setting(**{**vars(one.setting), "fills": RANDOM_FILLS})
    return validate("random", wanted, mixed, seconds) if seconds else _left_out(budget, "random", wanted)


def drawn(subject: Subject, pool: Pool, backend: Backend, device: DeviceFacts, options: Options) -> list[Wanted]:
    """The random problems that the pool's kernels support.

    Raises:
        ValueError: they support too few.
    """
    plain = [case.flags for case in subject.cases if not case.kernels]
    bases = [Problem.from_cli(flags) for flags in plain if pool.serves(pool.plans[flags])]
    if not bases:
        raise ValueError("no case has all its kernels")
    count = options.drawn(subject)
    return random_problems(bases, lambda p: pool.serves(planned(backend, p, device)), subject.draw, count, options.seed)


def _sanitizer(one: Going, options: Options, budget: Budget) -> list[Result]:
    chosen = [wanted for wanted in one.subject.wanted if wanted.name in one.subject.sanitized]
    return sanitize(chosen, one.setting, budget, tool())


def nothing_runs(subjects: Sequence[Subject], options: Options, why: str) -> list[Result]:
    """Every row of the requested parts as NOT_RUN, for a machine without a device."""
    out: list[Result] = []
    for subject in subjects:
        rows = {
            "cases": [Result("cases", w.name, w.flags, families=list(w.families)) for w in subject.wanted],
            "speed": _points(subject.points, ""),
            "random": not_run("random", [(f"random {n}", "") for n in range(options.drawn(subject))], ""),
            "sanitizer": not_run("sanitizer", [(name, "") for name in subject.sanitized], ""),
        }
        for row in (row for part in PARTS if part in options.parts for row in rows[part]):
            row.why, row.backend = why, subject.backend
            out.append(row)
    return out


def environment() -> dict[str, Any]:
    """The machine and its versions, as far as they are known without a device."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in ("torch", "triton", "numpy", "cuda-bindings", "nvidia-cuda-nvrtc"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    query = "name,driver_version,clocks.sm,clocks.mem,power.limit,temperature.gpu,memory.total"
    try:
        said = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        smi = said.stdout.strip() or said.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as fault:
        smi = f"no answer of nvidia-smi ({type(fault).__name__})"
    return {"python": platform.python_version(), "cores": os.cpu_count(), "nvidia_smi": smi, "versions": versions}


def rows_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The rows as JSON data."""
    return [asdict(result) for result in results]
