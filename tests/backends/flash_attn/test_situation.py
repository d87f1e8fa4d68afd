"""The values that upstream's host derives from a problem, line by line of ``flash_api.cpp``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.backends.cuda.mask_bounds import Bounds, bounds_of
from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.mask_bounds import Clipped, clip_bounds
from fmha_cli.backends.flash_attn.problem_rules import CONDITIONS
from fmha_cli.backends.flash_attn.situation import FlashApi, FlashSituation, KeyLengths, situation_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey
from tests.support.generators.strategies import problems

H200 = DeviceFacts(id="cuda:0", archs=("sm_90a", "sm_90"), units=132)


KERNEL = family_kernels(load_arch("sm_90"), Family.FWD)[0]
CLIPPING = next(condition for condition in CONDITIONS if condition.id == "K446")


def of(line: str) -> FlashSituation:
    return situation_of(Problem.from_cli(line), H200)


@pytest.mark.parametrize(
    ("line", "api", "lengths", "packed"),
    [
        ("", FlashApi.FWD, KeyLengths.COMMON, False),
        ("--splits 4", FlashApi.KVCACHE, KeyLengths.COMMON, False),
        ("--splits 1 --dropout 0.5", FlashApi.FWD, KeyLengths.COMMON, False),
        ("--seqlens-q 3,4", FlashApi.VARLEN_FWD, KeyLengths.STARTS, True),
        ("--seqlens-q 1,1 --kv-heads 2", FlashApi.VARLEN_FWD, KeyLengths.STARTS, False),
        ("--kv-cache linear", FlashApi.KVCACHE, KeyLengths.LENGTHS, False),
        ("--kv-cache paged:256", FlashApi.KVCACHE, KeyLengths.LENGTHS, False),
        ("--kv-cache paged:256 --seqlens-q 3,4", FlashApi.VARLEN_FWD, KeyLengths.STARTS, True),
        ("--kv-cache linear --seqlens-q 3,4", FlashApi.VARLEN_FWD, KeyLengths.LENGTHS, True),
        ("--direction bwd", FlashApi.BWD, KeyLengths.COMMON, False),
        ("--direction bwd --seqlens-q 3,4", FlashApi.VARLEN_BWD, KeyLengths.STARTS, True),
    ],
)
def test_which_api(line: str, api: FlashApi, lengths: KeyLengths, packed: bool) -> None:
    s = of(line)
    assert (s.api, s.key_lengths, s.packed_q) == (api, lengths, packed)


@pytest.mark.parametrize(
    ("line", "swapped"),
    [
        ("-s 1 --kv-heads 2", True),
        ("-s 1 --kv-heads 2 --causal", True),
        ("-s 1 --kv-heads 8", False),
        ("-s 2 --kv-heads 2", False),
        ("-s 1 --kv-heads 2 --dropout 0.1", False),
        ("-s 1 --kv-heads 2 --alibi", False),
        ("-s 1 --kv-heads 2 --causal --alibi", False),
        ("-s 1 --kv-heads 2 --direction bwd", False),
        # mha_fwd clips a window before it checks for one, the others after
        ("-s 1 --kv-heads 2 --seqlen-k 9 --mask window:9,9", True),
        ("-s 1 --kv-heads 2 --seqlen-k 9 --mask window:8,9", False),
        ("-s 1 --kv-heads 2 --seqlen-k 9 --mask window:9,9 --splits 1", False),
        ("-s 1 --kv-heads 2 --kv-cache linear --cache-seqlens 9 --mask window:9,9", False),
        ("-s 1 --kv-heads 2 --kv-cache linear --cache-seqlens 9 --causal", True),
        ("--seqlens-q 1,1 --seqlens-k 9,9 --kv-heads 2 --mask window:9,9", False),
        ("--seqlens-q 1,1 --seqlens-k 9,9 --kv-heads 2 --causal", True),
        ("--seqlens-q 1,0 --seqlens-k 9,9 --kv-heads 2", False),
        ("--seqlens-q 1,2 --seqlens-k 9,9 --kv-heads 2", False),
        ("--seqlens-q 1,1 --kv-heads 2 --kv-cache paged:256", True),
    ],
)
def test_groups_become_rows(line: str, swapped: bool) -> None:
    s = of(line)
    assert s.swapped is swapped
    p = s.problem
    rows = 4 if swapped else p.seqlen_q
    assert (s.heads, s.seqlen_q) == ((2, rows) if swapped else (p.heads, rows))
    assert s.groups == p.heads // p.kv_heads
    if s.api.varlen:
        assert s.total_q == sum(p.query_lengths()) * (4 if swapped else 1)


@pytest.mark.parametrize(
    ("line", "left", "right", "is_causal", "key"),
    [
        ("-s 8", -1, -1, False, MaskKey.NONE),
        ("-s 8 --causal", 8, 0, True, MaskKey.CAUSAL),
        ("-s 8 --seqlen-k 20 --causal", 20, 0, True, MaskKey.CAUSAL),
        ("-s 1 --seqlen-k 20 --causal", -1, -1, False, MaskKey.NONE),
        ("-s 1 --seqlen-k 20 --causal --alibi", 20, 0, True, MaskKey.CAUSAL),
        ("-s 1 --seqlen-k 20 --causal --direction bwd", 20, 0, True, MaskKey.CAUSAL),
        ("-s 1 --seqlen-k 20 --mask window:5,0", 5, 0, False, MaskKey.WINDOW),
        ("-s 8 --mask window:3,2", 3, 2, False, MaskKey.WINDOW),
        ("-s 8 --mask window:3,-1", 3, 8, False, MaskKey.WINDOW),
        ("-s 8 --mask window:-1,3", 8, 3, False, MaskKey.WINDOW),
        ("-s 8 --mask window:8,3", 8, 3, False, MaskKey.WINDOW),
        ("-s 8 --mask window:7,8", 7, 8, False, MaskKey.WINDOW),
        ("-s 8 --mask window:8,0", 8, 0, True, MaskKey.CAUSAL),
        ("-s 8 --mask window:8,8", -1, -1, False, MaskKey.NONE),
        ("-s 8 --mask window:0,0", 0, 0, False, MaskKey.WINDOW),
        ("-s 8 --seqlen-k 0 --causal", -1, -1, False, MaskKey.NONE),
        # windows over a cache are clipped to its capacity
        ("-s 8 --kv-cache paged:256 --cache-seqlens 20 --mask window:99,0", 99, 0, False, MaskKey.WINDOW),
        ("-s 8 --kv-cache paged:256 --cache-seqlens 20 --mask window:256,0", 256, 0, True, MaskKey.CAUSAL),
        ("-s 8 --kv-cache linear --cache-seqlens 20 --append 4 --mask window:23,0", 23, 0, False, MaskKey.WINDOW),
        ("-s 8 --kv-cache linear --cache-seqlens 20 --append 4 --mask window:24,0", 24, 0, True, MaskKey.CAUSAL),
        # top-left alignment
        ("-s 8 --seqlen-k 5 --mask causal-tl", 5, 3, False, MaskKey.WINDOW),
        ("-s 8 --mask causal-tl", 8, 0, True, MaskKey.CAUSAL),
        ("-s 8 --seqlen-k 10 --mask window-tl:1,4", 3, 2, False, MaskKey.WINDOW),
    ],
)  # fmt: skip
def test_the_mask_that_reaches_the_kernels(line: str, left: int, right: int, is_causal: bool, key: MaskKey) -> None:
    s = of(line)
    assert s.mask == Clipped(left, right, is_causal)
    assert s.mask_key is key


@given(left=st.integers(-1, 30), right=st.integers(-1, 30), seqlen_k=st.integers(0, 25), one_row=st.booleans())
def test_clipping_is_upstreams_own(left: int, right: int, seqlen_k: int, one_row: bool) -> None:
    """The result equals that of ``mha_varlen_fwd`` and ``set_params_fprop``, statement by statement."""
    causal = (left, right) == (-1, 0)
    window_left, window_right, is_causal = left, (-1 if causal else right), causal
    if one_row:
        is_causal = False
    if is_causal:
        window_right = 0
    if window_left >= seqlen_k:
        window_left = -1
    if window_right >= seqlen_k:
        window_right = -1
    is_causal = window_left < 0 and window_right == 0
    if window_left < 0 and window_right >= 0:
        window_left = seqlen_k
    if window_left >= 0 and window_right < 0:
        window_right = seqlen_k
    found = clip_bounds(Bounds(left, right), seqlen_k, drop_causal=one_row and causal)
    assert found == Clipped(window_left, window_right, is_causal)


@settings(max_examples=300)
@given(problem=problems())
@pytest.mark.slow
@pytest.mark.ci
def test_bounds_say_the_same_as_the_mask(problem: Problem) -> None:
    """If a mask has bottom-right bounds, they show every row the same keys as the mask."""
    bounds = bounds_of(problem)
    if bounds is None:
        return
    for q, k in set(zip(problem.query_lengths(), problem.key_lengths(), strict=True)):
        for i in {0, q // 2, q - 1} if q else ():
            for j in {0, k // 2, k - 1} if k else ():
                shift = i + k - q
                seen = (bounds.left < 0 or j >= shift - bounds.left) and (bounds.right < 0 or j <= shift + bounds.right)
                assert seen == problem.mask.visible(i, j, q, k), (problem.repro(), i, j)


@settings(max_examples=300)
@given(problem=problems())
@pytest.mark.slow
@pytest.mark.ci
def test_clipped_bounds_say_the_same_as_the_mask(problem: Problem) -> None:
    """Clipped bounds agree with the mask unless K446 applies."""
    s = situation_of(problem, H200)
    if s.given is None or CLIPPING.rule(situation_of).check(problem, KERNEL, H200):
        return
    left, right = s.mask.left, s.mask.right
    for q, k in set(zip(problem.query_lengths(), problem.key_lengths(), strict=True)):
        for i in range(q):
            for j in {0, k // 2, k - 1} if k else ():
                shift = i + k - q
                seen = (left < 0 or j >= shift - left) and (right < 0 or j <= shift + right)
                assert seen == problem.mask.visible(i, j, q, k), (problem.repro(), i, j)


def test_sizes() -> None:
    s = of("-b 2 -s 129 --seqlen-k 300 -d 72")
    assert (s.seqlen_q_rounded, s.seqlen_k_rounded, s.hdim_rounded, s.bucket, s.fills_bucket) == (
        256,
        384,
        96,
        96,
        False,
    )
    assert [of(f"-d {d}").hdim_rounded for d in (8, 32, 40, 128, 136, 192, 200, 256)] == [
        32, 32, 64, 128, 192, 192, 256, 256,
    ]  # fmt: skip
    assert all(of(f"-d {d}").hdim_rounded == of(f"-d {d}").bucket for d in range(8, 257, 8))
    assert of("-d 264").bucket is None


def test_even_lengths() -> None:
    s = of("-s 128 --seqlen-k 192")
    assert s.fills_tiles(128, 64)
    assert not s.fills_tiles(128, 128)
    assert not s.fills_tiles(256, 64)
    assert not of("--seqlens-q 128,128").fills_tiles(64, 64)
    assert not of("-s 128 --kv-cache linear --cache-seqlens 128").fills_tiles(64, 64)
    assert of("-s 128 --seqlen-k 128 --splits 2").fills_tiles(64, 64)
    assert of("-s 1 --seqlen-k 128 -H 64 --kv-heads 1").fills_tiles(64, 64), "the 64 heads of the group are its rows"


def test_capacity_of_a_cache() -> None:
    assert of("-s 1 --kv-cache linear --cache-seqlens 7,30 -b 2 --append 2").seqlen_k == 32
    assert of("-s 1 --kv-cache linear --cache-seqlens 7,30 -b 2 --cache-leftpad 9,1").seqlen_k == 31
    assert of("-s 1 --kv-cache paged:256 --cache-seqlens 7,257 -b 2").seqlen_k == 512
    assert of("-s 1 --kv-cache paged:256 --cache-seqlens 0").seqlen_k == 256
    assert of("--seqlens-q 1,1 --kv-cache paged:256 --cache-seqlens 7,257").seqlen_k == 257


@pytest.mark.parametrize(
    ("line", "launches"),
    [
        ("-s 8", True),
        ("-s 8 --seqlen-k 0", False),
        ("-s 8 --seqlen-k 0 --splits 1", False),
        ("-s 8 --seqlen-k 0 --splits 2", True),
        ("--seqlens-q 3,4 --seqlens-k 0,0", False),
        ("-s 8 --kv-cache linear --cache-seqlens 0", True),
        ("--seqlens-q 0,0 --seqlens-k 3,4 --direction bwd", False),
        ("--seqlens-q 0,1 --seqlens-k 3,4 --direction bwd", True),
    ],
)
def test_whether_kernels_run_at_all(line: str, launches: bool) -> None:
    assert of(line).launches is launches


def test_parts_of_a_deterministic_pass() -> None:
    assert of("--direction bwd").dq_parts == 1
    assert of("--direction bwd --deterministic -b 1 -H 8").dq_parts == 17
    assert of("--direction bwd --deterministic -b 4 -H 64").dq_parts == 1
    assert of("--direction bwd --deterministic -b 1 -H 132").dq_parts == 1
    assert of("--direction bwd --deterministic -b 1 -H 131").dq_parts == 2


def counted(device: DeviceFacts) -> tuple[int, str]:
    s = situation_of(Problem.from_cli("-s 64"), device)
    return s.multiprocessors, s.counted


def test_multiprocessors() -> None:
    assert counted(H200) == (132, "132 multiprocessors of cuda:0")
    count, why = counted(DeviceFacts.of_arch("sm_90"))
    assert (count, "H200" in why) == (132, True)
    assert counted(DeviceFacts.of_arch("sm_86"))[0] == 84
    assert counted(DeviceFacts(id="none", archs=()))[0] == 1
    assert counted(replace(H200, units=1))[0] == 132


@settings(max_examples=150)
@given(problem=problems())
@pytest.mark.slow
@pytest.mark.ci
def test_any_problem_has_a_situation(problem: Problem) -> None:
    s = situation_of(problem, H200)
    assert s.heads * s.seqlen_q == problem.heads * problem.seqlen_q
    assert s.seqlen_k >= problem.seqlen_k
    assert s.splits.count >= 1
    assert not s.causal_dropped or problem.seqlen_q == 1 or s.seqlen_k == 0


@settings(max_examples=300)
@given(
    q=st.integers(1, 12), k=st.integers(1, 12), left=st.integers(-1, 14), right=st.integers(-1, 14), pages=st.booleans()
)
def test_clipping_is_refused_exactly_where_it_changes_the_mask(
    q: int, k: int, left: int, right: int, pages: bool
) -> None:
    cache = f" --kv-cache paged:256 --cache-seqlens {k}" if pages else f" --seqlen-k {k}"
    problem = Problem.from_cli(f"-s {q} --mask window:{left},{right}{cache}")
    s = situation_of(problem, H200)
    changed = [
        (i, j)
        for i in range(q)
        for j in range(k)
        if ((s.mask.left < 0 or j >= i + k - q - s.mask.left) and (s.mask.right < 0 or j <= i + k - q + s.mask.right))
        != problem.mask.visible(i, j, q, k)
    ]
    assert (CLIPPING.rule(situation_of).check(problem, KERNEL, H200) is not None) == bool(changed), changed
