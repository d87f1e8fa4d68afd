"""For random problems, the chosen kernel is the first match in upstream's generated API files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pytest

from fmha_cli.backends.ck_tile.catalogue import kernels
from fmha_cli.backends.ck_tile.decide import decide
from fmha_cli.backends.ck_tile.plan import plan_of
from fmha_cli.backends.gpu.conditions import FORWARD
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from tests.support.generators.ck_tile.problems import KINDS, random_problem
from tests.support.referees.ck_tile.upstream import Upstream, arguments_of, generator

pytestmark = pytest.mark.promise(
    "README: Composable Kernel (CK-Tile)",
    "GPU backends list upstream's kernels and choose among them as upstream does.",
)

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1201")
SAMPLED = ("gfx942",)
"""The architecture of the default suite. Upstream's generator takes a second for each API of each architecture."""
UNITS = (16, 32, 80, 104, 256, 304)
FORWARD_KINDS = tuple(kind for kind in KINDS if kind != "bwd")
OURS_TO_REFUSE = ("K31", "K32", "K33", "K2")
"""Rules that upstream's API does not cover: stages, limits of runners and kernels, kernels that cannot be built."""


@dataclass
class Compared:
    """The outcomes, and the problems for which the two sides differ."""

    outcomes: Counter[str]
    mismatches: list[str]


def compare(
    problem: Problem,
    arch: str,
    units: int,
    upstream: Upstream,
    into: Compared,
    among: frozenset[KernelSpec] | None = None,
) -> None:
    """Choose a kernel and plan, then compare every stage's template arguments with upstream's API file.

    ``among`` restricts the choice to the kernels of a profile.
    """
    device = DeviceFacts(id="hip:0", archs=(arch,), units=units)
    decisions = list(decide(problem, device))
    able = (d for d in decisions if isinstance(d, Supported) and (among is None or d.kernel in among))
    chosen = min(able, key=lambda d: d.rank, default=None)
    wanted = upstream.choice(problem, units)
    stages = {}
    if chosen is not None and chosen.rank[0] == 0:
        stages = {s.family: arguments_of(s.kernel) for s in plan_of(problem, chosen.kernel, device).stages}
    rules = [] if stages == wanted else _rules_against(wanted, decisions)
    if stages == wanted:
        into.outcomes[chosen.kernel.family.value if chosen and stages else "no kernel"] += 1
    elif rules and all(rule.startswith(OURS_TO_REFUSE) for rule in rules):
        into.outcomes[f"upstream's refused by {', '.join(rules)}"] += 1
    else:
        into.mismatches.append(f"{arch} {units} CUs {problem.repro()}\n  upstream {wanted}\n  ours {stages} {rules}")


def _rules_against(wanted: dict[Family, tuple[str, ...]], decisions: list[Supported | Unsupported]) -> list[str]:
    """The ids of the rules against the kernel that upstream takes."""
    for decision in decisions:
        kernel = decision.kernel
        known = isinstance(decision, Unsupported) and kernel is not None and kernel.family in wanted
        if known and arguments_of(kernel) == wanted[kernel.family]:
            return [reason.id for reason in decision.reasons]
    return []


def run(folder: Path, seed: int, count: int, archs: tuple[str, ...], kinds: tuple[str, ...]) -> Compared:
    """Compare the choices for random problems."""
    rng, out = Random(seed), Compared(Counter(), [])
    for _ in range(count):
        arch, units = rng.choice(archs), rng.choice(UNITS)
        problem = random_problem(rng, rng.choice(kinds))
        receipt = 800 if problem.dtype.value == "fp32" else 1
        compare(problem, arch, units, Upstream(folder, arch, receipt), out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forwards", "backwards", "served", "each"), [pytest.param(90, 13, 60, 1, marks=pytest.mark.ci), (270, 40, 200, 5)]
)
def test_the_choice_is_upstreams_first_match(
    shared_cache: Path, forwards: int, backwards: int, served: int, each: int
) -> None:
    folder = generator(shared_cache)
    forward = run(folder, 1, forwards, SAMPLED, FORWARD_KINDS)
    backward = run(folder, 2, backwards, ("gfx1201",), ("bwd",))
    assert not forward.mismatches + backward.mismatches, "\n".join(forward.mismatches + backward.mismatches)
    kernels = sum(forward.outcomes[f.value] for f in Family) + sum(backward.outcomes[f.value] for f in Family)
    assert kernels >= served, (forward.outcomes, backward.outcomes)
    families = (Family.FWD, Family.FWD_SPLITKV, Family.FWD_PAGEDKV, Family.BATCH_PREFILL)
    assert all(forward.outcomes[f.value] >= each for f in families), forward.outcomes


@cache
def profile_kernels(arch: str, profile: str) -> frozenset[KernelSpec]:
    """The main forward kernels of a profile."""
    return frozenset(kernels(load_arch(arch), profile=profile, families=FORWARD))


def run_receipt_0(
    folder: Path, seed: int, count: int, archs: tuple[str, ...], kinds: tuple[str, ...] = FORWARD_KINDS
) -> Compared:
    """Compare random forward problems within receipt 0, which lacks receipt 1's kernels for any head dim."""
    rng, out = Random(seed), Compared(Counter(), [])
    for _ in range(count):
        arch, units, problem = rng.choice(archs), rng.choice(UNITS), random_problem(rng, rng.choice(kinds))
        if problem.dtype.value != "fp32":
            compare(problem, arch, units, Upstream(folder, arch, 0), out, profile_kernels(arch, "ck_default"))
    return out


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("fwd",), id="fwd"),  # upstream's generator takes a second for each API
        pytest.param(FORWARD_KINDS, id="all", marks=[pytest.mark.slow, pytest.mark.ci]),
    ],
)
def test_the_choice_within_receipt_0(shared_cache: Path, kinds: tuple[str, ...]) -> None:
    found = run_receipt_0(generator(shared_cache), 4, 40, SAMPLED, kinds)
    assert not found.mismatches, "\n".join(found.mismatches)
    assert found.outcomes["fwd"] >= 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_choices_within_receipt_0(shared_cache: Path) -> None:
    found = run_receipt_0(generator(shared_cache), 5, 1000, ARCHS)
    print(f"\nreceipt 0: {dict(found.outcomes)}, mismatches {len(found.mismatches)}")
    assert not found.mismatches, "\n".join(found.mismatches)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousands_of_choices_are_upstreams_first_match(shared_cache: Path) -> None:
    folder = generator(shared_cache)
    out = run(folder, 3, 4000, ARCHS, KINDS)
    print(f"\n4000 problems: {dict(out.outcomes)}, mismatches {len(out.mismatches)}")
    assert not out.mismatches, "\n".join(out.mismatches)


@pytest.mark.slow
@pytest.mark.ci
def test_a_changed_order_is_noticed(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: if padding is always preferred, the choices differ from upstream's."""
    from fmha_cli.backends.ck_tile import decide as module

    folder = generator(shared_cache)
    monkeypatch.setattr(module, "find_unmet_condition", lambda situation, kernel, largest: None)
    found = run(folder, 1, 120, SAMPLED, ("fwd",))
    assert found.mismatches
