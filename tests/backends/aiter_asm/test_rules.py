"""Each rule K750-K757 refuses what it should and passes its nearest neighbour; what the core's rules cover is refused too."""

from __future__ import annotations

import pytest
from hypothesis import given

from fmha_cli.backends.aiter_asm.upstream import UPSTREAM
from fmha_cli.codegen.aiter_asm.facts import algorithm_of, facts_of, kernels
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import duplicate_ids
from tests.support.generators.strategies import problems

FITS = "-b 2 -H 4 -d 128 -s 300 --dtype bf16"
PACKED = "-H 4 -d 128 --dtype bf16 --seqlens-q 70,5 --seqlens-k"
CASES = (
    ("K752", "gfx942", f"{FITS} -d 64", FITS),
    ("K752", "gfx942", f"{FITS} -d 192 --hdim-v 128", FITS),
    ("K752", "gfx950", f"{FITS} -d 192", f"{FITS} -d 192 --hdim-v 128"),
    ("K753", "gfx942", f"{FITS} --mask window:299,1", f"{FITS} --mask window:300,0"),
    ("K753", "gfx942", f"{FITS} --mask window:298,0", f"{FITS} --mask window:9999,9999"),
    ("K753", "gfx942", f"{FITS} --mask causal-tl --seqlen-k 301", f"{FITS} --mask causal-tl"),
    ("K753", "gfx950", f"{PACKED} 70,5 --mask causal-tl", f"{PACKED} 70,5 --mask causal"),
    ("K754", "gfx942", f"{FITS} -b 16 -H 64 -s 16k", f"{FITS} -b 16 -H 32 -s 16k"),
    ("K756", "gfx942", f"{PACKED} 70,0", f"{PACKED} 70,0 --mask causal"),
    ("K756", "gfx950", f"{PACKED} 0,7", f"{PACKED} 1,7"),
    ("K757", "gfx942", f"{FITS} --scale -0.1", f"{FITS} --scale 0.1"),
    ("K757", "gfx942", f"{FITS} --scale 1e-39", f"{FITS} --scale 1e-37"),
    ("K001", "gfx942", f"{FITS} --dtype fp16", FITS),
    ("K007", "gfx942", f"{FITS} --bias elementwise", FITS),
    ("K008", "gfx950", f"{FITS} --softcap 20", FITS),
    ("K009", "gfx942", f"{FITS} --dropout 0.1", FITS),
    ("K013", "gfx942", f"{FITS} --kv-cache linear --cache-seqlens 300,200", FITS),
)
"""Rule, architecture, a problem that it refuses, and one beside it that is served. ``--softcap`` upstream's host code ignores."""


def device_of(arch: str, units: int = 304) -> DeviceFacts:
    return DeviceFacts(id="hip:0", archs=(arch,), units=units)


def refused_by(arch: str, line: str) -> set[str]:
    """The rules against the nearest kernel; empty where one fits."""
    decisions = list(UPSTREAM.decide(Problem.from_cli(line), device_of(arch)))
    if any(isinstance(d, Supported) for d in decisions):
        return set()
    nearest = min((d for d in decisions if isinstance(d, Unsupported)), key=lambda d: d.distance)
    return {reason.id for reason in nearest.reasons}


@pytest.mark.parametrize(("rule", "arch", "refused", "served"), CASES)
def test_a_rule_refuses_and_passes_its_neighbour(rule: str, arch: str, refused: str, served: str) -> None:
    assert rule in refused_by(arch, refused)
    assert refused_by(arch, served) == set()


@pytest.mark.parametrize(("units", "folder"), [(304, "MI300"), (80, "MI308"), (64, "MI308"), (228, "")])
def test_the_file_is_that_of_the_product(units: int, folder: str) -> None:
    decisions = UPSTREAM.decide(Problem.from_cli(FITS), device_of("gfx942", units))
    best = min((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank, default=None)
    assert (facts_of(best.kernel).path.split("/")[-2] if best else "") == folder


def test_upstreams_rounding_comes_first() -> None:
    decisions = UPSTREAM.decide(Problem.from_cli(FITS), device_of("gfx942"))
    fitting = sorted((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank)
    assert [algorithm_of(d.kernel).cvt for d in fitting] == ["rtna", "rtne", "rtz"]


def test_without_a_device_the_largest_product_counts() -> None:
    decisions = UPSTREAM.decide(Problem.from_cli(FITS), DeviceFacts.of_arch("gfx942"))
    assert {algorithm_of(d.kernel).product for d in decisions if isinstance(d, Supported)} == {"MI300"}


def test_every_kernel_exists_and_no_other() -> None:
    listed = [kernel for arch in ("gfx942", "gfx950") for kernel in UPSTREAM.kernels(load_arch(arch))]
    assert (len(listed), len(set(listed))) == (32, 32)
    assert all(UPSTREAM.refusals(kernel) == () for kernel in listed)
    assert duplicate_ids([UPSTREAM.rules()]) == []


@given(problems())
def test_every_refusal_has_a_reason(problem: Problem) -> None:
    for decision in UPSTREAM.passes().decide(problem, device_of("gfx950")):
        assert isinstance(decision, Supported) or decision.reasons
        assert decision.kernel is None or decision.kernel in kernels("gfx950")
