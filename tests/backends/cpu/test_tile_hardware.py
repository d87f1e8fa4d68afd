"""Kernels with matrix tiles, executed by the tiles of the processor: the bits of the software tiles, results, faults.

The other tests of this folder that name ``x86_64_amx`` execute it with the tiles of the processor too, where there are any.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.domain.kernel import KernelSpec
from tests.support.builds.planted_cpu import switchable
from tests.support.fakes.software_tiles import AMX, FAULTS, VECTORS, software, tiles_kernel
from tests.support.generators.cpu.cases import AttentionCase, Load, complaints, kernel_of, make_data, random_case, run
from tests.support.generators.cpu.tile_cases import check_fault
from tests.support.models.faults import Fault, TileFault

pytestmark = pytest.mark.skipif(
    AMX not in backend.probe().devices[0].archs,
    reason="this machine has no AMX: NOT_RUN, its kernels run with software tiles",
)
Build = Callable[[KernelSpec, Callable[[KernelSpec], str]], ctypes.CDLL]
RESULTS = ("o_buffer", "lse")


@pytest.fixture(scope="module")
def pair(load: Load, build_text: Build) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The kernel with the tiles of the processor, and with those in C++."""
    return load(AMX, "bf16", "prefill"), build_text(tiles_kernel(VECTORS), software)


def bits(library: ctypes.CDLL, case: AttentionCase) -> tuple[list[str], list[bytes]]:
    """What the oracle complains about, and the bits of O and LSE."""
    run(library, case)
    return complaints(case), [case.data[name].tobytes() for name in RESULTS if name in case.data]


def differences(pair: tuple[ctypes.CDLL, ctypes.CDLL], seeds: range) -> list[int]:
    """The seeds of problems whose bits differ. Each must also be right."""
    found = []
    for seed in seeds:
        seen = []
        for library in pair:
            rng = np.random.default_rng([seed, 16, 32])
            case = random_case(rng, "bf16", few_rows=False)
            make_data(case, rng)
            seen.append(bits(library, case))
        assert seen[0][0] == [], f"seed {seed}"
        if seen[0][1] != seen[1][1]:
            found.append(seed)
    return found


@pytest.mark.slow
@pytest.mark.ci
def test_the_processor_gives_the_bits_of_the_software(pair: tuple[ctypes.CDLL, ctypes.CDLL]) -> None:
    assert differences(pair, range(40)) == []


@pytest.mark.slow
def test_the_processor_gives_the_bits_of_the_software_many_times(pair: tuple[ctypes.CDLL, ctypes.CDLL]) -> None:
    assert differences(pair, range(1000, 1400)) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_shows(build_text: Build, fault: Fault | TileFault) -> None:
    check_fault(build_text(kernel_of(AMX, "bf16", "prefill"), switchable), fault)
