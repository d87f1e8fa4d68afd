"""Build, check and time every family on this machine's GPU: one call, one short table, one JSON file.

    python benchmarks/gpu_check.py [--vendor amd|nvidia] [--minutes 8.5] [--jobs N] [-o gpu_check.json]

``--torch-support`` instead compares PyTorch's answers about problems with the rules of ``plugins/fmha-torch``
(``torch_support.py``).

AMD: each case is a problem that uses certain families. All kernels are built first, in parallel. Then every case is
checked against the oracle and timed (``fmha bench``).

NVIDIA: for each backend (``--backend``, a comma list), every family and feature is checked with all fills. The check
    then times its kernels next to PyTorch's operators, and runs random problems and compute-sanitizer
    (``nvidia_check``).
``--archive FILE`` imports kernels that ``gpu_prepare.py`` built, and only missing kernels are built. ``--dry-run`` needs no GPU and does
everything up to the launch. ``--results DIR`` writes the record with its environment, and a page next to it.

Exit codes: 0 if nothing is wrong; 1 if something is wrong; 4 if there is no such GPU. With 4, every row is NOT_RUN with
the reason. Work that does not fit into the time is also NOT_RUN, with that reason. 2 if an argument is wrong.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from amd_cases import AMD_CASES
from check_case import CheckCase
from nvidia_check.budget import Budget
from nvidia_check.check import PARTS, Options, check, first_device, nothing_runs, parts_of, rows_of
from nvidia_check.dry import dry_run
from nvidia_check.page import page
from nvidia_check.results import good, table
from nvidia_check.shards import children_find_us
from nvidia_check.subjects import subjects_of

from fmha_cli.domain.errors import UsageError

SCHEMA = "fmha.gpu-check/1"
LEAST_S = 5.0
"""With fewer seconds left, no further case begins."""


@dataclass(frozen=True)
class Vendor:
    """A backend, its kind of device, and its cases."""

    backend: str
    device: str
    cases: tuple[CheckCase, ...]


AMD = Vendor("ck_tile", "hip", AMD_CASES)
VENDORS = ("amd", "nvidia")


@dataclass
class Result:
    """The outcome of a case; times in nanoseconds."""

    name: str
    command: str
    verdict: str
    families: list[str] = field(default_factory=list)
    median_ns: int | None = None
    stage_ns: list[int | None] = field(default_factory=list)
    tflops: float | None = None
    used: float | None = None
    build_s: float | None = None
    why: str | None = None


def fmha(*words: str, timeout: float) -> tuple[int, Any, str]:
    """The exit code, document and output of one command; the code is -1 after a timeout."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fmha_cli", *words], capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, None, f"no answer within {timeout:.0f} s"
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except ValueError:
        return done.returncode, None, done.stderr


def device_of(vendor: Vendor) -> tuple[Mapping[str, Any] | None, str]:
    """The first device, or the reason why there is none."""
    _, document, talk = fmha("devices", "--json", timeout=120)
    if document is None:
        return None, _last(talk)
    for device in document["devices"]:
        if device["id"].partition(":")[0] == vendor.device:
            return device, ""
    backend = document["backends"].get(vendor.backend, {})
    return None, backend.get("why") or f"{vendor.backend} sees no device"


def build_all(
    cases: Sequence[CheckCase], vendor: Vendor, arch: str, jobs: int, until: float
) -> dict[str, tuple[float, str]]:
    """The build seconds of each case, and the build errors; shared kernels are built once."""

    def build(case: CheckCase) -> tuple[str, float, str]:
        start, left = time.monotonic(), until - time.monotonic()
        if left < LEAST_S:
            return case.name, 0.0, "no time left to build it"
        words = (*shlex.split(case.flags), "--backend", vendor.backend, "--arch", arch, "--jobs", "2", "--json")
        code, _, talk = fmha("build", *words, timeout=left)
        return case.name, time.monotonic() - start, "" if code == 0 else f"build: exit {code}: {_last(talk)}"

    with ThreadPoolExecutor(jobs) as pool:
        return {name: (seconds, fault) for name, seconds, fault in pool.map(build, cases)}


def check_case(case: CheckCase, vendor: Vendor, device: str, left: float) -> Result:
    """Check and time one case."""
    words = (*shlex.split(case.flags), "--backend", vendor.backend, "--device", device)
    result = Result(case.name, shlex.join(("fmha", "bench", *words)), "NOT_RUN")
    limit = max(LEAST_S, min(60.0, left))
    code, document, talk = fmha("bench", *words, "--json", "--timeout", str(round(limit)), timeout=limit + 30)
    records = (document or {}).get("records") or []
    if not records:
        result.verdict, result.why = ("TIMED_OUT" if code == -1 else "CRASHED"), _last(talk)
        return result
    record = records[0]
    result.verdict = record["verdict"]
    result.families = [stage["family"] for stage in record["stages"]]
    result.stage_ns = [stage["time_ns"] for stage in record["stages"]]
    measured = record["measurement"] or {}
    result.median_ns, result.tflops = measured.get("median_ns"), measured.get("tflops")
    result.used = _used(record["checks"])
    notes = [*(f"{r['id']} {r['text']}" for r in record["reasons"]), *record["notes"]]
    result.why = None if result.verdict == "PASSED" else "; ".join(notes) or _last(talk)
    if result.verdict == "PASSED" and tuple(result.families) != case.families:
        result.verdict, result.why = "WRONG", f"{', '.join(case.families)} expected"
    return result


def _used(checks: Mapping[str, Any] | None) -> float | None:
    """The largest share of its error budget that an output used."""
    found = [c["row_l2"] / c["row_l2_budget"] for c in (checks or {}).values() if c and c["row_l2"] is not None]
    return max(found, default=None)


def _last(talk: str) -> str:
    return (talk.strip().splitlines() or [""])[-1][:200]


def rows(results: Sequence[Result]) -> Iterator[str]:
    """The table's lines."""
    yield f"{'case':26} {'verdict':14} {'time [us]':>10} {'TFLOP/s':>8} {'error':>6} {'build [s]':>9}  families"
    whys = {r.why for r in results}
    for r in results:
        cells = (
            f"{r.median_ns / 1e3:.1f}" if r.median_ns else "",
            f"{r.tflops:.1f}" if r.tflops else "",
            f"{r.used:.0%}" if r.used is not None else "",
            f"{r.build_s:.0f}" if r.build_s else "",
        )
        yield f"{r.name:26} {r.verdict:14} {cells[0]:>10} {cells[1]:>8} {cells[2]:>6} {cells[3]:>9}  {' '.join(r.families)}"
        if r.why and len(whys) > 1:
            yield f"    {r.why[:240]}"
    if len(whys) == 1 and None not in whys:
        yield f"all: {whys.pop()}"


def check_amd(wanted: argparse.Namespace, vendor: Vendor, started: float) -> tuple[list[Result], Any, int]:
    """The AMD check. Returns the rows, the device and the exit code."""
    until = started + 60 * wanted.minutes
    device, why = device_of(vendor)
    if device is None:
        return [Result(c.name, "", "NOT_RUN", list(c.families), why=why) for c in vendor.cases], None, 4
    results = []
    builds = build_all(vendor.cases, vendor, device["archs"][0], wanted.jobs, until)
    for case in vendor.cases:
        left, (seconds, fault) = until - time.monotonic(), builds[case.name]
        if left < LEAST_S:
            result = Result(case.name, "", "NOT_RUN", list(case.families), why="no time left")
        else:
            result = check_case(case, vendor, device["id"], left)
        result.build_s, result.why = seconds, result.why or fault or None
        results.append(result)
    return results, device, 0 if all(result.verdict == "PASSED" for result in results) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vendor", choices=VENDORS, default="amd")
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("-o", "--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument(
        "--torch-support", action="store_true", help="only compare PyTorch's checks with the rules of fmha-torch"
    )
    nvidia = parser.add_argument_group("NVIDIA")
    nvidia.add_argument("--archive", type=Path, help="kernels that gpu_prepare.py packed")
    nvidia.add_argument("--dry-run", action="store_true", help="everything up to the launch, without a GPU")
    nvidia.add_argument("--arch", default="sm_90", help="architecture of a dry run [sm_90]")
    nvidia.add_argument("--parts", type=parts_of, default=PARTS, help="what to do, a comma list")
    nvidia.add_argument(
        "--processes", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4), help="that check at once"
    )
    nvidia.add_argument(
        "--backend", type=subjects_of, default="", help="what to check, a comma list [every installed one]"
    )
    nvidia.add_argument("--count", type=int, help="random problems of each backend [its own number]")
    nvidia.add_argument("--cache-dir", type=Path, help="where kernels are kept [a temporary folder]")
    nvidia.add_argument("--results", type=Path, help="folder for the record and its page")
    wanted = parser.parse_args()
    started = time.monotonic()
    if wanted.torch_support:
        from torch_support import main as compare_support  # it needs the plugin

        return compare_support(["--device", "cuda:0" if wanted.vendor == "nvidia" else "hip:0", "-o", str(wanted.out)])
    if wanted.vendor == "nvidia":
        with tempfile.TemporaryDirectory(prefix="gpu_check") as folder, children_find_us():
            try:
                return check_nvidia(wanted, Path(folder))
            except UsageError as fault:  # an unknown architecture, or an archive that holds no kernels
                parser.error("; ".join(filter(None, (fault.what, fault.where, fault.why))))
    results, device, code = check_amd(wanted, AMD, started)
    print("\n".join(rows(results)))
    document = {
        "schema": SCHEMA,
        "device": device,
        "seconds": round(time.monotonic() - started, 1),
        "vendor": wanted.vendor,
        "cases": [asdict(result) for result in results],
    }
    wanted.out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{len(results)} cases in {document['seconds']} s; {wanted.out}")
    return code


def check_nvidia(wanted: argparse.Namespace, folder: Path) -> int:
    """Run the check of ``nvidia_check`` and write its table and record. Returns the exit code."""
    budget, subjects = Budget(60 * wanted.minutes), wanted.backend
    options = Options(
        cache_root=(wanted.cache_dir or folder / "cache").absolute(),
        folder=folder,
        archive=wanted.archive,
        processes=wanted.processes,
        jobs=wanted.jobs,
        parts=wanted.parts,
        count=wanted.count,
    )
    device, why = (None, "dry run") if wanted.dry_run else first_device([subject.backend for subject in subjects])
    notes: dict[str, Any] = {}
    if wanted.dry_run:
        found, notes = dry_run(wanted.arch, subjects, options, budget)
    elif device is None:
        found = nothing_runs(subjects, options, why)
    else:
        found, notes = check(device, subjects, options, budget)
    document = {
        "schema": SCHEMA,
        "device": None if device is None else asdict(device),
        "notes": notes,
        "rows": rows_of(found),
        "seconds": round(budget.used, 1),
        "vendor": wanted.vendor,
        "whole": set(wanted.parts) == set(PARTS) and wanted.count is None,
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    wanted.out.write_text(text, "utf-8")
    if wanted.results:
        (wanted.results / "data").mkdir(parents=True, exist_ok=True)
        (wanted.results / "data" / "nvidia.json.xz").write_bytes(lzma.compress(text.encode()))
        (wanted.results / "nvidia.md").write_text(page(document, found), "utf-8")
    for backend, kernels in notes.get("kernels", {}).items():
        print(f"{backend}: {kernels['text']}")
    print("\n".join(table(found)))
    print(f"{len(found)} rows in {document['seconds']} s; {wanted.out}")
    if device is None:
        return 4 if not wanted.dry_run else int(not good(found))
    return int(not good(found))


if __name__ == "__main__":
    raise SystemExit(main())
