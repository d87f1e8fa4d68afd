"""Build every kernel that ``gpu_check.py --vendor nvidia`` needs, and pack them for a machine without a network.

    python benchmarks/gpu_prepare.py [--arch sm_90] [--backend B] [--jobs 2] [--minutes M] [-o nvidia_sm_90.tar.xz]

On that machine: ``PYTHONPATH=. python benchmarks/gpu_check.py --vendor nvidia --archive nvidia_sm_90.tar.xz``. Kernels in
the cache are not built again, so an interrupted run continues where it stopped. Exit codes: 0 if the archive holds all
kernels and is small enough to transfer; 1 if kernels are missing or it is too large, with the reason.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from nvidia_check.kernels import pool_of, supply
from nvidia_check.plans import machine_of, unserved
from nvidia_check.subjects import subjects_of

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import arch_names
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.exporting import export_entries
from fmha_cli.toolchain.cache.root import cache_root, open_root

TRAVELS = 50 * 10**6
"""The maximum size of the archive in bytes."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--backend", type=subjects_of, default="", help="whose kernels, a comma list [every one's]")
    parser.add_argument("--jobs", type=int, default=usable_cores())
    parser.add_argument("--minutes", type=float, default=240.0)
    parser.add_argument("--offline", action="store_true", help="never fetch the sources")
    parser.add_argument("-o", "--out", type=Path)
    wanted = parser.parse_args()
    started, root = time.monotonic(), cache_root()
    if wanted.arch not in arch_names():
        parser.error(f"argument --arch: no {wanted.arch}; `fmha archs` lists them")
    device, registry, artifacts, whole = machine_of(wanted.arch), build_registry(), list[Artifact](), True
    for subject in wanted.backend:
        backend, here = registry.backend(subject.backend), subject.at(device)
        if why := unserved(backend, device):
            print(why)
            continue
        pool = pool_of(backend, device, here.flags, here.kernels)
        refused = {flags: plan for flags, plan in pool.plans.items() if isinstance(plan, str)}
        left = 60 * wanted.minutes - (time.monotonic() - started)
        made = supply(pool, backend, root, jobs=wanted.jobs, seconds=max(0.0, left), offline=wanted.offline, say=print)
        print(f"{subject.backend}: {made.text()}; {time.monotonic() - started:.0f} s")
        for flags, why in refused.items():
            print(f"refused: {flags}: {why}")
        for digest, why in made.faults.items():
            print(f"missing: {digest[:8]} {pool.stages[digest].kernel.name}: {why}")
        artifacts += made.artifacts.values()
        whole = whole and not made.faults and not refused
    if not artifacts:
        return 1
    out = wanted.out or Path(f"nvidia_{wanted.arch}.tar.xz")
    done = export_entries(open_root(root), [artifact.digest for artifact in artifacts], out)
    largest = max(artifact.path.stat().st_size for artifact in artifacts)
    print(
        f"{out}: {len(done.digests)} kernels, {done.size / 1e6:.1f} MB (at most {TRAVELS / 1e6:.0f}); the largest cubin has {largest / 1e6:.2f} MB"
    )
    return 0 if whole and done.size <= TRAVELS else 1


if __name__ == "__main__":
    raise SystemExit(main())
