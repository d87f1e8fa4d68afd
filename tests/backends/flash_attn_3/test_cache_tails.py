"""Rows of V behind the keys of a cache are zeros on the device, and come back afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.backends.flash_attn_3.plan import plan_of
from fmha_cli.backends.flash_attn_3.scratch import KEPT, tails_of
from fmha_cli.backends.flash_attn_3.situation import situation_of
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.run.layout import layout_of

H100 = replace(DeviceFacts.of_arch("sm_90a"), id="cuda:0", units=132)
SHAPE = "-b 2 -H 2 --kv-heads 2 -s 130 -d 128 --dtype bf16 --causal --splits 1"
LINEAR = f"{SHAPE} --kv-cache linear --cache-seqlens 300,77"
PAGED = f"{SHAPE} --kv-cache paged:128 --cache-seqlens 300,77"


def bound(line: str) -> tuple[Call[Any], Bytes]:
    """A binding whose arena holds 7 in every element of V, and the table 0, 1, ... for pages."""
    problem = Problem.from_cli(line)
    main = min((d for d in decide(problem, H100) if isinstance(d, Supported)), key=lambda d: d.rank).kernel
    plan = plan_of(problem, main, H100)
    laid = layout_of(problem, plan.workspaces, gaps=True)
    ends = (tensor.offset + 4 * int(np.prod(tensor.shape)) * 4 for tensor in laid.tensors.values())
    arena = np.zeros(max(ends), np.uint8)
    call = Call(plan, situation_of(problem, H100), laid.tensors, 0, {})
    if "v" in call.tensors:
        view(arena, call.tensor("v"))[...] = 7
    if problem.paged:
        table = view(arena, call.tensor("block_table"))
        table[...] = np.arange(table.size).reshape(table.shape)
    return call, arena


def v_of(call: Call[Any], arena: Bytes) -> Array:
    return np.array(view(arena, call.tensor("v")), np.float32)


@pytest.mark.parametrize(
    ("line", "tails"),
    [
        (LINEAR, [range(300, 300), range(77, 128)]),  # the cache has 300 rows
        (f"{LINEAR} --cache-leftpad 5,40", [range(305, 305), range(117, 168)]),
        (f"{LINEAR} --append 9 -s 9", [range(309, 309), range(86, 128)]),
        (PAGED, [range(300, 384), range(77, 128)]),
        (f"{SHAPE} --kv-cache paged:64 --cache-seqlens 300,77", []),  # by cp.async
        (f"{SHAPE} --kv-cache linear --cache-seqlens 256,128", [range(256, 256), range(128, 128)]),
        (SHAPE, []),
        ("--seqlens-q 70,1 --seqlens-k 500,300 -H 2 -d 128 --dtype bf16", []),  # the next sequence's rows
    ],
)
def test_the_rows_that_a_last_tile_holds_besides_keys(line: str, tails: list[range]) -> None:
    call, _ = bound(line)
    assert tails_of(call.situation, call.plan.main) == tails
    assert (KEPT in {workspace.name for workspace in call.plan.workspaces}) is any(map(len, tails))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_they_are_zeros_on_the_device_and_come_back(layout: str) -> None:
    call, arena = bound(f"{LINEAR} --layout {layout}")
    UPSTREAM.before_upload(call, arena)
    found = v_of(call, arena) if layout == "bshd" else v_of(call, arena).swapaxes(1, 2)
    assert (found[1, 77:128] == 0).all()
    assert (found[1, :77] == 7).all()
    assert (found[1, 128:] == 7).all()
    assert (found[0] == 7).all()
    UPSTREAM.after_download(call, arena)
    assert (v_of(call, arena) == 7).all()


def test_rows_of_a_shared_page_that_another_sequence_sees_stay() -> None:
    call, arena = bound(PAGED)
    view(arena, call.tensor("block_table"))[1, 0] = 2  # the last page of the first sequence: 44 keys
    UPSTREAM.before_upload(call, arena)
    found = v_of(call, arena)
    assert (found[2, :77] == 7).all()
    assert (found[2, 77:] == 0).all()
    UPSTREAM.after_download(call, arena)
    assert (v_of(call, arena) == 7).all()


@pytest.mark.parametrize("cache", ["linear", "paged:64"])
def test_of_v_inside_k_the_first_columns_are_zeros(cache: str) -> None:
    """K's further columns stay: their scores are masked. With 128 heads the rows fill more than a tile, so TMA reads the pages."""
    line = f"-b 2 -H 128 --kv-heads 1 -s 1 -d 576 --mla-rope 64 --dtype bf16 --splits 1 --kv-cache {cache}"
    call, arena = bound(f"{line} --cache-seqlens 300,77 --layout bshd")
    view(arena, call.tensor("k"))[...] = 7
    places = np.array([1]) if cache == "linear" else view(arena, call.tensor("block_table"))[1, :2]
    UPSTREAM.before_upload(call, arena)
    rows = np.array(view(arena, call.tensor("k")), np.float32)[places].reshape(-1, 576)
    assert (rows[77:128, :512] == 0).all()
    assert (rows[:77] == 7).all()
    assert (rows[77:128, 512:] == 7).all()
    assert (rows[128:] == 7).all()
    UPSTREAM.after_download(call, arena)
    assert (view(arena, call.tensor("k")) == 7).all()
