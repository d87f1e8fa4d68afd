"""Whole plans on the emulated AArch64 processor: both passes, caches, appended and split keys, 8-bit inputs, judged as by ``fmha run``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path

import pytest

from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from tests.support.builds.arm_emulated import Emulator, emulator
from tests.support.builds.arm_plans import arm_plan, complaints
from tests.support.builds.planted_cpu import planted
from tests.support.generators.problems import supported
from tests.support.models.faults import ByteFault

ARCHS = ("aarch64_bf16", "aarch64")
pytestmark = [pytest.mark.slow]
SHARE, SHARES = 50, 4
"""Random problems of a test, and tests for each architecture and kind of problem."""
CI = (
    "-b 2 -H 4 --kv-heads 2 -s 40 --seqlen-k 300 -d 33 --hdim-v 35 --dtype fp8_e4m3:bf16 --qscale block --causal --lse",
    "-b 2 -H 4 --kv-heads 2 -s 3 -d 72 --hdim-v 40 --kv-cache paged:16 --cache-seqlens 300,17 --dtype bf16 --kv-dtype fp8_e4m3"
    " --fp8-encoding fnuz --qscale kv-block --append 2 --rotary 8 --causal --lse",
)
"""A problem for the blocks of BFMMLA and one for pairs of BFDOT, with a stage before it; scales change from key to key in both."""


@pytest.fixture(scope="session")
def arm(shared_cache: Path) -> Emulator:
    return emulator(shared_cache)


def random_problems(*, narrow: bool) -> Iterator[Problem]:
    """Those of the random problems that have 8-bit inputs or caches, or the others."""
    yield from (p for p in map(supported, count()) if (Element.of_keys(p).nbytes == 1) is narrow)


@pytest.mark.ci
@pytest.mark.parametrize("line", CI)
def test_sample(arm: Emulator, line: str, tmp_path: Path) -> None:
    assert complaints(arm, arm_plan(Problem.from_cli(line), ARCHS[0]), tmp_path) == []


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.ci
@pytest.mark.parametrize("fault", ByteFault)
def test_a_planted_fault_is_seen(arm: Emulator, fault: ByteFault, tmp_path: Path) -> None:
    plan = arm_plan(Problem.from_cli(CI[0]), ARCHS[0])
    assert complaints(arm, plan, tmp_path, partial(planted, fault=None)) == []
    assert complaints(arm, plan, tmp_path, partial(planted, fault=fault)) != []


ENDS = {
    "end of a row of V": ("if (n & 1) memcpy(&row, p + (n & 2), sizeof(T));", "if (n & 1) memcpy(&row, p, sizeof(T));"),
    "end of a row of O": ("if (n & 1) memcpy(p + (n & 2), &row, sizeof(T));", "if (n & 1) memcpy(p, &row, sizeof(T));"),
}
"""What a fault replaces in the source, and by what."""


@pytest.mark.ci
@pytest.mark.parametrize("name", ENDS)
def test_a_wrong_end_is_seen(arm: Emulator, name: str, tmp_path: Path) -> None:
    right, wrong = ENDS[name]
    plan = arm_plan(Problem.from_cli(CI[0]), ARCHS[0])

    def text(kernel: KernelSpec) -> str:
        assert right in emit(kernel)
        return emit(kernel).replace(right, wrong)

    assert complaints(arm, plan, tmp_path, text) != []


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("narrow", [True, False], ids=["8-bit", "wide"])
@pytest.mark.parametrize("arch", ARCHS)
def test_random_problems(arm: Emulator, arch: str, narrow: bool, share: int, tmp_path: Path) -> None:
    wanted = islice(random_problems(narrow=narrow), share * SHARE, (share + 1) * SHARE)
    plans = [arm_plan(problem, arch) for problem in wanted]
    wrong = {plan.problem.repro(): found for plan in plans if (found := complaints(arm, plan, tmp_path))}
    assert wrong == {}
