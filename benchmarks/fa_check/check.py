"""The whole NVIDIA check in order, within one budget: kernels, cases, speed, decoding, random problems, sanitizer."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fa_check.budget import Budget, out_of_time
from fa_check.cases import CASES, SANITIZED
from fa_check.kernels import Pool, Supply, pool_of, supply
from fa_check.plans import planned
from fa_check.random_problems import COUNT, SEED, random_problems
from fa_check.results import NOT_RUN, Result, not_run
from fa_check.sanitizer import sanitize, tool
from fa_check.shards import Setting, Wanted, environ_of_children, validate
from fa_check.speed_points import POINTS
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts, State
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.execution.supervisor import Supervisor
from fmha_cli.toolchain.cache.importing import import_entries
from fmha_cli.toolchain.cache.root import open_root

BACKEND = "flash_attn"
SPEED = Path(__file__).with_name("speed.py")
WANTED = tuple(Wanted(case.name, case.flags, case.families) for case in CASES)
RANDOM_FILLS = ("normal", "coded", "large")
LEAST = {"cases": 30.0, "speed": 30.0, "random": 20.0}
MOST = {"build": 150.0, "cases": 170.0, "speed": 150.0, "random": 150.0}
"""Least seconds for a part (with less it is not begun) and most seconds; the sanitizer gets the rest."""
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
    count: int = COUNT
    seed: int = SEED


PARTS = ("cases", "speed", "random", "sanitizer")
"""The available parts in order; ``speed`` includes ceilings and decoding."""


def first_device() -> tuple[DeviceFacts | None, str]:
    """The first device that the backend's probe finds in a worker, or the reason why there is none."""
    with Supervisor() as supervisor:
        found = supervisor.probe(build_registry().entry_point(BACKEND), BACKEND)
    if found.state is State.OK:
        return found.devices[0], ""
    return None, found.why or f"{BACKEND} sees no device"


def check(device: DeviceFacts, options: Options, budget: Budget) -> tuple[list[Result], dict[str, Any]]:
    """Run the whole check on an available device. Returns the rows and the rest of the record."""
    notes: dict[str, Any] = {"environment": environment(), **bring(options)}
    backend = build_registry().backend(BACKEND)
    pool = pool_of(backend, device)
    kernels = supply(pool, backend, options.cache_root, jobs=options.jobs, seconds=budget.share(0, MOST["build"]) or 0)
    notes["kernels"] = {"text": kernels.text(), "missing": dict(kernels.faults)}
    budget.done("kernels")
    setting = Setting(
        backend=BACKEND,
        device=device.id,
        cache_root=str(options.cache_root),
        folder=options.folder,
        fills=FILLS,
        processes=options.processes,
        seed=options.seed,
    )
    results = _cases(options, setting, budget, pool, kernels)
    results += _speed(options, setting, budget)
    results += _random(options, setting, budget, pool.only(kernels.artifacts), backend, device)
    results += _sanitizer(options, setting, budget)
    notes["seconds"] = dict(budget.spent)
    return results, notes


def bring(options: Options) -> dict[str, Any]:
    """Import the archive, if one is given, and report the result."""
    if options.archive is None:
        return {}
    done = import_entries(open_root(options.cache_root), options.archive)
    size = options.archive.stat().st_size
    return {"archive": {"bytes": size, "added": len(done.added), "present": len(done.present)}}


def _cases(options: Options, setting: Setting, budget: Budget, pool: Pool, kernels: Supply) -> list[Result]:
    if "cases" not in options.parts:
        return []
    ready, out = [], {}
    for wanted in WANTED:
        out[wanted.name] = result = planned_row("cases", wanted, pool.plans[wanted.flags], kernels)
        ready += [] if result.why else [wanted]
    seconds = budget.share(LEAST["cases"], MOST["cases"])
    found = validate("cases", ready, setting, seconds) if seconds else _left_out(budget, "cases", ready)
    budget.done("cases")
    out |= {result.name: result for result in found}
    return list(out.values())


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


def _speed(options: Options, setting: Setting, budget: Budget) -> list[Result]:
    """Run the race in a separate process, which contains PyTorch's faults and memory."""
    if "speed" not in options.parts:
        return []
    seconds = budget.share(LEAST["speed"], MOST["speed"])
    if seconds is None:
        return _points(out_of_time(budget, "speed"))
    job, records = setting.folder / "speed.json", setting.folder / "speed.jsonl"
    records.unlink(missing_ok=True)
    words = {"backend": BACKEND, "cache_root": setting.cache_root, "device": setting.device}
    job.write_text(json.dumps({**words, "records": str(records), "seconds": seconds - _GRACE_S}), "utf-8")
    why = race(job, seconds)
    budget.done("speed")
    done = [Result(**json.loads(line)) for line in records.read_text("utf-8").splitlines()] if records.exists() else []
    have = {result.name for result in done}
    return done + [result for result in _points(why or "the race ended before it") if result.name not in have]


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


def _points(why: str) -> list[Result]:
    return [Result("decode" if p.kind == "decode" else "speed", p.name, p.flags, why=why) for p in POINTS]


def _random(
    options: Options, setting: Setting, budget: Budget, pool: Pool, backend: Backend, device: DeviceFacts
) -> list[Result]:
    if "random" not in options.parts:
        return []
    try:
        wanted = drawn(pool, backend, device, options)
    except ValueError as fault:
        return [Result("random", f"{options.count} problems", why=f"the kernels at hand serve too few: {fault}")]
    seconds = budget.share(LEAST["random"], MOST["random"])
    mixed = Setting(**{**vars(setting), "fills": RANDOM_FILLS})
    found = validate("random", wanted, mixed, seconds) if seconds else _left_out(budget, "random", wanted)
    budget.done("random")
    return found


def drawn(pool: Pool, backend: Backend, device: DeviceFacts, options: Options) -> list[Wanted]:
    """The random problems that the pool's kernels support.

    Raises:
        ValueError: they support too few.
    """
    bases = [Problem.from_cli(case.flags) for case in CASES if pool.serves(pool.plans[case.flags])]
    if not bases:
        raise ValueError("no case has all its kernels")
    return random_problems(bases, lambda p: pool.serves(planned(backend, p, device)), options.count, options.seed)


def _sanitizer(options: Options, setting: Setting, budget: Budget) -> list[Result]:
    if "sanitizer" not in options.parts:
        return []
    chosen = [wanted for wanted in WANTED if wanted.name in SANITIZED]
    out = sanitize(chosen, setting, budget, tool())
    budget.done("sanitizer")
    return out


def nothing_runs(options: Options, why: str) -> list[Result]:
    """Every row of the requested parts as NOT_RUN, for a machine without a device."""
    out: list[Result] = []
    if "cases" in options.parts:
        out += [Result("cases", w.name, w.flags, families=list(w.families), why=why) for w in WANTED]
    if "speed" in options.parts:
        out += _points(why)
    if "random" in options.parts:
        out += not_run("random", [(f"random {n}", "") for n in range(options.count)], why)
    if "sanitizer" in options.parts:
        out += not_run("sanitizer", [(name, "") for name in SANITIZED], why)
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
