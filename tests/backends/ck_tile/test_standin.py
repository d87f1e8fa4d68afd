"""The recording stand-in, called through hip-python: what works, and how everything else fails."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_amdgpu_emu", reason="plugins/fmha-amdgpu-emu is not installed")

from fmha_cli.backends.hip import library
from fmha_cli.backends.hip.library import open_bindings, open_library
from fmha_cli.backends.hip.runtime import last_level_cache, probe_hip
from fmha_cli.domain.device import State
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from tests.support.builds.library_releases import pip_install
from tests.support.fakes.hip_recorder import build_standin, source
from tests.support.fakes.hip_recorder.recording import PlayedDevice
from tests.support.paths import ROOT

pytestmark = pytest.mark.promise(
    "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
)

CHILD = "tests.support.children.ck_tile.standin"
needs_hip_python = pytest.mark.skipif(importlib.util.find_spec("hip") is None, reason="hip-python is not installed")


@pytest.fixture(scope="session")
def standin(shared_cache: Path) -> Artifact:
    return build_standin(BuildContext(cache_root=shared_cache))


def ask(standin: Artifact, *words: str, beside: Path | None = None) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", CHILD, str(standin.path), *words],
        env=os.environ | ({"PYTHONPATH": str(beside)} if beside else {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_is_built_once(standin: Artifact, shared_cache: Path) -> None:
    assert build_standin(BuildContext(cache_root=shared_cache)).cached
    assert "nobody registered" in source()


@pytest.mark.parametrize(
    ("arch", "major", "minor", "wave"),
    [("gfx90a", 9, 0, 64), ("gfx942", 9, 4, 64), ("gfx1100", 11, 0, 32), ("gfx1201", 12, 0, 32)],
)
def test_played_devices(arch: str, major: int, minor: int, wave: int) -> None:
    device = PlayedDevice.of_arch(arch)
    assert (device.major, device.minor, device.wave) == (major, minor, wave)


@needs_hip_python
def test_probing_calls_the_runtime(standin: Artifact) -> None:
    found = ask(standin, "probe", "gfx942:sramecc+:xnack-", "1")
    assert found["state"] == "ok"
    assert found["version"] == "7.1.25424"
    (device,) = found["devices"]
    llc = last_level_cache("gfx942", 4 << 20)
    assert device == ["hip:0", ["gfx942"], 304, 1 << 34, llc, "fmha recording stand-in"]


@needs_hip_python
def test_a_runtime_without_a_device(standin: Artifact) -> None:
    found = ask(standin, "probe", "gfx942", "0")
    assert found["state"] == "no-device"
    assert "no ROCm-capable device" in found["why"]
    assert found["devices"] == []


@needs_hip_python
def test_memory_is_copied_filled_and_freed(standin: Artifact) -> None:
    found = ask(standin, "memory")
    assert found["back"] == [*range(10, 30), *[7] * 80]
    assert (found["used"], found["left"]) == (200, 0)


@needs_hip_python
def test_wrong_calls_fail_by_name(standin: Artifact) -> None:
    found = ask(standin, "faults")
    for name, call in (("beyond", "hipMemcpy"), ("fill", "hipMemsetAsync"), ("free", "hipFree"), ("twice", "hipFree")):
        kind, what, why, number = found[name]
        assert (kind, why, number) == ("DriverError", "hipErrorInvalidValue", 1), name
        assert what == f"{call} failed: invalid argument (1)"
    assert found["huge"] == ["MemoryError", "hipMalloc: out of memory (2)"]
    assert found["device"][2] == "hipErrorInvalidDevice"
    assert found["event"][1].startswith("hipEventElapsedTime failed")
    assert found["unknown"][1] == "hipDeviceReset is not available"
    assert "undefined symbol: hipDeviceReset" in found["unknown"][2]


@needs_hip_python
def test_events_give_nanoseconds(standin: Artifact) -> None:
    found = ask(standin, "events")
    assert len(found["times"]) == 2
    assert all(isinstance(ns, int) and 0 <= ns < 10**9 for ns in found["times"])
    assert found["text"] == "out of memory (2)"
    assert found["unknown"] == "HIP error 123456"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("release", library.TRIED)
def test_each_release_of_hip_python_makes_the_calls(release: str, standin: Artifact, tmp_path: Path) -> None:
    """hip-python 10 is a package of names; the calls are in two others, whose properties of a device are strings."""
    parts = ("rocm-bindings-hip", "rocm-bindings-core") if release.startswith("10.") else ()
    folder = pip_install(tmp_path / "library", *(f"{name}=={release}" for name in ("hip-python", *parts)))
    (device,) = ask(standin, "probe", "gfx942:sramecc+:xnack-", "1", beside=folder)["devices"]
    assert device[:3] == ["hip:0", ["gfx942"], 304]
    assert device[5] == "fmha recording stand-in"
    found = ask(standin, "memory", beside=folder)
    assert (found["back"], found["left"]) == ([*range(10, 30), *[7] * 80], 0)
    found = ask(standin, "faults", beside=folder)
    assert found["twice"][1:] == ["hipFree failed: invalid argument (1)", "hipErrorInvalidValue", 1]
    assert found["unknown"][1] == "hipDeviceReset is not available"
    assert len(ask(standin, "events", beside=folder)["times"]) == 2


def test_a_missing_runtime_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        open_library(tmp_path / "libamdhip64.so")
    assert caught.value.code == "H002"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libamdhip64.so.7").write_text("no library\n")
    for variable in ("ROCM_PATH", "HIP_PATH"):
        assert str(tmp_path / "lib" / "libamdhip64.so.7") in library.candidates({variable: str(tmp_path), "PATH": ""})
    found = probe_hip(tmp_path / "libamdhip64.so")
    assert found.state is State.MISSING
    assert found.why is not None
    assert found.help is not None
    assert "ROCM_PATH" in found.help


def test_a_library_that_is_no_runtime_is_said_to_be_none(standin: Artifact, tmp_path: Path) -> None:
    """A root may hold a file of that name which is something else: the next one is tried, and the last one is not called."""
    other = tmp_path / "libamdhip64.so.7"
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(other)], input=b"int other;", check=True)
    with pytest.raises(EnvironmentProblem) as caught:
        open_library(other)
    assert caught.value.code == "H002"
    assert caught.value.why == f"{other} is no HIP runtime: it has no hipInit"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "candidates", lambda environ: iter([str(other), str(standin.path)]))
        assert open_library()[1] == str(standin.path)


def test_missing_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_BINDINGS", (("no_such_module_of_hip", "hip.hip"),) * 2)
    with pytest.raises(EnvironmentProblem) as caught:
        open_bindings("libamdhip64.so")
    assert caught.value.code == "H003"
    assert caught.value.help is not None
    assert "fmha[rocm]" in caught.value.help
