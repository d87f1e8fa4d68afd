"""The emulator as devices of ``fmha``: FlashAttention-2 and memory-efficient kernels executed from their own PTX."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu import NvptxEmulator
from fmha_nvptx_emu.device_facts import ARCHS
from fmha_nvptx_emu.units import core_files

from fmha_cli import api, plugin


def test_devices_are_those_of_the_facts() -> None:
    devices = NvptxEmulator().devices()
    assert [d.id for d in devices] == [f"emu:{arch}" for arch in ARCHS]
    assert all(d.emulated and d.units > 1 and d.archs[0] == d.id[4:] for d in devices)
    assert {d.id: d.archs for d in devices}["emu:sm_86"] == ("sm_86", "sm_80")
    assert isinstance(NvptxEmulator(), plugin.Emulator)


def test_listing_devices_loads_nothing_heavy() -> None:
    code = (
        "import sys; from fmha_cli.api import build_registry\n"
        "ids = [d.id for e in build_registry().emulators.values() for d in e.devices()]\n"
        "assert 'emu:sm_80' in ids, ids\n"
        "print([m for m in ('numpy', 'cuda.bindings', 'fmha_nvptx_emu.building') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_lists_the_devices() -> None:
    page = Path(__file__).resolve().parents[3].joinpath("docs", "explanation", "emulation.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if line.startswith("NVIDIA devices: "))
    assert re.findall(r"`emu:(\w+)`", line) == list(ARCHS)


def test_files_are_small_enough_to_read() -> None:
    sizes = {name: text.count("\n") for name, text in core_files().items()}
    assert {name: size for name, size in sizes.items() if size > 400} == {}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize("backend", ["flash_attn", "mem_efficient"])
def test_rows_pass_with_the_sums_of_tensor_cores(backend: str, direction: str, dtype: str) -> None:
    """The budgets hold whichever way the tensor cores add up."""
    pytest.importorskip("cuda.bindings")
    problem = api.Problem.from_cli(f"-b 1 -H 2 -s 200 -d 64 --causal --dtype {dtype} --direction {direction}")
    for arithmetic in plugin.Arithmetic:
        (row,) = api.run(problem, backend=backend, device="emu:sm_80", emu_arith=arithmetic)
        assert row.verdict is api.Verdict.PASSED, row.notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "problem"),
    [
        ("flash_attn", "-b 1 -H 2 -s 200 -d 128 --causal"),
        ("flash_attn", "-b 1 -H 2 -s 200 -d 128 --causal --direction bwd"),
        ("mem_efficient", "-b 1 -H 2 -s 200 -d 128 --causal"),
        ("mem_efficient", "-b 1 -H 2 -s 200 -d 64 --causal --direction bwd"),
        ("cudnn_oss", "-b 1 -H 2 --kv-heads 1 -s 256 -d 64 --dtype bf16 --causal --lse"),
        ("cudnn_oss", "-b 2 -H 1 -s 384 -d 128 --dtype bf16 --causal"),
    ],
)
def test_a_kernel_passes_under_three_seeds(backend: str, problem: str) -> None:
    """NVRTC compiles each kernel for up to a minute."""
    pytest.importorskip("cuda.bindings")
    for seed in range(3):
        (row,) = api.run(
            api.Problem.from_cli(problem),
            backend=backend,
            device="emu:sm_90a" if backend == "cudnn_oss" else "emu:sm_80",
            emu_seed=seed,
        )
        assert row.verdict is api.Verdict.PASSED, row.notes
        assert row.findings == ()
