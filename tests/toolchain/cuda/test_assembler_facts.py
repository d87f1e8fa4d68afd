"""The fact that sends kernels to ptxas: the crashes of NVRTC's own assembler, tested for every architecture."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nvrtc_tiny import ARCHS

from fmha_cli.backends.cuda.shop import FAILS_ON
from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.nvrtc import LIBRARY
from fmha_cli.toolchain.cuda.packages import ASSEMBLER, COMPILER, WheelProblem, recorded, wheel
from fmha_cli.toolchain.cuda.probe import own_command

SIGSEGV = 11
TEXT = """extern "C" __global__ void fmha_tiny(float* x) {
  __shared__ unsigned long long barrier;
  unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
  asm volatile("mbarrier.init.shared.b64 [%0], COUNT;" :: "r"(at));
  x[0] = 1;
}
"""


def tool(name: str, folder: str, file: str) -> Path:
    try:
        return next(path for path in recorded(wheel(name), folder) if path.name == file)
    except (WheelProblem, StopIteration) as fault:
        pytest.skip(f"{fault}; pip install '.[cuda]'")


def compiled(folder: Path, arch: str, count: int, *flags: str) -> int:
    """The exit status of the compile process; the cubin, if any, is in the folder."""
    (folder / "source.cpp").write_text(TEXT.replace("COUNT", str(count)))
    library = tool(COMPILER, "lib", LIBRARY)
    command = (*own_command(), f"--nvrtc={library.parent}", *flags, f"-arch={arch}", "source.cpp", "-o", "artifact")
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "sm_75"])  # which has no mbarrier
def test_what_nvrtcs_assembler_does_not_survive(tmp_path: Path, arch: str) -> None:
    listed = load_arch(arch).facts.get(FAILS_ON, {"value": []})["value"]
    fails = "mbarrier_init_0" in listed
    assert compiled(tmp_path, arch, 0) == (-SIGSEGV if fails else 0)


@pytest.mark.parametrize("count", [0, 1])
def test_ptxas_survives_it(tmp_path: Path, count: int) -> None:
    program = tool(ASSEMBLER, "bin", "ptxas")
    assert compiled(tmp_path, "sm_90a", count, f"--ptxas={program}") == 0
    assert Cubin((tmp_path / "artifact").read_bytes()).arch == "sm_90a"
    assert "mbarrier.init" in (tmp_path / "kernel.ptx").read_text()


def test_nvrtc_survives_another_count(tmp_path: Path) -> None:
    assert compiled(tmp_path, "sm_90a", 1) == 0
