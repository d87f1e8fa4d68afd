"""Plain HIP kernels, compiled by clang and launched through unmodified hip-python, agree with numpy.

The kernels and the expected results do not depend on the emulator. They are an anchor in addition to the tests of
single instructions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hip", reason="hip-python is not installed")

from fmha_amdgpu_emu_tests.support.hip_building import VARIANTS, arch_of, code_object, library, run_child
from fmha_amdgpu_emu_tests.support.hip_cases import CASES

HERE = Path(__file__).parent / "support"
KERNELS = HERE / "hip_kernels.hip"
ACROSS_HALVES = {"reduce_shuffle", "lanes", "lanes_64"}
"""Cases that permute the lanes of a whole wave through LDS; RDNA cannot do this for 64 lanes."""

Answers = dict[str, dict[str, Any]]


TWICE = "gfx1100-wave64"
"""Compiled and run in the slow suite. Waves of 64 lanes on gfx1100 and gfx1201 use the same kernels here."""


@pytest.fixture(
    scope="module", params=[pytest.param(v, marks=[pytest.mark.slow] if v == TWICE else []) for v in VARIANTS]
)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Answers]:
    """The outcome of every case on one variant, all in one process."""
    variant: str = request.param
    folder = tmp_path_factory.mktemp(variant)
    code = code_object(KERNELS, variant)
    cases = sorted(set(CASES) - ACROSS_HALVES) if variant.endswith("-wave64") else ()
    return variant, json.loads(
        run_child(HERE / "hip_child.py", arch_of(variant), folder, str(library()), str(code), "7", *cases)
    )


@pytest.mark.parametrize("case", sorted(CASES))
def test_kernel(answers: tuple[str, Answers], case: str) -> None:
    variant, found = answers
    if case not in found:
        pytest.skip(f"{variant} does not permute 64 lanes")
    answer = found[case]
    assert not answer["fault"], answer["fault"]
    assert answer["observed"]["fault"] is None
    assert answer["observed"]["findings"] == []


def test_counts_add_up(answers: tuple[str, Answers]) -> None:
    variant, found = answers
    counts = [kernel for answer in found.values() for kernel in answer["observed"]["executed"]]
    assert {"reduce_lds", "collatz", "integers_64"} <= {kernel["kernel"] for kernel in counts}
    for kernel in counts:
        assert kernel["launches"] >= 1
        assert sum(kernel["classes"].values()) == kernel["instructions"], (variant, kernel["kernel"])
    (narrow,) = (kernel for kernel in counts if kernel["kernel"] == "narrow_memory")
    assert (narrow["global_read_bytes"], narrow["global_written_bytes"]) == (128 * 3, 128 * 7)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("level", ["-O0", "-O1", "-Os"])
def test_other_code_for_the_same_kernels(level: str, variant: str, tmp_path: Path) -> None:
    """Different instructions give the same results.

    At ``-O0``, the compiler also spills scalars that hold nothing yet, and reads LDS between atomics.
    """
    code = code_object(KERNELS, variant, level)
    found: Answers = json.loads(run_child(HERE / "hip_child.py", variant, tmp_path, str(library()), str(code), "11"))
    assert {name: answer["fault"] for name, answer in found.items() if answer["fault"]} == {}
    kinds = {finding["kind"] for answer in found.values() for finding in answer["observed"]["findings"]}
    assert kinds <= ({"uninitialised-register", "lds-race"} if level == "-O0" else set())
