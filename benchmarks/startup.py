"""Measure the command line's time before and around the kernel: whole processes, medians of several runs.

    python benchmarks/startup.py [--runs 11] [--json FILE]

Goals:

- ``--help`` and ``list-kernels``: 150 ms (aim 70)
- a first compile: 1.5 s
- a worker with a callable cached kernel: 150 ms after its spawn
- a whole ``fmha run`` of a cached 1 x 1 x 64 x 64 problem with ``--no-check``: 450 ms
- a list of one CK-Tile family (7,584 kernels): 1 s; their count: 300 ms
- a list of FlashAttention's kernels: 500 ms
- CPU time, start-up included: the count of CK-Tile's kernels for gfx942 (14,363) 300 ms; their list as JSON 2 s; a digest
  among all kernels, right or wrong, 1 s once there is an index
- a decision over some 6,000 CK-Tile candidates: 60 ms; one over FlashAttention's: 20 ms
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fmha_cli.bench.stats import median, median_interval
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.supervisor import Supervisor

TINY = "-b 1 -H 1 -s 64 -d 64"
AMD = DeviceFacts(id="hip:0", archs=("gfx942",), units=304)
NVIDIA = DeviceFacts(id="cuda:0", archs=("sm_90",), units=132)
CK = ("list-kernels", "--arch", "gfx942", "--backend", "ck_tile")
NAMED = ("explain", "-s", "64", "--kernel")
LISTED = (*CK, "--family", "bwd_dq_dk_dv")


def process(*words: str) -> Callable[[], int]:
    """Nanoseconds of one complete process."""

    def run() -> int:
        start = time.perf_counter_ns()
        subprocess.run([sys.executable, "-m", "fmha_cli", *words], check=True, capture_output=True)
        return time.perf_counter_ns() - start

    return run


def cpu_of(*words: str) -> Callable[[], int]:
    """Nanoseconds of CPU, user and system, of one complete process and its children."""

    def run() -> int:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "fmha_cli", *words], check=False, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return round((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e9)

    return run


def tiny_job(root: Path) -> WorkerJob:
    """The job of the tiny problem, with its kernel in the cache."""
    registry = build_registry()
    backend = registry.backend("cpu")
    found = probe_backends(registry, [backend])
    best = select(Problem.from_cli(TINY), registry, found, Wanted(backend="cpu")).best
    assert best is not None
    plan = backend.plan(Problem.from_cli(TINY), best.kernel, best.device)
    artifact = backend.build(plan.stages[0], BuildContext(cache_root=root))
    entry = registry.entry_point("cpu")
    return WorkerJob(entry=entry, device=best.device, plan=plan, artifacts=(replace(artifact, cached=True),))


def spawned(job: WorkerJob) -> Callable[[], int]:
    """Nanoseconds from the spawn of a worker to the end of its first launch."""

    def run() -> int:
        with Arena(layout_of(job.plan.problem)) as arena:
            arena.write(fill(job.plan.problem))
            arena.prepare()
            start = time.perf_counter_ns()
            with Supervisor() as supervisor:
                result = supervisor.run(job, arena)
                elapsed = time.perf_counter_ns() - start
            assert result.verdict is None, result.note
            return elapsed

    return run


def deciding(name: str, device: DeviceFacts, least: int) -> Callable[[], int]:
    """Nanoseconds of one decision over every candidate of a backend, with the kernels already enumerated."""
    backend = build_registry().backend(name)
    problem = Problem.of(hdim=128, seqlen=1000)
    assert sum(1 for _ in backend.decide(problem, device)) > least

    def run() -> int:
        start = time.perf_counter_ns()
        for _ in backend.decide(problem, device):
            pass
        return time.perf_counter_ns() - start

    return run


def first_compile(job: WorkerJob) -> Callable[[], int]:
    """Nanoseconds of a build in an empty cache with a known compiler."""
    backend = build_registry().backend("cpu")

    def run() -> int:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "cache"
            artifact = backend.build(job.plan.stages[0], BuildContext(cache_root=root))
            return round(artifact.build_seconds * 1e9)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", type=Path, help="write every sample")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "cache"
        job = tiny_job(root)
        process(*NAMED, job.plan.stages[0].kernel.digest)()  # the first look-up makes the index
        right = job.plan.stages[0].kernel.digest[:12]
        run = ("run", *TINY.split(), "--no-check", "--cache-dir", str(root))
        timed: dict[str, tuple[int, Callable[[], int]]] = {
            "fmha --help": (150, process("--help")),
            "fmha list-kernels --arch x86_64_v4": (150, process("list-kernels", "--arch", "x86_64_v4")),
            "worker callable after spawn": (150, spawned(job)),
            "fmha run, cached, --no-check": (450, process(*run)),
            "first compile": (1500, first_compile(job)),
            "list-kernels gfx942 ck_tile, one family": (1000, process(*LISTED)),
            "the same, --count": (300, process(*LISTED, "--count")),
            "CPU: list-kernels gfx942 ck_tile --count": (300, cpu_of(*CK, "--count")),
            "CPU: list-kernels gfx942 ck_tile --json": (2000, cpu_of(*CK, "--json")),
            "CPU: a wrong digest": (1000, cpu_of(*NAMED, "0123456789abcdef")),
            "CPU: a right digest": (1000, cpu_of(*NAMED, right)),
            "list-kernels sm_90 flash_attn": (
                500,
                process("list-kernels", "--arch", "sm_90", "--backend", "flash_attn"),
            ),
            "decide over all ck_tile forward kernels": (60, deciding("ck_tile", AMD, 4000)),
            "decide over all flash_attn forward kernels": (20, deciding("flash_attn", NVIDIA, 200)),
        }
        samples: dict[str, list[int]] = {name: [] for name in timed}
        for number in range(chosen.runs + 1):
            for name, (_, one) in timed.items():
                elapsed = one()
                samples[name] += [elapsed] if number else []
    print("| what | median [ms] | 95 % interval | goal [ms] | |\n|---|---|---|---|---|")
    for name, (goal, _) in timed.items():
        middle, ends = median(samples[name]), median_interval(samples[name])
        shown = "" if ends is None else f"{ends[0] / 1e6:.0f}-{ends[1] / 1e6:.0f}"
        print(f"| {name} | {middle / 1e6:.0f} | {shown} | {goal} | {'met' if middle <= goal * 1e6 else 'NOT MET'} |")
    if chosen.json:
        chosen.json.write_text(json.dumps(samples, indent=1, sort_keys=True), "utf-8")


if __name__ == "__main__":
    main()
