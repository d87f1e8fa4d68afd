"""Measure the emulator's speed and memory use, which are properties of this machine and not of any GPU.

    python benchmarks/emulator_speed.py [--rounds 9] [--json FILE] [--markdown FILE]

For each kernel, a separate process loads the emulator, opens the backend's session and launches alternately with one
thread and with all threads, with and without the checks. The script reports wave-instructions per second of processor
time (one thread), wall seconds of a launch with all threads, and the process's largest resident size.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fmha_cli.api import build_registry
from fmha_cli.discovery.emulated_devices import emulated_availability, emulated_device
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.emulation import EmulatorOptions
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.plugin import BuildContext
from fmha_cli.run.arena import Arena
from fmha_cli.run.builds import build_orders
from fmha_cli.run.cases import Cases
from fmha_cli.run.layout import layout_of
from fmha_cli.run.protocol import map_shared
from fmha_cli.run.request import Order
from fmha_cli.toolchain.cache.root import cache_root

BACKEND = "ck_tile"
POINTS = (
    ("gfx942", "-b 1 -H 2 -s 1024 -d 128 --splits 1"),
    ("gfx950", "-b 1 -H 2 -s 1024 -d 128 --splits 1"),
    ("gfx1201", "-b 1 -H 2 -s 1024 -d 128 --splits 1"),
    ("gfx90a", "-b 1 -H 2 -s 1024 -d 128 --splits 1"),
    ("gfx942", "-b 1 -H 2 -s 256 -d 128 --direction bwd"),
)

TILE_FLOPS = 2 * 16 * 8 * 16
"""Of an m16n8k16 product: larger matrix instructions count as so many of these, so that their kernels compare."""


def measured(
    arch: str, flags: str, threads: int, checks: bool, rounds: int, backend_name: str = BACKEND
) -> dict[str, Any]:
    """Measure one configuration in this process."""
    registry = build_registry()
    emulator, device = emulated_device(registry, f"emu:{arch}")
    backend, problem = registry.backend(backend_name), Problem.from_cli(flags)
    found = emulated_availability(registry, (backend,), device.id)
    best = select(problem, registry, found, Wanted(backend=backend_name, device=device.id)).best
    assert best is not None
    plan = backend.plan(problem, best.kernel, best.device)
    context = BuildContext(cache_root=cache_root(), jobs=usable_cores())
    built = build_orders(map(Order, plan.stages), registry, context)
    library = emulator.build(device, context)
    options = EmulatorOptions(threads=threads, checks=checks, cache=str(context.cache_root / "emulators"))
    attached = emulator.attach(library.path, device, options)
    session = backend.open(device)
    layout = layout_of(problem, plan.workspaces)
    with Arena(layout) as arena:
        memory = map_shared(arena.fd, layout.size)
        cases = Cases(lambda one, kind: fill(one, kind, 0), oracle_s=1.0)
        arena.write(cases.case(problem, "normal", stream=backend.dropout_stream, check=True).inputs)
        arena.prepare()
        began = time.process_time()
        session.load(plan, [built[stage.kernel.digest].value.path for stage in plan.stages])
        loading = time.process_time() - began
        session.bind(memoryview(memory), dict(layout.tensors), 1)
        session.upload()
        session.launch()  # loads and decodes the code objects
        attached.take()
        spent, walls = [], []
        for _ in range(rounds):
            began, wall = time.process_time(), time.perf_counter()
            session.launch()
            spent.append(time.process_time() - began)
            walls.append(time.perf_counter() - wall)
        seen = attached.take()
        session.close()
    count = sum(one.instructions for one in seen.executed) / rounds
    others = sum(one.instructions - one.classes.get("matrix", 0) for one in seen.executed)
    tiles = sum(one.matrix_flops for one in seen.executed) / TILE_FLOPS
    return {
        "arch": arch,
        "flags": flags,
        "threads": threads,
        "checks": checks,
        "instructions": int(count),
        "findings": len(seen.findings),
        "load_s": loading,
        "cpu_s": statistics.median(spent),
        "wall_s": statistics.median(walls),
        "equivalents_per_cpu_s": (others + tiles) / rounds / statistics.median(spent) / 1e6,
        "million_per_cpu_s": count / statistics.median(spent) / 1e6,
        "spread": [count / max(spent) / 1e6, count / min(spent) / 1e6],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The results in Markdown."""
    lines = [
        "| kernel | threads | checks | wave-instructions | M/s of processor time (least to most) | wall s | peak MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        low, high = r["spread"]
        speed = f"{r['million_per_cpu_s']:.2f} ({low:.2f} to {high:.2f})"
        checks = "on" if r["checks"] else "off"
        lines.append(
            f"| {r['arch']} `{r['flags']}` | {r['threads']} | {checks} | {r['instructions']:,} | {speed} | "
            f"{r['wall_s']:.3f} | {r['peak_mib']:.0f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; always returns 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", nargs=4, metavar=("ARCH", "FLAGS", "THREADS", "CHECKS"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        arch, flags, threads, checks = given.one
        print(json.dumps(measured(arch, flags, int(threads), checks == "1", given.rounds)))
        return 0
    rows = []
    for arch, flags in POINTS:
        for threads, checks in ((1, "1"), (1, "0"), (usable_cores(), "1")):
            command = [sys.executable, __file__, "--rounds", str(given.rounds)]
            command += ["--one", arch, flags, str(threads), checks]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rows.append(json.loads(done.stdout))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    text = table(rows)
    print(text)
    if given.json:
        given.json.write_text(json.dumps({"schema": "fmha.emulator-speed/1", "rows": rows}, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
