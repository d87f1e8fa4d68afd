"""Occupancy equals that of NVIDIA's own calculator, ``cuda_occupancy.h`` of the runtime headers, and known figures."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cuda.occupancy import Demand, occupancy_of
from fmha_cli.toolchain.cuda.packages import RUNTIME, WheelProblem, list_recorded, wheel
from tests.support.builds.nvrtc_tiny import ARCHS

ASK = r"""
#include <stdio.h>
#include "cuda_occupancy.h"
int main(void) {
  int major, minor, threads, regs, sm_threads; long optin, sm_shared, reserved, fixed, dynamic, plain;
  struct cudaOccDeviceProp p = {0};
  while (scanf("%d %d %d %d %d %ld %ld %ld %ld", &major, &minor, &sm_threads, &regs, &threads, &optin, &sm_shared, &reserved, &plain) == 9) {
    p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024; p.maxThreadsPerMultiprocessor = sm_threads;
    p.regsPerBlock = 65536; p.regsPerMultiprocessor = 65536; p.warpSize = 32; p.sharedMemPerBlock = plain;
    p.sharedMemPerMultiprocessor = sm_shared; p.numSms = 100; p.sharedMemPerBlockOptin = optin; p.reservedSharedMemPerBlock = reserved;
    if (scanf("%ld %ld", &fixed, &dynamic) != 2) return 1;
    struct cudaOccFuncAttributes f = {0}; struct cudaOccDeviceState s = {0}; struct cudaOccResult r = {0};
    f.maxThreadsPerBlock = 1024; f.numRegs = regs; f.sharedSizeBytes = fixed; f.partitionedGCConfig = PARTITIONED_GC_OFF;
    f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; f.maxDynamicSharedSizeBytes = dynamic; f.numBlockBarriers = 1;
    s.cacheConfig = CACHE_PREFER_NONE; s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &f, &s, threads, dynamic);
    printf("%d %d %d %d %d\n", status, r.activeBlocksPerMultiprocessor, r.blockLimitRegs, r.blockLimitSharedMem, r.blockLimitWarps);
  }
  return 0;
}
"""
UNLIMITED = 2**31 - 1
"""The calculator's answer where a block needs no shared memory."""
DEMANDS = [
    Demand(registers=registers, threads=threads, shared_bytes=shared)
    for registers, threads, shared in itertools.product(
        (16, 24, 32, 33, 40, 41, 48, 56, 64, 72, 80, 96, 104, 127, 128, 129, 168, 200, 226, 248, 254, 255),
        (32, 33, 64, 96, 128, 160, 256, 384, 512, 768, 1024),
        (0, 1, 100, 1024, 9216, 16384, 25344, 32768, 49152, 65536, 73728, 101376, 101377, 131072, 147456, 166912, 196608, 232448),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's calculator, compiled to a program."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "clang-22"))), None)
    if compiler is None:
        pytest.skip("no C compiler is installed")
    try:
        header = next(path for path in list_recorded(wheel(RUNTIME), "include") if path.name == "cuda_occupancy.h")
    except (WheelProblem, StopIteration) as fault:
        pytest.skip(f"no CUDA headers: {fault}; pip install '.[cuda]'")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "ask.c").write_text(ASK)
    program = folder / "ask"
    subprocess.run([compiler, "-w", "-O1", f"-I{header.parent}", "-o", str(program), str(folder / "ask.c")], check=True)
    return program


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("name", ARCHS)
def test_nvidias_calculator_says_the_same(name: str, calculator: Path) -> None:
    arch = load_arch(name)
    major, minor = arch.fact("compute_capability")
    facts = " ".join(
        str(arch.fact(key))
        for key in ("shared_per_block_optin", "shared_per_sm", "shared_reserved_per_block", "shared_per_block")
    )
    head = f"{major} {minor} {arch.fact('max_threads_per_sm')}"
    lines = [f"{head} {d.registers} {d.threads} {facts} 0 {d.shared_bytes}" for d in DEMANDS]
    done = subprocess.run([str(calculator)], input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(answers) == len(DEMANDS)
    for demand, (status, blocks, registers, shared, warps) in zip(DEMANDS, answers, strict=True):
        ours = occupancy_of(demand, arch)
        assert status == 0
        assert (ours.blocks, ours.by_registers, ours.by_warps) == (blocks, registers, warps), demand
        assert ours.by_shared == (arch.fact("shared_per_sm") if shared == UNLIMITED else shared), demand


PLAIN = Demand(registers=32, threads=128, shared_bytes=0)


@pytest.mark.parametrize(
    ("arch", "changes", "blocks", "warps", "by"),
    [
        ("sm_90", {}, 16, 64, ("warps",)),
        ("sm_90", {"registers": 255}, 2, 8, ("registers",)),
        ("sm_90", {"registers": 168, "threads": 384}, 1, 12, ("registers",)),
        ("sm_90", {"shared_bytes": 232448}, 1, 4, ("shared",)),
        ("sm_90", {"shared_bytes": 115712}, 2, 8, ("shared",)),
        ("sm_90", {"shared_bytes": 115713}, 1, 4, ("shared",)),
        ("sm_90", {"shared_bytes": 232449}, 0, 0, ("shared",)),
        ("sm_90", {"registers": 16, "threads": 32}, 32, 32, ("blocks",)),
        ("sm_90", {"registers": 256}, 0, 0, ("registers",)),
        ("sm_90", {"threads": 1025}, 0, 0, ("warps",)),
        ("sm_80", {"shared_bytes": 81920, "registers": 255}, 2, 8, ("registers", "shared")),
        ("sm_80", {"shared_bytes": 166912}, 1, 4, ("shared",)),
        ("sm_86", {"shared_bytes": 49152}, 2, 8, ("shared",)),
        ("sm_86", {"registers": 16}, 12, 48, ("warps",)),
        ("sm_86", {"registers": 16, "threads": 64}, 16, 32, ("blocks",)),
        ("sm_89", {"registers": 16, "threads": 64}, 24, 48, ("warps",)),
        ("sm_75", {}, 8, 32, ("warps",)),
        ("sm_75", {"shared_bytes": 65536}, 1, 4, ("shared",)),
        ("sm_75", {"registers": 16, "threads": 32}, 16, 16, ("blocks",)),
        ("sm_120", {"shared_bytes": 101376}, 1, 4, ("shared",)),
        ("sm_120", {"shared_bytes": 101377}, 0, 0, ("shared",)),
    ],
)
def test_what_limits(arch: str, changes: dict[str, int], blocks: int, warps: int, by: tuple[str, ...]) -> None:
    found = occupancy_of(replace(PLAIN, **changes), load_arch(arch))
    assert (found.blocks, found.warps, found.limited_by) == (blocks, warps, by)
    assert found.warps_per_scheduler == warps / 4
    assert found.fraction == warps / found.most_warps
