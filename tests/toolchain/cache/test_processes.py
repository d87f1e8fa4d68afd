"""With many processes, and with killed ones, the cache is either right or empty, never half full."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Child = Callable[..., subprocess.Popen[str]]

# One cold process: test the compiler, build or load the kernel, print the artifact's digest.
COLD = """
import sys
from pathlib import Path
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import find_toolchain
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.library import build_kernel
root, compiler = sys.argv[1:]
quiet = lambda notice: None
cache = Cache(Path(root), quiet)
toolchain = find_toolchain(cache.layout, quiet, {"FMHA_CXX": compiler, "PATH": "/usr/bin:/bin"})
flags = ("-O1", "-shared", "-fPIC", "-DTHE_KERNEL")
spec = BuildSpec(BuildKind.KERNEL, "kernel", "generic", {}, 'extern "C" int f() { return 42; }')
key = BuildKey(spec, flags, toolchain.identity, toolchain.version, toolchain.headers_digest, "1.0")
artifact = build_kernel(cache, key, toolchain)
import ctypes
print(artifact.sha256, int(artifact.cached), ctypes.CDLL(str(artifact.path)).f())
"""

# Forks builders one after the other and kills each, so Python starts only this process.
KILLS = """
import json, os, random, signal, sys, time
from pathlib import Path
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cache.key import BuildKey, BuildKind, BuildSpec
from fmha_cli.toolchain.cache.store import BuildProduct
root, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
content = bytes(range(256)) * 1024
quiet = lambda notice: None

def key(name):
    return BuildKey(BuildSpec(BuildKind.KERNEL, name, "generic", {}, "source " + name), (), "cc", "1", "h", "1.0")

def build(work):
    with open(work / "out", "wb", buffering=0) as file:
        for start in range(0, len(content), 16384):
            file.write(content[start : start + 16384])
            time.sleep(0.0002)
    (work / "log").write_text("log")
    return BuildProduct(work / "out", work / "log", 0.0)

def builder(name, die_at=None):
    '''Build in a child process; die at the given operation on a file, counted by the interpreter's audit hook.'''
    pid = os.fork()
    if pid:
        return pid
    events = [0]
    def count(event, arguments):
        if event.startswith(("os.", "open", "shutil.", "fcntl.")):
            events[0] += 1
            if events[0] == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
    if die_at is not None:
        sys.addaudithook(count)
    Cache(root, quiet).get_or_build(key(name), build)
    os._exit(0)

def check(name, tally):
    found = Cache(root, quiet).lookup(key(name))
    if found is None:
        tally["absent"] += 1
    elif found.path.read_bytes() == content:
        tally["whole"] += 1
    else:
        tally["partial"] += 1
    tally["quarantined"] = len(list((root / "quarantine").glob("*")))

started = time.monotonic()
os.waitpid(builder("measure"), 0)
full = time.monotonic() - started
timed = {"absent": 0, "whole": 0, "partial": 0}
for number in range(kills):
    pid = builder("shared")
    time.sleep(rng.uniform(0, 1.2) * full)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    check("shared", timed)
    if timed["whole"]:
        entry = Cache(root, quiet).layout.entry(key("shared").digest)
        entry.rename(root / "tmp" / f"done-{number}") if entry.exists() else None
stepped = {"absent": 0, "whole": 0, "partial": 0}
step = status = 1
while status:
    status = os.waitpid(builder(f"step{step}", die_at=step), 0)[1]
    check(f"step{step}", stepped)
    step += 1
last = Cache(root, quiet).get_or_build(key("shared"), build)
print(json.dumps({"timed": timed, "stepped": stepped, "steps": step - 2, "last": last.path.read_bytes() == content}))
"""


@pytest.mark.slow
@pytest.mark.ci
def test_16_cold_processes_compile_once(tmp_path: Path, child: Child, script: Any) -> None:
    real = shutil.which("g++") or shutil.which("clang++")
    if real is None:
        pytest.skip("there is no g++ or clang++ on PATH")
    calls = tmp_path / "calls"
    wrapper = script(tmp_path / "counting-c++", f'#!/bin/sh\necho "$*" >> "{calls}"\nexec "{real}" "$@"\n')
    running = [child(COLD, str(tmp_path / "cache"), str(wrapper)) for _ in range(16)]
    answers = [process.communicate()[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * 16, answers
    assert all(len(answer) == 3 for answer in answers), answers
    assert len({sha256 for sha256, _, _ in answers}) == 1
    assert {value for _, _, value in answers} == {"42"}
    assert sorted(cached for _, cached, _ in answers) == ["0"] + ["1"] * 15
    compiles = [line for line in calls.read_text().splitlines() if "-DTHE_KERNEL" in line]
    assert len(compiles) == 1
    probes = [line for line in calls.read_text().splitlines() if "-o probe.so" in line]
    assert len(probes) == 1


def test_kills_never_leave_a_loadable_partial_artifact(tmp_path: Path, child: Child) -> None:
    """50 SIGKILLs at seeded times, then one at every file operation of a build."""
    process = child(KILLS, str(tmp_path / "cache"), "50", "7")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    result = json.loads(output)
    for tally in (result["timed"], result["stepped"]):
        assert tally["partial"] == 0
        assert tally["quarantined"] == 0, "a killed build left a damaged entry in place"
    assert result["timed"]["absent"] + result["timed"]["whole"] == 50
    assert result["stepped"]["absent"] > 10
    assert result["steps"] > 20
    assert result["last"]
