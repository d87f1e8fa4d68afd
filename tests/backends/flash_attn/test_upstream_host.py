"""Upstream's host code, compiled and run on this machine, on which the comparisons are based."""

from __future__ import annotations

import ctypes
from pathlib import Path
from random import Random

import pytest

from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from tests.support.referees.upstream_host.calls import DEVICES
from tests.support.referees.upstream_host.client import Answer, Call, FakeTensor, Host
from tests.support.referees.upstream_host.program import host_program

pytestmark = [pytest.mark.slow, pytest.mark.ci]
"""Upstream's host code takes a minute to compile. CI runs these tests in a separate stage."""

A100, RTX3090 = DEVICES["sm_80"][0], DEVICES["sm_86"][2]


@pytest.fixture(scope="module")
def host(shared_cache: Path) -> Host:
    return Host(host_program(shared_cache))


def dense(address: int, *sizes: int, dtype: str = "fp16") -> FakeTensor:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(size * strides[-1])
    return FakeTensor(dtype, address, sizes, tuple(reversed(strides)))


def forward(**changes: object) -> Call:
    arguments = {
        "q": dense(1 << 20, 2, 300, 8, 128),
        "k": dense(2 << 20, 2, 300, 8, 128),
        "v": dense(3 << 20, 2, 300, 8, 128),
        "p_dropout": 0.0,
        "softmax_scale": 0.125,
        "is_causal": True,
        "window_size_left": -1,
        "window_size_right": -1,
        "softcap": 0.0,
        "return_softmax": False,
    }
    return Call("mha_fwd", arguments | changes, A100, seed=7, offset=9)  # type: ignore[arg-type]


def one(host: Host, call: Call) -> Answer:
    (answer,) = host.ask([call])
    return answer


def field(host: Host, params: bytes, name: str, way: str = "forward") -> int:
    offset, size = host.layout()[way][1][name]
    return int.from_bytes(params[offset : offset + size], "little")


def test_the_structs_are_laid_out_as_the_product_packs_them(host: Host) -> None:
    for way, block in (("forward", FaFwdParams), ("backward", FaBwdParams)):
        size, fields = host.layout()[way]
        ours = {name: (offset, size) for name, offset, size in host_layout(block)}
        assert fields == ours
        assert size == ctypes.sizeof(ctypes_structure(block))


def test_a_launch_is_recorded_with_its_template_and_parameters(host: Host) -> None:
    launch, combine = one(host, forward()).launches
    traits = "Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::half_t>"
    assert launch.kernel == f"flash_fwd_splitkv_kernel<{traits}, true, false, false, false, true, false, true, false>"
    assert combine.kernel == f"flash_fwd_splitkv_combine_kernel<{traits}, 4, 1, true>"
    assert (launch.grid, launch.block, launch.smem, launch.smem_allowed) == ((5, 2, 16), (128, 1, 1), 81920, 81920)
    assert (combine.grid, combine.smem) == ((1200, 1, 1), 0)
    assert field(host, launch.params, "k_ptr") == 2 << 20
    assert field(host, launch.params, "seqlen_k_rounded") == 384
    assert field(host, launch.params, "num_splits") == 2


def test_a_refusal_is_the_text_of_upstreams_check(host: Host) -> None:
    softcap = one(host, forward(softcap=15.0, p_dropout=0.5))
    assert (softcap.refused, softcap.launches) == ("Softcapping does not support dropout for now", ())
    assert one(host, forward(k=dense(4096, 2, 300, 3, 128))).refused.startswith("Number of heads in key/value")
    assert one(host, forward(v=dense(4096, 2, 299, 8, 128))).refused == (
        "v must have shape (batch_size, seqlen_k, num_heads_k, head_size)"
    )


def test_the_seed_comes_from_the_generator(host: Host) -> None:
    answer = one(host, forward(p_dropout=0.5))
    assert answer.events == ("philox 512",)  # batch * heads * 32
    assert field(host, answer.launches[0].params, "philox_args") == 7 + (9 << 64)


def test_memory_that_upstream_takes_has_a_place_and_a_shape(host: Host) -> None:
    answer = one(host, forward())
    lse, accumulated = answer.allocations[1], answer.allocations[4]
    assert (lse.sizes, lse.bytes) == ((2, 8, 300), 4 * 2 * 8 * 300)
    assert accumulated.sizes == (2, 2, 8, 300, 128)
    assert field(host, answer.launches[0].params, "oaccum_ptr") == accumulated.address


def test_the_tile_follows_the_described_device(host: Host) -> None:
    long = {name: dense(1 << 40, 8, 2048, 8, 128) for name in ("q", "k", "v")}
    here = one(host, forward(**long)).launches[0]
    there = one(host, Call("mha_fwd", forward(**long).arguments, RTX3090)).launches[0]
    assert here.kernel.startswith("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, ")
    assert there.kernel.startswith("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4, ")
    assert (here.smem, there.smem) == (65536, 49152)


def test_views_and_copies_follow_pytorchs_rules(host: Host) -> None:
    """With one query and four heads per group, the queries get other strides; only packed queries are copied."""
    call = forward(q=dense(1 << 20, 2, 1, 8, 128), k=dense(2 << 20, 2, 300, 2, 128), v=dense(3 << 20, 2, 300, 2, 128))
    launch = one(host, call).launches[0]
    names = ("q_ptr", "q_batch_stride", "q_row_stride", "q_head_stride", "seqlen_q", "h")
    assert [field(host, launch.params, name) for name in names] == [1 << 20, 1024, 128, 512, 4, 2]
    packed = {
        "q": dense(1 << 20, 3, 8, 128),
        "k": dense(2 << 20, 700, 2, 128),
        "v": dense(3 << 20, 700, 2, 128),
        "cu_seqlens_q": dense(4 << 20, 4, dtype="int32"),
        "cu_seqlens_k": dense(5 << 20, 4, dtype="int32"),
        "max_seqlen_q": 1,
        "max_seqlen_k": 400,
        "zero_tensors": False,
    }
    answer = one(host, Call("mha_varlen_fwd", call.arguments | packed, A100))
    assert answer.allocations[0].how == "copy"
    assert [field(host, answer.launches[0].params, name) for name in names] == [
        answer.allocations[0].address, 1024, 256, 128, 4, 2,
    ]  # fmt: skip


def test_the_number_of_splits_is_upstreams(host: Host) -> None:
    """Two hand-computed values: 48 blocks on 108 multiprocessors fill 96 of 108 in two parts."""
    assert host.heuristic([(48, 108, 16, 128), (200, 216, 64, 128)]) == [2, 1]


def test_random_calls_never_end_the_program(host: Host) -> None:
    rng = Random(1)
    dims = [8 * rng.randrange(1, 34) for _ in range(60)]
    calls = [forward(**{n: dense(4096, 1, rng.randrange(1, 500), 4, d) for n in ("q", "k", "v")}) for d in dims]
    for call, answer in zip(calls, host.ask(calls), strict=True):
        assert bool(answer.refused) != bool(answer.launches), call
