"""Our choice, launches and parameters equal those of upstream's host code, for random problems and given devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from fmha_cli.backends.flash_attn.catalogue import kernels
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need
from tests.support.generators.flash_attn.problems import random_problem
from tests.support.referees.upstream_host.calls import DEVICES
from tests.support.referees.upstream_host.client import Device, Host
from tests.support.referees.upstream_host.compare import FlashProblem, Members, compare
from tests.support.referees.upstream_host.outcomes import Outcomes
from tests.support.referees.upstream_host.program import host_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "README: FlashAttention-2 and 3, xformers, cuDNN",
        "GPU backends list upstream's kernels and choose among them as upstream does.",
    ),
]
"""Upstream's host code takes a minute to compile. CI runs these tests in a separate stage."""

APIS = ("mha_fwd", "mha_varlen_fwd", "mha_fwd_kvcache", "mha_bwd", "mha_varlen_bwd")


@pytest.fixture(scope="module")
def host(shared_cache: Path) -> Host:
    return Host(host_program(shared_cache))


def random_cases(seed: int, count: int, draw: Callable[[Random], Problem] = random_problem) -> list[FlashProblem]:
    rng = Random(seed)
    devices = [device for some in DEVICES.values() for device in some]
    return [FlashProblem(draw(rng), rng.choice(devices), rng.random() < 0.5) for _ in range(count)]


def judged(host: Host, cases: list[FlashProblem]) -> Outcomes:
    out = Outcomes()
    out.add(compare(host, cases))
    return out


def check_members(host: Host, found: Outcomes) -> Members:
    """Compare every field of every parameter struct of the problems that both sides support."""
    members, faults = Members(host.layout()), []
    for one in found.equal:
        faults += [f"{one.case.text()}\n  {fault}" for fault in members.faults(one)]
    print(
        f"{members.launches} parameter structs, {members.compared} members, {len(faults)} mismatches; of known reason:"
    )
    print("\n".join(f"  {n:6} {why}" for why, n in members.known.most_common()))
    assert not faults, "\n".join(faults[:40])
    return members


@pytest.mark.ci
def test_choice_launches_and_parameters_are_upstreams(host: Host) -> None:
    found = judged(host, random_cases(1, 300))
    print(f"\n300 problems, {len(found.templates)} template-ids, {len(found.faults)} mismatches\n{found.lines()}")
    assert not found.faults, "\n".join(found.faults[:40])
    assert found.served() >= 200
    assert all(found.served(api) >= 10 for api in APIS)
    members = check_members(host, found)
    assert members.compared >= 100 * 60


@pytest.mark.timeout(3600)
def test_thousands_of_choices(host: Host) -> None:
    found = judged(host, random_cases(2, 6_000))
    print(f"\n6000 problems, {len(found.templates)} template-ids, {len(found.faults)} mismatches\n{found.lines()}")
    assert not found.faults, "\n".join(found.faults[:40])
    check_members(host, found)


HDIMS = (32, 64, 96, 128, 192, 256, 24, 56, 88, 120, 184, 248)
"""The head dims of the kernels, and one below each."""
SPLITS = ("3", "7", "12", "30", "50", "100")
"""One split count for each further combine kernel."""


def cell_problems(dtype: str) -> list[Problem]:
    """For each head dim, a problem for every feature that is compiled into kernels."""
    out = []
    masks = ({}, {"mask": "causal"}, {"mask": "window:70,3"})
    biases = ({}, {"alibi": True})
    lengths = ({"seqlen": 256, "seqlen_k": 512}, {"seqlen": 255, "seqlen_k": 300})
    for hdim, mask, bias, length in product(HDIMS, masks, biases, lengths):
        common = {"hdim": hdim, "dtype": dtype, "heads": 4, "batch": 2, **mask, **bias}
        for noise in ({}, {"softcap": 20.0}, {"dropout": 0.25}):
            out.append(Problem.of(**common, **length, **noise, splits="1"))
            out.append(Problem.of(**common, **length, **noise, direction="bwd"))
        for noise in ({}, {"softcap": 20.0}):
            linear = {"kv_cache": "linear", "cache_seqlens": "300", "seqlen": 64, "append": 3}
            paged = {"kv_cache": "paged:256", "cache_seqlens": "512", "seqlen": 64}
            out.append(Problem.of(**common, **noise, **length, splits="2"))
            out += [Problem.of(**common, **noise, **linear, splits=splits) for splits in ("1", "2")]
            out.append(Problem.of(**common, **noise, **paged, splits="1"))
    for hdim in HDIMS:
        common = {"hdim": hdim, "dtype": dtype, "heads": 4, "batch": 2, "seqlen": 100, "seqlen_k": 900}
        out += [Problem.of(**common, splits=splits) for splits in SPLITS]
        out += [Problem.of(**common, direction="bwd", deterministic=True, dropout=p) for p in (0.0, 0.2)]
    return out


@pytest.mark.timeout(3600)
def test_every_kernel_is_upstreams_choice_for_some_problem(host: Host) -> None:
    """Every cell (architecture, type, head dim, features, evenness) is reached, so all listed kernels are chosen."""
    reached: set[str] = set()
    for arch, some in DEVICES.items():
        found = judged(host, [FlashProblem(p, some[0]) for dtype in ("fp16", "bf16") for p in cell_problems(dtype)])
        print(f"\n{arch}: {found.served()} cells, {len(found.templates)} template-ids, {len(found.faults)} mismatches")
        assert not found.faults, "\n".join(found.faults[:40])
        ours = {UPSTREAM.template(kernel): kernel for kernel in kernels(load_arch(arch))}
        assert found.templates <= ours.keys()
        never = {text for text, kernel in ours.items() if text not in found.templates and not _needs_no_lengths(kernel)}
        assert not never, "\n".join(sorted(never)[:40])
        reached |= found.templates
    print(f"{len(reached)} template-ids reached")


def _needs_no_lengths(kernel: KernelSpec) -> bool:
    """Whether a kernel needs a paged cache without sequence lengths. A cache always has lengths here.

    For such a cache, upstream takes split-KV kernels for even lengths that neither split nor append.
    """
    s = kernel.signature
    plain = kernel.family is Family.FWD_SPLITKV and s.split is Need.NO and s.append is Need.NO
    return plain and algorithm_of(kernel).even_mn


@pytest.mark.ci
def test_another_tile_is_noticed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: if a device's shared memory differs from its architecture's facts, so do the tiles."""
    cases = random_cases(1, 150)
    small = [replace(case, device=_with_less(case.device)) for case in cases if case.problem.direction.backward]
    assert judged(host, small).faults


def _with_less(device: Device) -> Device:
    return replace(device, shared_per_block=99 << 10 if device.shared_per_block > 100 << 10 else 163 << 10)


@pytest.mark.ci
def test_another_parameter_is_noticed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from fmha_cli.backends.flash_attn import arguments

    true = arguments._scales
    monkeypatch.setattr(arguments, "_scales", lambda problem: true(problem) | {"scale_softmax_log2": 0.5})
    found = judged(host, random_cases(1, 40))
    assert not found.faults
    with pytest.raises(AssertionError, match="scale_softmax_log2"):
        check_members(host, found)
