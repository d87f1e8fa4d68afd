"""What the host derives from a problem, at the borders of upstream's conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.backends.cuda.mask_bounds import Bounds
from fmha_cli.backends.flash_attn_3.heuristics import Sizes, num_splits_heuristic, should_pack_gqa
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation, kernel_hdims, normalise_window, situation_of
from fmha_cli.codegen.flash_attn_3.facts import Tile
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey

H100 = replace(DeviceFacts.of_arch("sm_90a"), id="cuda:0", units=132)
TILE = Tile(128, 128, True, True)


def situation(line: str) -> Fa3Situation:
    return situation_of(Problem.from_cli(f"--dtype bf16 {line}"), H100)


@pytest.mark.parametrize(
    ("bounds", "rows", "keys", "keeps", "left", "right", "mask"),
    [
        (Bounds(), 10, 20, False, 19, 9, MaskKey.NONE),
        (Bounds(-1, 0), 10, 20, False, 19, 0, MaskKey.CAUSAL),
        (Bounds(-1, 0), 1, 20, False, 19, 0, MaskKey.NONE),
        (Bounds(-1, 0), 1, 20, True, 19, 0, MaskKey.CAUSAL),
        (Bounds(19, 0), 10, 20, False, 19, 0, MaskKey.CAUSAL),
        (Bounds(18, 0), 10, 20, False, 18, 0, MaskKey.WINDOW),
        (Bounds(18, 9), 10, 20, False, 18, 9, MaskKey.WINDOW),
        (Bounds(19, 9), 10, 20, False, 19, 9, MaskKey.NONE),
        (Bounds(-1, 8), 10, 20, False, 19, 8, MaskKey.WINDOW),
        (Bounds(18, 0), 1, 20, False, 18, 0, MaskKey.WINDOW),
    ],
)
def test_windows_are_normalised(
    bounds: Bounds, rows: int, keys: int, keeps: bool, left: int, right: int, mask: MaskKey
) -> None:
    found = normalise_window(bounds, rows, keys, keeps_causal=keeps)
    assert (found.left, found.right, found.mask) == (left, right, mask)


def test_a_backward_pass_keeps_a_causal_mask_over_one_row() -> None:
    one = "-s 1 --seqlen-k 20 -d 64 --causal"
    assert situation(one).mask is MaskKey.NONE
    found = situation(f"{one} --direction bwd")
    assert (found.mask, found.window.right) == (MaskKey.CAUSAL, 0)


@pytest.mark.parametrize(("hdim", "hdim_v", "held"), [(64, 64, 64), (40, 72, 96), (192, 128, 192), (8, 200, 256)])
def test_a_backward_kernel_holds_the_larger_head_dim(hdim: int, hdim_v: int, held: int) -> None:
    assert situation(f"-s 9 -d {hdim} --hdim-v {hdim_v} --direction bwd").hdims == (held, held)


@pytest.mark.parametrize(
    ("hdim", "hdim_v", "size", "wanted"),
    [
        (64, 64, 2, (64, 64)),
        (64, 72, 2, (64, 256)),
        (64, 264, 2, (64, 512)),
        (64, 72, 1, (64, 64)),
        (72, 72, 2, (96, 96)),
        (136, 128, 2, (192, 128)),
        (136, 136, 2, (192, 192)),
        (256, 256, 1, (256, 256)),
        (264, 264, 2, None),
    ],
)
def test_the_kernels_head_dims(hdim: int, hdim_v: int, size: int, wanted: tuple[int, int] | None) -> None:
    assert kernel_hdims(hdim, hdim_v, size) == wanted


@pytest.mark.parametrize(("rows", "groups", "packs"), [(128, 8, False), (300, 2, True), (1, 8, True), (250, 8, False)])
def test_query_heads_are_packed_where_it_fills_tiles(rows: int, groups: int, packs: bool) -> None:
    assert should_pack_gqa(rows, groups, 128) is packs


def test_keys_are_split_on_a_device_that_is_not_full() -> None:
    sizes = Sizes(batch=1, rows=16, keys=8192, kv_heads=8, head_bytes=8192 * 512, multiprocessors=132)
    assert num_splits_heuristic(sizes, TILE, 8192, masked=False, most=128) == 15
    assert num_splits_heuristic(sizes, TILE, 512, masked=False, most=128) == 1  # four tiles
    full = replace(sizes, batch=14)
    assert num_splits_heuristic(full, TILE, 8192, masked=False, most=128) == 1


def test_one_head_that_the_cache_cannot_hold_is_split() -> None:
    sizes = Sizes(batch=1, rows=264 * 128, keys=1 << 18, kv_heads=8, head_bytes=(100 << 20) + 1, multiprocessors=132)
    assert num_splits_heuristic(sizes, TILE, 1 << 18, masked=False, most=128) == 3
    assert num_splits_heuristic(sizes, TILE, 1 << 18, masked=True, most=128) == 1
    assert num_splits_heuristic(replace(sizes, rows=263 * 128), TILE, 1 << 18, masked=False, most=128) == 1


def test_pages_of_whole_tiles_are_read_by_tma() -> None:
    long = "-H 8 --kv-heads 1 -s 64 -d 128 --cache-seqlens 4000"
    assert situation(f"{long} --kv-cache paged:176").paged_tma
    assert not situation(f"{long} --kv-cache paged:128").paged_tma
    assert situation(f"{long} --causal --kv-cache paged:128").paged_tma
    assert not situation("-H 1 --kv-heads 1 -s 64 -d 128 --cache-seqlens 4000 --kv-cache paged:176").paged_tma


def test_clusters_are_of_even_tiles() -> None:
    dense = "-H 2 --kv-heads 2 -d 128 --splits 1"
    assert situation(f"{dense} -s 256").cluster == 2
    assert situation(f"{dense} -s 300").cluster == 1
    assert situation(f"{dense} -s 256 --causal").cluster == 1
    assert situation("-H 2 --kv-heads 2 -d 64 --splits 1 -s 384").cluster == 1


def test_the_host_rounds_hdim_v_where_the_kernel_holds_more() -> None:
    s = situation("-H 8 --kv-heads 1 -s 20 -d 64 --hdim-v 128 --splits 1")
    assert s.tile == Tile(128, 96, True, False)
    assert s.hdims == (64, 256)
    assert s.pack_gqa  # by tiles of 192 rows: 20/192 and 160/192


def test_without_keys_nothing_is_launched() -> None:
    assert not situation("-H 2 -s 8 --seqlen-k 0 -d 64").launches
    assert situation("-H 2 -s 8 --seqlen-k 1 -d 64").launches
