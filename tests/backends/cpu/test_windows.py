"""Kernels that zig builds for Windows, called by a small program under wine. Nothing is said about Windows itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.toolchain.cpp.toolchain import zig_command
from tests.backends.cpu.test_zig import by_zig, cross_compiled
from tests.support.builds.arm_emulated import RUNNER, Emulator
from tests.support.builds.planted_cpu import planted
from tests.support.generators.cpu.backward_cases import (
    backward_arguments,
    backward_complaints,
    make_backward,
    random_backward,
)
from tests.support.generators.cpu.cases import AttentionCase, arguments, complaints, kernel_of, make_data, random_case
from tests.support.models.faults import Fault

ZIG = zig_command() or ()
WINE = shutil.which("wine64") or shutil.which("wine") or next(iter(Path("/usr/lib/wine").glob("wine64")), None)
TARGET, EACH = "x86_64-windows-gnu", 3
ARCH = next((arch for arch in detect().archs if arch == "x86_64_v3"), "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ZIG, reason="no ziglang package"),
    pytest.mark.skipif(WINE is None, reason="no wine64 (package wine64)"),
    pytest.mark.skipif(not ARCH, reason="not an x86 processor with AVX2"),
    pytest.mark.xdist_group("zig"),
]


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Wine with its own empty prefix, and the program for Windows that calls a library."""
    folder = tmp_path_factory.mktemp("wine")
    runner = by_zig(["-target", TARGET, "-O1", "-w", str(RUNNER)], folder / "runner.exe")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "WINEPREFIX": str(folder / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=",
        }.items():
            patch.setenv(name, value)
        patch.delenv("DISPLAY", raising=False)
        yield Emulator((str(WINE),), runner, folder, "")
        server = shutil.which("wineserver") or "/usr/lib/wine/wineserver64"
        if os.path.exists(server):
            subprocess.run([server, "-k"], check=False)  # of this prefix


@pytest.mark.parametrize(("dtype", "kind"), [("fp32", "prefill"), ("bf16", "decode"), ("fp32", "backward")])
def test_results_under_wine(wine: Emulator, dtype: str, kind: str, tmp_path: Path) -> None:
    kernel, library = kernel_of(ARCH, dtype, kind), cross_compiled(TARGET, ARCH, dtype, kind, tmp_path)
    for seed in range(EACH):
        rng = np.random.default_rng([seed, len(dtype), len(kind)])
        if kind == "backward":
            case = random_backward(rng, dtype)
            make_backward(case, rng)
            assert wine.run(kernel, library, backward_arguments(case), case.data, tmp_path) == 0
            assert backward_complaints(case) == []
        else:
            plain = random_case(rng, dtype, few_rows=kind == "decode")
            make_data(plain, rng)
            assert wine.run(kernel, library, arguments(plain), plain.data, tmp_path) == 0
            assert complaints(plain) == []


def test_a_planted_fault_is_seen_under_wine(wine: Emulator, tmp_path: Path) -> None:
    kernel = kernel_of(ARCH, "fp32", "prefill")
    text = planted(kernel, Fault.LAST_KEY_DROPPED)
    assert text != emit(kernel)
    library = cross_compiled(TARGET, ARCH, "fp32", "prefill", tmp_path, text)
    plain = AttentionCase("fp32")
    make_data(plain, np.random.default_rng(0))
    assert wine.run(kernel, library, arguments(plain), plain.data, tmp_path) == 0
    assert complaints(plain) != []
