"""The smallest changes of a refused problem: the right one comes first, and each that is printed works."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fmha_cli.discovery.nearest import SHOWN, flags_by_key, nearest_changes
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.discovery.select import Selection, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.decision import Trace
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem
from tests.support.generators.strategies import problems


@cache
def registry() -> Registry:
    return build_registry()


def answer(problem: Problem, arch: str) -> Selection:
    """The selection among the backends whose kernels need the changes below. Others serve some of the problems."""
    backend = "flash_attn" if arch.startswith("sm_") else "cpu" if arch == "generic" else "ck_tile"
    return select(problem, registry(), {}, Wanted(arch=arch, backend=backend))


def serves(problem: Problem, arch: str) -> bool:
    return answer(problem, arch).best is not None


def changes(problem: Problem, arch: str, asks: int = 80) -> tuple[str, ...]:
    trace = answer(problem, arch).trace
    assert trace.chosen is None
    return nearest_changes(problem, trace, lambda other: serves(other, arch), asks=asks)


def followed(problem: Problem, change: str) -> Problem:
    """The problem of a user who follows a printed change to the letter."""
    raw = flags_by_key(problem)
    for part in change.split(" and "):
        drop, flag = part.startswith("no "), part.removeprefix("no ").split(" ")
        key = flag[0].removeprefix("--").replace("-", "_")
        if drop:
            assert key in raw or (key == "causal" and raw.pop("mask") == "causal"), part
            raw.pop(key, None)
        else:
            raw[key] = flag[1] if len(flag) == 2 else True
    return Problem.of(**raw)


CACHED = "--kv-cache linear --cache-seqlens 100"
FIRST = {
    "a page": ("gfx950", "--kv-cache paged:100 --cache-seqlens 300 -s 20", "--kv-cache paged:128"),
    "pages of one key": ("gfx1201", "--kv-cache paged:1 -s 20 --causal", "--kv-cache paged:128"),
    "rotary": ("gfx942", f"--append 4 {CACHED} -s 4 --rotary 24:half --causal", "--rotary 32"),
    "append": ("gfx942", f"-d 64 -s 3 --append 5 {CACHED} --rotary 32:half", "--append 3"),
    "rank of a bias": ("gfx1201", "--direction bwd --bias elementwise:11ss --dbias", "--bias elementwise:bhss"),
    "splits": ("gfx942", "--splits 129 --seqlen-k 64k", "no --splits"),
    "window": ("gfx1201", "--mask generic:0,5 --splits 1", "--mask window-tl:0,4"),
    "layout": ("gfx942", "-b 1 -H 256 -s 8 --seqlen-k 80000 -d 128 --layout bshd", "no --layout"),
    "head dim": ("gfx942", "-d 512", "--hdim 256"),
    "pages of another size": ("sm_90", "--kv-cache paged:16 -s 1 --cache-seqlens 4k", "--kv-cache paged:256"),
    "mask from the other corner": ("sm_90", "--seqlens-q 3,300 --seqlens-k 9,200 --mask causal-tl", "--mask causal"),
}  # fmt: skip


LIKE_OTHERS = ("pages of one key", "append", "splits", "layout")
"""The slow suite has these: the default suite has a page, a rotary embedding and a flag to leave out in others."""


@pytest.mark.promise("The smallest change that `explain` names is the smallest, and works.")
@pytest.mark.sampled(1, ci=4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ()) for name in FIRST]
)
def test_the_smallest_change_comes_first(name: str) -> None:
    arch, line, wanted = FIRST[name]
    found = changes(Problem.from_cli(line), arch)
    assert found[:1] == (wanted,)
    assert len(found) <= SHOWN


@pytest.mark.slow
@pytest.mark.ci
def test_two_flags_where_one_is_not_enough() -> None:
    problem = Problem.from_cli("--softcap 3 --dropout 0.1 -d 100")
    assert changes(problem, "sm_90")[0] == "--hdim 104 and no --softcap"


def test_the_backends_are_asked_a_limited_number_of_times() -> None:
    problem, asked = Problem.from_cli("--softcap 3 --dropout 0.1 -d 100"), []

    def never(other: Problem) -> bool:
        asked.append(other)
        return False

    assert nearest_changes(problem, answer(problem, "sm_90").trace, never, asks=9) == ()
    assert len(asked) == len(set(asked)) == 9
    assert nearest_changes(problem, Trace(()), never) == ()


SIZES = ("-d 64", "-d 72", "-d 100", "-d 128", "-d 300")
TYPES = ("--dtype fp16", "--dtype bf16", "--dtype bf16", "--dtype fp32")
FEATURES = (
    "-s 20 --kv-cache paged:100 --cache-seqlens 300", "-s 4 --kv-cache linear --append 5 --rotary 24", "--softcap 3",
    "--dropout 0.1", "--alibi", "--bias elementwise", "--lse", "--mask generic:0,5", "--mask window-tl:3,0", "--causal",
    "--splits 200", "--layout bshd", "--sink-logits filled", "--mask b:5,0 --sink 2", "--direction bwd --deterministic",
    "--scale -1", "--seqlens-q 3,5", "-b 2 -s 3 --seqlen-k 9", "--hdim-v 48", "-H 4 --kv-heads 1", "--qscale tensor",
)  # fmt: skip


def drawn(generator: random.Random) -> Problem:
    """A random problem of a few features, of which some or none do not go together."""
    while True:
        words = [generator.choice(SIZES), generator.choice(TYPES), *generator.sample(FEATURES, generator.randint(1, 3))]
        try:
            return Problem.from_cli(" ".join(words))
        except ImpossibleProblem:
            continue


def check_every_change(problem: Problem, arch: str, asks: int) -> int:
    """The number of changes that were found, all of which work."""
    found = changes(problem, arch, asks)
    for change in found:
        assert serves(followed(problem, change), arch), f"{arch} {problem.repro()}: {change}"
    return len(found)


def refused(arch: str, count: int) -> list[Problem]:
    generator, out = random.Random(arch), []
    while len(out) < count:
        problem = drawn(generator)
        out += [problem] if not serves(problem, arch) else []
    return out


@pytest.mark.promise("The smallest change that `explain` names is the smallest, and works.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("arch", "count"), [("sm_86", 4), ("gfx942", 2)])
def test_every_printed_change_works(arch: str, count: int) -> None:
    found = [check_every_change(problem, arch, asks=20) for problem in refused(arch, count)]
    assert sum(map(bool, found)) >= count // 2


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950", "gfx1201", "generic"])
def test_every_printed_change_works_everywhere(arch: str) -> None:
    found = [check_every_change(problem, arch, asks=80) for problem in refused(arch, 60)]
    assert sum(map(bool, found)) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "gfx942", "generic"])
@settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(problem=problems())
def test_changes_of_any_problem_work(arch: str, problem: Problem) -> None:
    if not serves(problem, arch):
        check_every_change(problem, arch, asks=80)
