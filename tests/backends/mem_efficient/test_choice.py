"""Our choice, launches, parameters and blocks equal those of upstream's host code, for random problems."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from fmha_cli.codegen.mem_efficient.traits import kernels_of
from fmha_cli.domain.kernel import Family
from tests.support.generators.mem_efficient.problems import random_problem
from tests.support.referees.xformers_host import choice, members, ours
from tests.support.referees.xformers_host.client import XformersHost
from tests.support.referees.xformers_host.ours import ARCHS, EfficientProblem
from tests.support.referees.xformers_host.program import host_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.promise(
        "README: FlashAttention-2 and 3, xformers, cuDNN",
        "GPU backends list upstream's kernels and choose among them as upstream does.",
    ),
]
XFORMERS = ARCHS[:5]
"""The architectures for which xformers has kernels: below compute capability 10.0."""


@pytest.fixture(scope="module")
def host(shared_cache: Path) -> XformersHost:
    return XformersHost(host_program(shared_cache))


def random_cases(seed: int, count: int, kind: str | None = None) -> list[EfficientProblem]:
    rng = Random(seed)
    return [EfficientProblem(random_problem(rng, kind), rng.choice(XFORMERS), rng.random() < 0.5) for _ in range(count)]


def test_twenty_thousand_choices_are_upstreams(host: XformersHost) -> None:
    found = choice.choices(host, random_cases(1, 20_000))
    print(f"\n20000 problems, {len(found.kernels)} kernels, {len(found.faults)} mismatches\n{found.lines()}")
    assert not found.faults, "\n".join(found.faults[:40])
    assert found.counts["the same kernel"] >= 12_000
    able = [t.name for f in (Family.FWD, Family.BWD_DQ_DK_DV) for t in kernels_of(f) if t.algorithm.tag >= 75]
    print(f"{len(able)} kernels of tag 75 and 80; never chosen:", *sorted(set(able) - found.kernels.keys()))


def test_head_dims_that_are_no_whole_loads(host: XformersHost) -> None:
    """On compute capability 7.5 alone there are kernels of both alignments, between which strides decide."""
    odd = [c for c in random_cases(6, 12_000) if c.problem.hdim % 8 or c.problem.hdim_v % 8]
    found = choice.choices(host, [replace(case, arch="sm_75") for case in odd])
    print(f"\n{len(odd)} problems, {len(found.faults)} mismatches\n{found.lines()}")
    assert not found.faults, "\n".join(found.faults[:40])
    assert found.counts["the same kernel, padded by the host"] >= 200


def test_launches_parameters_and_blocks_are_upstreams(host: XformersHost) -> None:
    found = members.compare(host, random_cases(2, 4_500))
    print(f"\n{found.lines()}")
    assert not found.faults, "\n".join(found.faults[:40])
    assert found.blocks["forward"] >= 38_000
    assert found.launches["backward"] >= 1_200


def test_another_limit_of_shared_memory_is_noticed(host: XformersHost, monkeypatch: pytest.MonkeyPatch) -> None:
    true = choice.device_of
    monkeypatch.setattr(choice, "device_of", lambda arch: replace(true(arch), shared_per_block=40 << 10))
    found = choice.choices(host, [case for case in random_cases(3, 120, "bwd") if case.arch != "sm_75"])
    assert found.faults


PLANTED = {
    "fwd": {
        "num_keys": 1,
        "q_strideH": 8,
        "output_accum_ptr": 16,
        "logsumexp_ptr": 4,
        "bias_strideB": 8,
        "window_size": 1,
    },
    "bwd": {
        "delta_strideH": 1,
        "lse_strideH": 8,
        "num_splits_key": 1,
        "workspace": 16,
        "gB_strideM": 16,
        "gV_strideH": 8,
    },
}
"""Fields of a block, and by how much they are wrong."""


@pytest.mark.parametrize(("kind", "name", "by"), [(k, n, by) for k, some in PLANTED.items() for n, by in some.items()])
def test_another_parameter_is_noticed(
    host: XformersHost, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, by: int
) -> None:
    true = ours.params_of

    def planted(*given: object) -> object:
        block = true(*given)  # type: ignore[arg-type]
        value = getattr(block, name)
        return replace(block, **{name: value + by}) if value else block

    monkeypatch.setattr(ours, "params_of", planted)
    assert any(name in fault for fault in members.compare(host, random_cases(4, 40, kind)).faults)
