"""Build, check and time every family on this machine's GPU: one call, one short table, one JSON file.

    python benchmarks/gpu_check.py [--vendor amd] [--minutes 8.5] [--jobs N] [-o gpu_check.json]

Each case is a problem that leads to certain families. All kernels are built first, in parallel; then every case is
checked against the oracle and timed (``fmha bench``). Exit code 0: every case PASSED; 1: one did not; 4: no such GPU,
and every case is NOT_RUN with the reason. What does not fit into the time is NOT_RUN too, and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "fmha.gpu-check/1"
LEAST_S = 5.0
"""Seconds below which no further case is begun."""


@dataclass(frozen=True)
class Case:
    """A problem and the families that it is to lead to."""

    name: str
    flags: str
    families: tuple[str, ...]


@dataclass(frozen=True)
class Vendor:
    """A backend, the kind of its devices, and its cases."""

    backend: str
    device: str
    cases: tuple[Case, ...]


FWD, SPLITKV = ("fwd",), ("fwd_splitkv", "fwd_splitkv_combine")
BWD = ("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq")

AMD = Vendor(
    "ck_tile",
    "hip",
    (
        Case("forward", "-b 2 -H 16 -s 2k -d 128 --splits 1", FWD),
        Case("causal, GQA, bf16, bshd", "-b 2 -H 16 --kv-heads 4 -s 2k -d 128 --dtype bf16 --causal --layout bshd --splits 1", FWD),
        Case("packed, LSE", "--seqlens-q 1000,1,700 -H 8 -d 64 --lse --splits 1", FWD),
        Case("window, bias", "-b 1 -H 8 -s 1k -d 64 --mask window:128,0 --bias elementwise:1hss --splits 1", FWD),
        Case("ALiBi, LSE", "-b 1 -H 8 -s 1k -d 64 --alibi --causal --lse --splits 1", FWD),
        Case("softcap", "-b 1 -H 8 -s 1k -d 128 --softcap 30 --splits 1", FWD),
        Case("dropout", "-b 1 -H 8 -s 1k -d 128 --dropout 0.2 --seed 7 --offset 3 --splits 1", FWD),
        Case("fp8", "-b 1 -H 8 -s 1k -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --splits 1", FWD),
        Case("decode", "-b 4 -H 32 --kv-heads 8 -s 1 --kv-cache linear --cache-seqlens 8k -d 128 --splits 8", SPLITKV),
        Case("decode, pages", "-b 4 -H 32 --kv-heads 8 -s 1 --kv-cache paged:128 --cache-seqlens 8k -d 128 --splits 8", SPLITKV),
        Case("append, rotary", "-b 4 -H 8 -s 4 --kv-cache linear --cache-seqlens 1000 --append 4 --rotary 64 -d 128 --causal --splits 4", ("fwd_appendkv", *SPLITKV)),
        Case("paged prefill", "-b 2 -H 8 -s 512 --kv-cache paged:128 --cache-seqlens 2k -d 128 --causal --splits 1", ("fwd_pagedkv",)),
        Case("batch prefill", "--seqlens-q 500,300 --kv-cache paged:1 --cache-seqlens 1k,600 -H 8 -d 128 --causal --splits 1", ("batch_prefill",)),
        Case("backward", "-b 2 -H 8 -s 1k -d 128 --direction bwd", BWD),
        Case("backward, causal, GQA", "-b 1 -H 8 --kv-heads 2 -s 1k -d 64 --dtype bf16 --causal --direction bwd", BWD),
        Case("backward, deterministic", "-b 1 -H 4 -s 512 -d 64 --deterministic --direction bwd", BWD),
        Case("backward, dropout, dbias", "-b 1 -H 4 -s 512 -d 64 --dropout 0.1 --bias elementwise:bhss --dbias --direction bwd", BWD),
    ),
)  # fmt: skip

VENDORS: Mapping[str, Vendor] = {"amd": AMD}


@dataclass
class Result:
    """What became of a case; times in nanoseconds."""

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
    """Exit code, document and talk of one command; code -1 when it took too long."""
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
    """The first device, or why there is none."""
    _, document, talk = fmha("devices", "--json", timeout=120)
    if document is None:
        return None, _last(talk)
    for device in document["devices"]:
        if device["id"].partition(":")[0] == vendor.device:
            return device, ""
    backend = document["backends"].get(vendor.backend, {})
    return None, backend.get("why") or f"{vendor.backend} sees no device"


def build_all(
    cases: Sequence[Case], vendor: Vendor, arch: str, jobs: int, until: float
) -> dict[str, tuple[float, str]]:
    """Seconds of each case's builds, and what went wrong; cases share kernels, which are built once."""

    def build(case: Case) -> tuple[str, float, str]:
        start, left = time.monotonic(), until - time.monotonic()
        if left < LEAST_S:
            return case.name, 0.0, "no time left to build it"
        words = (*shlex.split(case.flags), "--backend", vendor.backend, "--arch", arch, "--jobs", "2", "--json")
        code, _, talk = fmha("build", *words, timeout=left)
        return case.name, time.monotonic() - start, "" if code == 0 else f"build: exit {code}: {_last(talk)}"

    with ThreadPoolExecutor(jobs) as pool:
        return {name: (seconds, fault) for name, seconds, fault in pool.map(build, cases)}


def check(case: Case, vendor: Vendor, device: str, left: float) -> Result:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vendor", choices=sorted(VENDORS), default="amd")
    parser.add_argument("--minutes", type=float, default=8.5)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("-o", "--out", type=Path, default=Path("gpu_check.json"))
    wanted = parser.parse_args()
    started = time.monotonic()
    until, vendor = started + 60 * wanted.minutes, VENDORS[wanted.vendor]
    device, why = device_of(vendor)
    results = []
    if device is None:
        results = [Result(c.name, "", "NOT_RUN", list(c.families), why=why) for c in vendor.cases]
    else:
        builds = build_all(vendor.cases, vendor, device["archs"][0], wanted.jobs, until)
        for case in vendor.cases:
            left, (seconds, fault) = until - time.monotonic(), builds[case.name]
            if left < LEAST_S:
                result = Result(case.name, "", "NOT_RUN", list(case.families), why="no time left")
            else:
                result = check(case, vendor, device["id"], left)
            result.build_s, result.why = seconds, result.why or fault or None
            results.append(result)
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
    if device is None:
        return 4
    return 0 if all(result.verdict == "PASSED" for result in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
