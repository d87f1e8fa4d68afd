"""The number of splits agrees with exact fractions and with a second transcription of upstream's formula."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.splits import MAX_SPLITS, keys_per_tile, log2_max_splits, splits_for
from fmha_cli.backends.gpu.arithmetic import split_heuristic
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.errors import EmptySelection
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Catalogued
from tests.support.referees.ck_tile.upstream import split_count


def heuristic(blocks: int, slots: int, most: int) -> int:
    return split_heuristic(blocks, slots, range(1, min(most, slots) + 1))


def exact(blocks: int, slots: int, most: int) -> int:
    """The heuristic in rational arithmetic."""
    if Fraction(blocks) >= Fraction(4, 5) * slots:
        return 1
    share = {k: Fraction(blocks * k, slots) / -(-(blocks * k) // slots) for k in range(1, min(most, slots) + 1)}
    return min(k for k, value in share.items() if value >= Fraction(17, 20) * max(share.values()))


@pytest.mark.parametrize(
    ("blocks", "slots", "count"),
    [
        (8, 608, 65),  # 65 * 8 / 608 = 0.855, and 76 splits would fill the device
        (128, 608, 9),  # 4 splits reach 0.842
        (487, 608, 1),  # 80 % of the slots
        (486, 608, 5),  # 3.997 waves of 4
        (1, 608, 109),  # 128 splits reach 0.2105, 109 are 85 % of that
        (64, 208, 3),
        (1, 2, 2),
        (1, 1, 1),
        (0, 608, 1),
    ],
)
def test_known_counts(blocks: int, slots: int, count: int) -> None:
    assert heuristic(blocks, slots, MAX_SPLITS) == count


@pytest.mark.slow
@pytest.mark.ci
def test_the_heuristic_is_the_exact_one_but_for_rounding() -> None:
    rng = Random(3)
    differing = []
    for _ in range(400):
        blocks, slots = rng.randrange(1, 700), 2 * rng.choice([32, 64, 80, 104, 256, 304])
        if heuristic(blocks, slots, MAX_SPLITS) != exact(blocks, slots, MAX_SPLITS):
            differing.append((blocks, slots))
    assert len(differing) <= 2, differing  # single precision decides where a share equals 0.85 of the best to 7 digits


def test_the_heuristic_is_upstreams() -> None:
    for heads in range(1, 65):
        for rows in (1, 64, 65, 1000, 4096):
            problem = Problem.of(heads=heads, seqlen=rows, batch=1 + heads % 3)
            for units in (32, 80, 104, 256, 304):
                assert splits_for(problem, units).count == split_count(problem, units), (heads, rows, units)


@pytest.mark.parametrize(
    ("flags", "units", "count", "heuristic"),
    [
        ({"heads": 1, "seqlen": 128, "hdim": 64}, 304, 2, 109),
        ({"heads": 1, "seqlen": 128, "hdim": 128}, 304, 1, 109),
        ({"heads": 8, "seqlen": 1024, "hdim": 72, "causal": True}, 256, 4, None),  # the README's line
        ({"heads": 8, "seqlen": 1024}, 304, 8, 9),
        ({"heads": 8, "seqlen": 1, "seqlen_k": 4096}, 304, 32, 65),
        ({"heads": 8, "seqlen": 1, "seqlen_k": 1}, 304, 1, 65),
        ({"heads": 1, "seqlens_q": "1,2", "seqlens_k": "100,700", "hdim": 64}, 304, 11, 109),
    ],
)
def test_auto_takes_no_more_splits_than_there_are_tiles_of_keys(
    flags: dict[str, Any], units: int, count: int, heuristic: int | None
) -> None:
    splits = splits_for(Problem.of(**flags), units)
    assert splits.count == count
    assert (heuristic is None) == ("would take" not in splits.why)
    assert heuristic is None or f"would take {heuristic}, more than the {count} tile" in splits.why
    assert (count > 1) == ("its own program takes 1 by default (--splits 1)" in splits.why)


def test_no_split_kv_kernel_has_larger_tiles_of_keys() -> None:
    registry = build_registry()
    backend = registry.backend("ck_tile")
    assert isinstance(backend, Catalogued)
    held = set()
    for arch in backend.archs():
        for revision in backend.revisions():
            with suppress(EmptySelection):
                for kernel in backend.catalogue(registry.arch(arch), None, revision, [Family.FWD_SPLITKV]):
                    held.add((kernel.signature.hdim <= 64, algorithm_of(kernel).tile[1]))
    assert max(keys for small, keys in held if small) == keys_per_tile(Problem.of(hdim=64)) == 64
    assert max(keys for small, keys in held if not small) == keys_per_tile(Problem.of(hdim=72)) == 128


def test_given_counts_and_dropout() -> None:
    assert splits_for(Problem.of(splits=7, seqlen=16), 304).count == 7
    assert splits_for(Problem.of(dropout=0.1, seqlen=16), 304).count == 1
    assert "512 blocks" in splits_for(Problem.of(heads=32, seqlen=1024), 304).why


@pytest.mark.parametrize(
    ("count", "log2"), [(1, 3), (8, 3), (9, 4), (16, 4), (17, 5), (32, 5), (64, 6), (65, 7), (128, 7), (129, None)]
)
def test_instances_of_the_combine_kernel(count: int, log2: int | None) -> None:
    assert log2_max_splits(count) == log2
