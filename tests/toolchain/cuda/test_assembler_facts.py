"""The second route to a cubin, which kernels take that NVRTC's own assembler does not survive: ptxas makes one on every architecture."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fmha_cli.backends.cuda.shop import FAILS_ON
from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.nvrtc import LIBRARY
from fmha_cli.toolchain.cuda.packages import ASSEMBLER, COMPILER, WheelProblem, list_recorded, wheel
from fmha_cli.toolchain.cuda.probe import own_command
from tests.support.builds.nvrtc_tiny import ARCHS

TEXT = """extern "C" __global__ void fmha_tiny(float* x) {
  __shared__ unsigned long long barrier;
  unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at));
  x[0] = 1;
}
"""


def tool(name: str, folder: str, file: str) -> Path:
    try:
        return next(path for path in list_recorded(wheel(name), folder) if path.name == file)
    except (WheelProblem, StopIteration) as fault:
        pytest.skip(f"{fault}; pip install '.[cuda]'")


def compiled(folder: Path, arch: str, *flags: str) -> Cubin:
    """The cubin that the compile process makes."""
    (folder / "source.cpp").write_text(TEXT)
    library = tool(COMPILER, "lib", LIBRARY)
    command = (*own_command(), f"--nvrtc={library.parent}", *flags, f"-arch={arch}", "source.cpp", "-o", "artifact")
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return Cubin((folder / "artifact").read_bytes())


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "sm_75"])  # which has no mbarrier
def test_both_routes_make_a_cubin(tmp_path: Path, arch: str) -> None:
    """What crashed is in the fact's source, in words. The barrier here is set up as kernels do."""
    for route in ("nvrtc", "ptxas"):
        (tmp_path / route).mkdir()
    assert compiled(tmp_path / "nvrtc", arch).arch == arch
    assert compiled(tmp_path / "ptxas", arch, f"--ptxas={tool(ASSEMBLER, 'bin', 'ptxas')}").arch == arch
    assert "mbarrier.init" in (tmp_path / "ptxas" / "kernel.ptx").read_text()


@pytest.mark.parametrize("arch", ARCHS)
def test_the_fact_names_its_version_and_holds_from_sm_90_on(arch: str) -> None:
    facts = load_arch(arch).facts
    assert (FAILS_ON in facts) == (facts["compute_capability"]["value"] >= [9, 0])
    assert "NVRTC 13.0.88" in facts.get(FAILS_ON, {"source": "NVRTC 13.0.88"})["source"]
