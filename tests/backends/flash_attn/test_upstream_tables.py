"""Upstream's compiled host code agrees with two of our tables: the existing kernels and the number of splits."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from fmha_cli.backends.flash_attn.catalogue import kernels
from fmha_cli.backends.flash_attn.situation import heuristic
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.traits import MAX_SPLITS
from fmha_cli.domain.arch import load_arch
from tests.support.referees.upstream_host.client import Host
from tests.support.referees.upstream_host.program import host_program

pytestmark = pytest.mark.slow
"""Upstream's host code takes a minute to compile. CI runs these tests in a separate stage."""

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")


@pytest.fixture(scope="module")
def host(shared_cache: Path) -> Host:
    return Host(host_program(shared_cache))


@pytest.mark.ci
def test_the_kernels_that_upstreams_launch_templates_instantiate(host: Host) -> None:
    """All of our kernels exist upstream, which has only two other sorts.

    ``Return_softmax`` kernels write the scores for upstream's own tests. Softcap kernels with the tiles of dropout are
    refused by ``flash_api.cpp`` before any launch.
    """
    theirs = host.kernels()
    ours = {UPSTREAM.template(kernel) for arch in ARCHS for kernel in kernels(load_arch(arch))}
    assert not ours - theirs
    more = Counter(_sort(text, ours) for text in theirs - ours)
    print(f"\n{len(ours)} template-ids of {len(theirs)}; upstream's others: {dict(more)}")
    assert set(more) == {"Return_softmax", "softcap with the traits of dropout"}
    assert len(ours) > 2000


def _sort(text: str, ours: set[str]) -> str:
    kernel, traits, words = re.fullmatch(r"(\w+)<(Flash_\w+<[^<>]+>), ([^<>]+)>", text).groups()  # type: ignore[union-attr]
    flags = words.split(", ")
    if kernel == "flash_fwd_kernel" and flags[-1] == "true":
        return "Return_softmax"
    softcap = flags[6]
    dropouts = any(known.startswith(f"{kernel}<{traits}, true") for known in ours)
    return "softcap with the traits of dropout" if softcap == "true" and dropouts else text


def splits_arguments(seed: int, count: int) -> list[tuple[int, int, int, int]]:
    """Blocks of rows, slots, blocks of keys and the maximum: small, odd and large values."""
    rng = Random(seed)
    sizes = (1, 8, 64, 512, 4096)
    return [
        (
            rng.randint(1, rng.choice(sizes)),
            2 * rng.randint(1, rng.choice((8, 108, 200))),
            rng.randint(0, rng.choice(sizes)),
            rng.choice((MAX_SPLITS, MAX_SPLITS, rng.randint(1, 256))),
        )
        for _ in range(count)
    ]


@pytest.mark.ci
def test_the_number_of_splits_is_upstreams(host: Host) -> None:
    arguments = splits_arguments(1, 12_000)
    theirs = host.heuristic(arguments)
    wrong = [(a, n, heuristic(*a)) for a, n in zip(arguments, theirs, strict=True) if n != heuristic(*a)]
    print(f"\nnum_splits_heuristic: {len(arguments)} arguments, {len(set(theirs))} answers, {len(wrong)} mismatches")
    assert not wrong, wrong[:10]
    assert len(set(theirs)) > 50


def test_many_numbers_of_splits(host: Host) -> None:
    arguments = splits_arguments(2, 200_000)
    assert [heuristic(*a) for a in arguments] == host.heuristic(arguments)
