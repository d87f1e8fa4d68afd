"""The shim for cuRAND's Philox, compiled for the host, against the oracle's own: words, skips, and the unit interval."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.oracle.dropout import philox4x32

PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#define __device__
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float4 { float x, y, z, w; };
static unsigned __umulhi(unsigned a, unsigned b) { return (uint64_t)a * b >> 32; }
#include "curand_kernel.h"
int main() {
  unsigned long long seed, offset, skip;
  while (std::scanf("%llu %llu %llu", &seed, &offset, &skip) == 3) {
    curandStatePhilox4_32_10_t state;
    curand_init(seed, 0, offset, &state);
    skipahead(skip, &state);
    for (int k = 0; k < 2; ++k) {
      float4 u = curand_uniform4(&state);
      std::fwrite(&u, sizeof u, 1, stdout);
    }
  }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++", "clang++-22"))), None)
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    folder = tmp_path_factory.mktemp("philox")
    (folder / "ask.cpp").write_text(PROGRAM)
    # One rounding for each operation, as in the oracle.
    command = [compiler, "-std=c++17", "-O1", "-w", "-ffp-contract=off", f"-I{UPSTREAM.shim_folder('common')}"]
    subprocess.run([*command, str(folder / "ask.cpp"), "-o", str(folder / "ask")], check=True)
    return folder / "ask"


def words(seed: int, first: int, count: int) -> list[int]:
    """Words of the stream of a seed, by their numbers."""
    blocks = np.arange(first // 4, (first + count - 1) // 4 + 1, dtype=np.uint64)
    low, high = blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32)
    zero = np.zeros_like(low)
    made = philox4x32((low, high, zero, zero), (seed & 0xFFFFFFFF, seed >> 32), 10)
    flat = np.stack([np.asarray(word, np.uint64) for word in made], axis=-1).reshape(-1)
    return [int(word) for word in flat[first % 4 : first % 4 + count]]


def test_words_are_the_oracles(program: Path) -> None:
    rng = random.Random(13)
    asked = [
        (rng.getrandbits(rng.choice((1, 32, 64))), rng.getrandbits(rng.choice((2, 33, 61))), rng.getrandbits(rng.choice((3, 31))))
        for _ in range(3000)
    ]  # fmt: skip
    lines = "\n".join(" ".join(map(str, row)) for row in asked)
    done = subprocess.run([str(program)], input=lines.encode(), capture_output=True, check=True)
    found = np.frombuffer(done.stdout, np.float32).reshape(len(asked), 8)
    for (seed, offset, skip), row in zip(asked, found, strict=True):
        mine = np.array(words(seed, offset + skip, 8), np.float32)
        assert (mine * np.float32(2.3283064e-10) + np.float32(1.1641532e-10) == row).all(), (seed, offset, skip)
    assert found.min() > 0
    assert found.max() <= 1
    assert struct.calcsize("8f") == found.strides[0]
