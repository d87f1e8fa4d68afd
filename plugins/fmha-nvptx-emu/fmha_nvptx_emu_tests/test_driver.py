"""The stand-in for the driver, as unmodified cuda-python sees it; each device in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu.device_facts import ARCHS, device_of

from fmha_cli.backends.cuda.timing import REPLAY_BELOW_NS
from fmha_nvptx_emu_tests.support.ptx_machine import library

pytest.importorskip("cuda.bindings")


def seen_by_cuda_python(arch: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name("support") / "cuda_child.py"), library()._name, arch]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.promise("Unmodified cuda-python works on the emulated driver, which names a function that it lacks.")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_cuda_python_runs_on_it(arch: str) -> None:
    seen = seen_by_cuda_python(arch)
    device = device_of(arch)
    assert "emulated" in seen["name"]
    assert seen["capability"] == [device.major, device.minor]
    assert seen["global"] == 4
    assert [seen[name] for name in ("launched", "launched ex", "captured", "replayed", "filled")] == [
        101,
        202,
        202,
        203,
        2**32 - 1,
    ]
    assert seen["launch ns"] >= REPLAY_BELOW_NS, "a session would execute every launch hundreds of times to time it"
    refusals = {
        "early": "201", "threads": "1 invalid argument: add: a block of 512 threads, .maxntid allows 256", "shared": "1 ", "optin": "1 ",
        "cluster": "0 " if device.major == 9 else "801 ", "uneven": "1 " if device.major == 9 else "801 ",
        "registers": "801 ", "cubin": "209 ", "newer": "209 ", "bad": "218 ",
    }  # fmt: skip
    assert {name: seen[name][: len(start)] for name, start in refusals.items()} == refusals
    assert str(device.shared_optin) in seen["optin"]
    assert "sad is not implemented" in seen["bad"]
    assert "cuMemAllocManaged" in seen["missing"]
    assert seen["occupancy"] == min(
        device.threads_unit // 256, device.shared_unit // (4096 + (1024 if device.major >= 8 else 0))
    )


def test_the_rows_of_devices_are_their_facts() -> None:
    assert [device_of(arch).name for arch in ARCHS] == list(ARCHS)
    assert (device_of("sm_80").shared_optin, device_of("sm_75").shared_optin) == (166912, 65536)
