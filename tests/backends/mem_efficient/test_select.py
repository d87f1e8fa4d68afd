"""The choice equals that of upstream's ``launchKernel``, written here a second time, for random problems and devices."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import Traits, kernels_of, traits_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from tests.support.models.mem_efficient.chain import plans_of

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
LENGTHS = (1, 50, 64, 96, 100, 128, 200, 256)
HDIMS = (3, 4, 6, 8, 10, 12, 16, 20, 30, 32, 33, 40, 64, 65, 72, 80, 96, 100, 128, 129, 136, 200, 256, 300, 1024)


def upstreams(problem: Problem, arch: str) -> str | None:
    """The kernel that upstream launches for tensors without gaps; None where it throws. Groups of heads are repeated, and one
    key head has the stride 0. Where it throws for the rows of an aligned kernel, that one: it launches it for padded tensors.
    """
    facts = load_arch(arch)
    major, minor = facts.fact("compute_capability")
    cc, limit = 10 * major + minor, facts.fact("shared_per_block_optin")
    tag = 75 if cc < 80 else 80
    p, forward = problem, problem.direction.forward
    bshd, packed = p.layout.value == "bshd", p.seqlens_q is not None
    rows, keys = (sum(p.query_lengths()), sum(p.key_lengths())) if packed else (p.seqlen_q, p.seqlen_k)
    q, k, v = (d if bshd else d * n for d, n in ((p.hdim, rows), (p.hdim, keys), (p.hdim_v, keys)))
    if p.kv_heads < p.heads:
        k, v = (0, 0) if p.kv_heads == 1 else (p.hdim, p.hdim_v)
    own = 1 if p.kv_heads == 1 else p.heads
    dense = [(p.hdim, p.heads), (p.hdim, own), *([] if forward else [(p.hdim_v, own)])]
    in_rows = [d * n if bshd or (1 < p.kv_heads < p.heads and place) else d for place, (d, n) in enumerate(dense)]
    for t in kernels_of(Family.FWD if forward else Family.BWD_DQ_DK_DV):
        if t.dtype is not p.dtype or t.algorithm.tag != tag or (t.only_cc and cc not in t.only_cc):
            continue
        if _passed_over(t, p, (q, k, v), packed=packed, forward=forward, limit=limit):
            continue
        width = t.facts["kAlignmentQ" if forward else "kMinimumAlignment"]
        return t.name if t.algorithm.aligned or not any(row % width for row in in_rows) else None
    return None


def _passed_over(
    t: Traits, p: Problem, strides: tuple[int, int, int], *, packed: bool, forward: bool, limit: int
) -> bool:
    a = t.algorithm
    if max(p.hdim, p.hdim_v) > a.max_k or t.shared_bytes > limit:
        return True
    if forward:
        return any(stride % t.facts["kAlignmentQ"] for stride in strides[:2])
    if p.dropout and not t.drops:
        return True
    if a.seq_aligned and (packed or p.seqlen_q % a.tile[0] or p.seqlen_k % a.tile[1]):
        return True
    return any(stride % t.facts["kMinimumAlignment"] for stride in strides)


def drawn(rng: Random, arch: str) -> Problem:
    backward = rng.random() < 0.5
    flags: dict[str, Any] = {
        "dtype": rng.choice(["fp16", "fp32"] if arch == "sm_75" else ["fp16", "bf16", "fp32"]),
        "layout": rng.choice(["bhsd", "bshd"]),
        "heads": 4,
        "kv_heads": rng.choice([1, 2, 4]),
        "hdim": rng.choice(HDIMS),
        "direction": "bwd" if backward else "fwd",
        "dropout": rng.choice([0, 0, 0.2]),
        "mask": rng.choice(["none", "causal-tl"]),
    }
    if rng.random() < 0.4:
        flags["hdim_v"] = rng.choice(HDIMS)
    lengths = (rng.choice(LENGTHS), rng.choice(LENGTHS))
    if rng.random() < 0.3:
        packed = {
            name: f"{n},{rng.choice(LENGTHS)}" for name, n in zip(("seqlens_q", "seqlens_k"), lengths, strict=True)
        }
        return Problem.of(**flags, **packed)
    if not backward and rng.random() < 0.3:
        flags["bias"] = "elementwise"
    return Problem.of(**flags, seqlen=lengths[0], seqlen_k=lengths[1])


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", ARCHS)
def test_the_choice_is_upstreams(arch: str) -> None:
    rng, device, thrown = Random(arch), DeviceFacts.of_arch(arch), 0
    for _ in range(50):
        problem = drawn(rng, arch)
        supported = [d for d in UPSTREAM.decide(problem, device) if isinstance(d, Supported)]
        first = min(supported, key=lambda d: d.rank)
        wanted = upstreams(problem, arch)
        thrown += wanted is None
        assert traits_of(first.kernel).name == wanted or (wanted is None and first.rank[1] == 1), problem.repro()
        assert ("upstream would pass over it" in (first.note or "")) == (wanted is None)
    assert thrown or arch == "sm_75"


@pytest.mark.parametrize(
    ("line", "alignment"),
    [
        ("-b 2 -H 1 -s 300 -d 127 --seqlen-k 64", "aligned"),
        ("-b 2 -H 1 -s 300 -d 100 --seqlen-k 64", "aligned"),
        ("-b 2 -H 1 -s 301 -d 100 --seqlen-k 64", "notaligned"),
        ("-b 2 -H 4 --kv-heads 2 -s 300 -d 100 --layout bshd", "notaligned"),
        ("-b 2 -H 2 -s 302 -d 98 --direction bwd", "aligned"),
    ],
)
def test_rows_that_must_be_padded_take_the_largest_loads(line: str, alignment: str) -> None:
    """fp16 on sm_75. Upstream picks by the heads (a multiple of 8, else of 4) and then throws for rows that are not a
    multiple.
    """
    plan = plans_of(Problem.from_cli(line), DeviceFacts.of_arch("sm_75"))[0]
    assert f"_{alignment}_" in traits_of(plan.main).name


def test_what_upstream_passes_over_has_a_reason() -> None:
    line = "-b 1 -H 2 -s 100 -d 64 --dropout 0.2 --direction bwd"
    decisions = list(UPSTREAM.decide(Problem.from_cli(line), DeviceFacts.of_arch("sm_90")))
    told = {
        traits_of(d.kernel).name: d.reasons for d in decisions if isinstance(d, Unsupported) and d.kernel is not None
    }
    assert {reason.id for reason in told["fmha_cutlassB_f16_aligned_64x64_k64_sm80"]} == {"K009"}
    assert {reason.id for reason in told["fmha_cutlassB_f16_aligned_64x64_k64_seqaligned_sm80"]} == {"K009", "K532"}
    assert {reason.id for reason in told["fmha_cutlassB_f16_aligned_64x64_k32_dropout_sm80"]} == {"K012"}
    chosen = min((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank)
    assert traits_of(chosen.kernel).name == "fmha_cutlassB_f16_aligned_64x64_k64_dropout_sm80"


def test_the_own_architecture_comes_first() -> None:
    device = DeviceFacts(id="cuda:0", archs=("sm_86", "sm_80"), units=84)
    supported = [
        d for d in UPSTREAM.decide(Problem.from_cli("-d 96 --direction bwd -s 100"), device) if isinstance(d, Supported)
    ]
    best = min(supported, key=lambda d: d.rank).kernel
    assert (best.arch, traits_of(best).algorithm.max_k) == ("sm_86", 96)


def test_without_padding_comes_before_with_padding() -> None:
    """fp16 rows of 20 elements on sm_75: upstream's choice loads four elements at once, and nothing is padded."""
    problem = Problem.from_cli("-d 20 --layout bshd")
    supported = [d for d in UPSTREAM.decide(problem, DeviceFacts.of_arch("sm_75")) if isinstance(d, Supported)]
    ranked = sorted(supported, key=lambda d: d.rank)
    assert not traits_of(ranked[0].kernel).algorithm.aligned
    assert "pads" not in (ranked[0].note or "")
    assert "pads head dims to 24 and 24" in (ranked[-1].note or "")
