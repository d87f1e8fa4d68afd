"""The memory-efficient kernels, their order and our choice among them are those of PyTorch's wheel.

The kernel types and dispatch functions come from the headers in the wheel, compiled for the host. The wheel lacks the
callers (``attention.cu``, ``attention_backward.cu``), which have the conditions of those of xformers: these are used.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.support.generators.mem_efficient.problems import random_problem
from tests.support.referees.xformers_host.choice import choices
from tests.support.referees.xformers_host.client import XformersHost
from tests.support.referees.xformers_host.ours import ARCHS, EfficientProblem
from tests.support.referees.xformers_host.program import host_program
from tests.support.referees.xformers_host.tables import dispatch_faults, fact_faults

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def host(shared_cache: Path) -> XformersHost:
    return XformersHost(host_program(shared_cache, Path(torch.__file__).parent / "include"))


def test_the_facts_of_all_kernels_are_pytorchs(host: XformersHost) -> None:
    kernels, faults = fact_faults(host)
    assert not faults, "\n".join(faults[:40])
    assert kernels == 45 + 162


def test_the_order_of_all_kernels_is_pytorchs(host: XformersHost) -> None:
    lists, faults = dispatch_faults(host, "pytorch")
    assert not faults, "\n".join(faults[:40])
    assert lists > 300


def test_twenty_thousand_choices_are_pytorchs(host: XformersHost) -> None:
    rng = Random(5)
    found = choices(host, [EfficientProblem(random_problem(rng), rng.choice(ARCHS)) for _ in range(20_000)])
    print(f"\n20000 problems, {len(found.kernels)} kernels, {len(found.faults)} mismatches\n{found.lines()}")
    assert not found.faults, "\n".join(found.faults[:40])
    assert found.counts["the same kernel"] >= 12_000
