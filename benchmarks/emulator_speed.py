"""Measure the speed, loading time, memory and building time of the emulators: properties of this machine and not of any GPU.

    python benchmarks/emulator_speed.py [--against REV] [--only WORDS] [--turns 3] [--launches 7] [--json FILE]

For each kernel, a process of its own loads the emulator, opens the backend's session and launches it. ``--against`` measures
the emulators of another revision in turns with these, under the same Python, sessions and kernels. The ratio is that of the
processor times of a launch, with the least and the largest ratio of two neighbouring turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fmha_cli.api import build_registry
from fmha_cli.discovery.emulated_devices import emulated_availability, emulated_device
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.blas import VARIABLE
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

SCHEMA = "fmha.emulator-speed/2"
ROOT = Path(__file__).resolve().parents[1]
BUILD = "build"
"""The ``flags`` of a point that builds the emulator itself, with an empty cache."""
HIP_HOST = "fmha_cli/backends/hip/standin"
"""The folder of the HIP host's texts, as long as the core had them."""
TILE_FLOPS = 2 * 16 * 8 * 16
"""Of an m16n8k16 product: larger matrix instructions count as so many of these, so that their kernels compare."""


@dataclass(frozen=True)
class Point:
    """A workload.

    Attributes:
        goal: how many times as fast as the emulator of a601fc55 it should be with all checks; 0 = no goal.
        threads: of the launch; 0 = all cores.
        needs: a package that must be installed; empty = none.
    """

    arch: str
    backend: str
    flags: str
    goal: float = 0.0
    threads: int = 1
    checks: bool = True
    needs: str = ""

    @property
    def plugin(self) -> str:
        """The name of the emulator's plugin."""
        return "fmha-amdgpu-emu" if self.arch.startswith("gfx") else "fmha-nvptx-emu"

    @property
    def title(self) -> str:
        """The workload in words, also what ``--only`` searches."""
        how = "" if self.checks else ", no checks"
        many = "" if self.threads == 1 else ", all cores"
        return f"{self.arch} {self.backend} `{self.flags}`{many}{how}"


_AMD, _NVIDIA = "-b 1 -H 2 -s 1024 -d 128 --splits 1", "-b 1 -H 2 -s 1024 -d 128"
_MAIN = (Point("sm_80", "flash_attn", _NVIDIA, 4.0), Point("gfx942", "ck_tile", _AMD, 3.0))
POINTS = (
    *_MAIN,
    Point("sm_80", "flash_attn", "-b 1 -H 2 -s 512 -d 128 --direction bwd", 3.0),
    Point("sm_90a", "cudnn_oss", f"{_NVIDIA} --dtype bf16 --causal", 4.0),
    Point("sm_90a", "triton", f"{_NVIDIA} --dtype fp16", 4.0, needs="fmha_triton"),
    Point("sm_100a", "triton", f"{_NVIDIA} --dtype fp16", 4.0, needs="fmha_triton"),
    Point("sm_80", "mem_efficient", "-b 1 -H 2 -s 512 -d 64 --dtype fp32", 2.5),
    Point("gfx950", "ck_tile", _AMD, 3.0),
    Point("gfx1201", "ck_tile", _AMD, 3.0),
    Point("gfx90a", "ck_tile", _AMD),
    Point("gfx942", "ck_tile", "-b 1 -H 2 -s 256 -d 128 --direction bwd"),
    *(replace(point, goal=0.0, checks=False) for point in _MAIN),
    *(replace(point, goal=0.0, threads=0) for point in _MAIN),
    Point("sm_80", BUILD, BUILD, 1.0),
    Point("gfx942", BUILD, BUILD, 1.0),
)


def measure_build(arch: str) -> dict[str, Any]:
    """Build the emulator in an empty cache; ``cpu_s`` is the processor time of all its compilers."""
    emulator, device = emulated_device(build_registry(), f"emu:{arch}")
    with tempfile.TemporaryDirectory() as folder:
        before, wall = _processor_s(), time.perf_counter()
        emulator.build(device, BuildContext(cache_root=Path(folder), jobs=usable_cores()))
        return {"cpu_s": [_processor_s() - before], "wall_s": [time.perf_counter() - wall]}


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(point: Point, launches: int) -> dict[str, Any]:
    """Measure one point in this process. All times are in seconds."""
    registry = build_registry()
    emulator, device = emulated_device(registry, f"emu:{point.arch}")
    backend, problem = registry.backend(point.backend), Problem.from_cli(point.flags)
    found = emulated_availability(registry, (backend,), device.id)
    best = select(problem, registry, found, Wanted(backend=point.backend, device=device.id)).best
    assert best is not None
    plan = backend.plan(problem, best.kernel, best.device)
    context = BuildContext(cache_root=cache_root(), jobs=usable_cores())
    built = build_orders(map(Order, plan.stages), registry, context)
    library = emulator.build(device, context)
    threads = point.threads or usable_cores()
    options = EmulatorOptions(threads=threads, checks=point.checks, cache=str(context.cache_root / "emulators"))
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
        session.bind(memoryview(memory), dict(layout.tensors), 1)
        session.upload()
        session.launch()  # loads and decodes the code objects
        loading = time.process_time() - began
        attached.take()
        spent, walls = [], []
        for _ in range(launches):
            began, wall = time.process_time(), time.perf_counter()
            session.launch()
            spent.append(time.process_time() - began)
            walls.append(time.perf_counter() - wall)
        seen = attached.take()
        session.close()
    others = sum(one.instructions - one.classes.get("matrix", 0) for one in seen.executed)
    tiles = sum(one.matrix_flops for one in seen.executed) / TILE_FLOPS
    return {
        "kernel": best.kernel.digest,
        "instructions": sum(one.instructions for one in seen.executed) // launches,
        "equivalents": round((others + tiles) / launches),
        "findings": len(seen.findings),
        "cpu_s": spent,
        "wall_s": walls,
        "load_s": max(0.0, loading - statistics.median(spent)),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def extract_emulators(revision: str, folder: Path) -> None:
    """Put the source of both emulators' plugins, as they were at a revision, under a folder.

    Once the core had the texts of the HIP host, which are the plugin's now. Such a plugin gets those of its revision.
    """
    _unpack(revision, ("plugins/fmha-amdgpu-emu/src", "plugins/fmha-nvptx-emu/src"), folder)
    amd = folder / "plugins/fmha-amdgpu-emu/src/fmha_amdgpu_emu"
    units = amd / "units.py"
    text = units.read_text("utf-8")
    if "hip_host_files" in text:
        _unpack(revision, (HIP_HOST,), folder)
        for path in (folder / HIP_HOST).glob("*.?pp"):
            path.rename(amd / "core" / path.name)
        units.write_text(text.replace("hip_host_files, ", "").replace("**hip_host_files(), ", ""), "utf-8")


def _unpack(revision: str, paths: Sequence[str], folder: Path) -> None:
    text = subprocess.run(["git", "archive", revision, *paths], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=text, check=True)


def run_one(point: Point, source: Path | None, launches: int) -> dict[str, Any]:
    """Measure a point in a process of its own, with the emulator of this checkout or of an extracted one."""
    # OpenBLAS's idle threads spin for a tenth of a second after the reference, which a short launch would be charged for.
    environ = {**os.environ, VARIABLE: "1"}
    if source is not None:
        environ["PYTHONPATH"] = str(source / "plugins" / point.plugin / "src")
    command = [sys.executable, __file__, "--launches", str(launches), "--one", json.dumps(asdict(point))]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def summary_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Medians of the turns, in milliseconds of processor time and MiB, and the ratio of old to new with its range over turns."""
    sides = [side for side in ("old", "new") if side in row]
    turns = {side: [statistics.median(turn["cpu_s"]) for turn in row[side]] for side in sides}
    found: dict[str, Any] = {"ms": [round(1e3 * statistics.median(turns[side]), 1) for side in sides]}
    if "old" in row:
        each = [before / after for before, after in zip(turns["old"], turns["new"], strict=True)]
        whole = statistics.median(turns["old"]) / statistics.median(turns["new"])
        found["ratio"] = [round(number, 2) for number in (whole, min(each), max(each))]
    if "load_s" in row["new"][0]:
        found["million_per_s"] = round(row["new"][0]["equivalents"] / statistics.median(turns["new"]) / 1e6, 1)
        found["load_ms"] = [round(1e3 * statistics.median(turn["load_s"] for turn in row[side])) for side in sides]
        found["peak_mib"] = [round(max(turn["peak_mib"] for turn in row[side])) for side in sides]
    return found


def misses(row: Mapping[str, Any]) -> str:
    """The missed goal of a row in words; empty if it has none, was not compared, or reaches it."""
    ratio = row.get("summary", {}).get("ratio", (row["goal"],))[0]
    return "" if ratio >= row["goal"] else f"{row['title']}: {ratio:.2f} times as fast, not {row['goal']:g}"


def _lacks(point: Point) -> str:
    if point.needs and not importlib.util.find_spec(point.needs):
        return f"{point.needs} is not installed"
    return ""


def compare(point: Point, old: Path | None, turns: int, launches: int) -> dict[str, Any]:
    """The row of a point: ``turns`` processes of each emulator, one after the other."""
    row: dict[str, Any] = {**asdict(point), "title": point.title}
    if why := _lacks(point):
        return {**row, "why": why}
    sides = {"new": None} if old is None else {"old": old, "new": None}
    for _ in range(turns):
        for side, source in sides.items():
            row.setdefault(side, []).append(run_one(point, source, launches))
    return {**row, "summary": summary_of(row)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; 1 if a workload misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REV", help="compare with the emulators of this revision")
    parser.add_argument("--only", metavar="WORDS", default="", help="points whose title this pattern is found in")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--launches", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        point = Point(**json.loads(given.one))
        print(json.dumps(measure_build(point.arch) if point.backend == BUILD else measure(point, given.launches)))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if given.against:
            extract_emulators(given.against, Path(folder))
        for point in (point for point in POINTS if re.search(given.only, point.title)):
            rows.append(compare(point, Path(folder) if given.against else None, given.turns, given.launches))
            print(f"{rows[-1]['title']}: {rows[-1].get('summary') or 'NOT_RUN, ' + rows[-1]['why']}", flush=True)
    if given.json:
        document = {"schema": SCHEMA, "against": given.against, "turns": given.turns, "rows": rows}
        given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    missed = [words for row in rows if (words := misses(row))]
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
