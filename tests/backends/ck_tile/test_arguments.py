"""Argument blocks address the right arena elements: strides, packed starts, pages and broadcast axes, with gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.backends.ck_tile.arguments import block_of, compute_p_undrop
from fmha_cli.backends.ck_tile.auxiliary import auxiliaries_of
from fmha_cli.backends.ck_tile.quantisation import Scales, scales_of
from fmha_cli.backends.ck_tile.shapes import holdable
from fmha_cli.backends.ck_tile.workspaces import list_zeroed, workspaces_of
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm, Pipeline
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.features import Bias
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.signature import Need, Signature
from fmha_cli.run.layout import layout_of

ARENA, AUXILIARY = 1 << 40, 1 << 50
BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "int32": 4, "fp8_e4m3": 1}


def stage(family: Family, problem: Problem, *, deterministic: bool = False) -> Stage:
    """A stage of a family. Only the fields that the arguments depend on are realistic."""
    signature = replace(Signature.of(problem), deterministic=Need.of(deterministic))
    algorithm = CkAlgorithm(pipeline=Pipeline.BWD, tile=(32, 64, 32, 64, 32, 64))
    return Stage(KernelSpec(backend="ck_tile", family=family, arch="gfx942", signature=signature, algorithm=algorithm))


def bound(line: str, *families: Family, splits: int = 1, deterministic: bool = False) -> tuple[Call[Scales], list[Any]]:
    """The call of a plan in an arena with gaps, and its argument blocks."""
    p = Problem.from_cli(line)
    stages = tuple(stage(f, p, deterministic=deterministic) for f in families)
    plan = Plan(p, stages, workspaces_of(p, stages, splits), splits)
    tensors = layout_of(p, plan.workspaces, gaps=True).tensors
    places = {name: AUXILIARY + (i << 32) for i, name in enumerate(auxiliaries_of(plan, None))}
    call = Call(plan, scales_of(p, plan.main, {}), holdable(tensors), ARENA, places)
    return call, [block_of(s, call) for s in stages]


def at(tensor: BoundTensor, *index: int) -> int:
    """The device address of an element of the arena."""
    steps = zip(index, tensor.strides, strict=True)
    return ARENA + tensor.offset + sum(i * s for i, s in steps) * BYTES[tensor.dtype]


def axes(
    problem: Problem, b: int, h: int, i: int, d: int, lengths: Sequence[int], *, out: bool = False
) -> tuple[int, ...]:
    """The index of (sequence, head, row, element) in the tensor's axis order."""
    bhsd = (problem.layout_out if out else problem.layout).value == "bhsd"
    if problem.seqlens_q is None:
        return (b, h, i, d) if bhsd else (b, i, h, d)
    row = sum(lengths[:b]) + i
    return (h, row, d) if bhsd else (row, h, d)


def reached(block: Any, name: str, b: int, h: int, i: int, d: int, item: int, starts: Sequence[int] | None) -> int:
    """The address that the kernel computes. Group mode starts at a packed row, batch mode at a batch stride."""
    row, head, batch = (getattr(block, f"{p}stride_{name}") for p in ("", "nhead_", "batch_"))
    first = b * batch if starts is None else starts[b] * row
    return int(getattr(block, f"{name}_ptr") + (first + h * head + i * row + d) * item)


def starts_of(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths) + 1)]


SIZES = (
    "-b 3 -H 6 --kv-heads 2 -s 5 --seqlen-k 9 -d 24 --hdim-v 40",
    "--seqlens-q 4,0,7 --seqlens-k 2,5,6 -H 6 --kv-heads 3 -d 24 --hdim-v 40",
)
LAYOUTS = ("bhsd", "bshd", "bhsd:bshd", "bshd:bhsd")


@given(sizes=st.sampled_from(SIZES), layout=st.sampled_from(LAYOUTS), data=st.data())
def test_forward_tensors_are_found(sizes: str, layout: str, data: st.DataObject) -> None:
    call, (block,) = bound(f"{sizes} --layout {layout} --lse", Family.FWD)
    p, q_lengths, k_lengths = call.problem, call.problem.query_lengths(), call.problem.key_lengths()
    b = data.draw(st.sampled_from([n for n in range(p.batch) if q_lengths[n] and k_lengths[n]]))
    h = data.draw(st.integers(0, p.heads - 1))
    i, j = data.draw(st.integers(0, q_lengths[b] - 1)), data.draw(st.integers(0, k_lengths[b] - 1))
    packed = p.seqlens_q is not None
    q_starts, k_starts = (starts_of(n) if packed else None for n in (q_lengths, k_lengths))
    group = p.heads // p.kv_heads
    for name, head, row, lengths, starts in (
        ("q", h, i, q_lengths, q_starts),
        ("o", h, i, q_lengths, q_starts),
        ("k", h // group, j, k_lengths, k_starts),
        ("v", h // group, j, k_lengths, k_starts),
    ):
        index = axes(p, b, head, row, 3, lengths, out=name == "o")
        assert reached(block, name, b, head, row, 3, 2, starts) == at(call.tensors[name], *index), name
    lse = call.tensors["lse"]
    first = b * block.batch_stride_lse if q_starts is None else q_starts[b]
    index = (b, h, i) if q_starts is None else (h, q_starts[b] + i)
    assert block.lse_ptr + 4 * (first + h * block.nhead_stride_lse + i) == at(lse, *index)


def test_no_keys_have_an_address() -> None:
    """Kernels refuse a null pointer. They may read nothing at the address, because the neighbours' guards are there."""
    call, (block,) = bound("-s 33 --seqlen-k 0 -d 64 --causal", Family.FWD)
    for name in ("k", "v"):
        assert getattr(block, f"{name}_ptr") == ARENA + call.tensors[name].offset
    assert call.address("no such tensor") == 0


@pytest.mark.parametrize("rank", [rank.value for rank in Bias if rank is not Bias.NONE])
def test_bias_broadcasts(rank: str) -> None:
    call, (block,) = bound(f"-b 2 -H 3 -s 4 --seqlen-k 6 -d 64 --bias elementwise:{rank}", Family.FWD)
    bias = call.tensors["bias"]
    for b, h, i, j in np.ndindex(2, 3, 4, 6):
        index = (*(0 if letter == "1" else n for letter, n in zip(rank, (b, h, i), strict=False)), j)
        offset = b * block.batch_stride_bias + h * block.nhead_stride_bias + i * block.stride_bias + j
        assert block.bias_ptr + 2 * offset == at(bias, *index)


@pytest.mark.parametrize("line", ["--seqlens-q 3,5 --seqlens-k 6,4", "--seqlens-q 1,1,1 --seqlens-k 6,4,9"])
def test_packed_sequences_share_a_bias_without_rows(line: str) -> None:
    """The kernels step by packed query rows from one sequence's bias to the next: a step of 0 stays in the plane."""
    _, (block,) = bound(f"{line} -H 3 -d 64 --bias elementwise:1h1s", Family.FWD)
    assert (block.stride_bias, block.batch_stride_bias, block.nhead_stride_bias > 0) == (0, 0, True)


def test_keys_in_pages() -> None:
    line = "-b 2 -H 4 --kv-heads 2 -s 4 -d 64 --kv-cache paged:128 --cache-seqlens 300,5"
    call, (block, _) = bound(line, Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE, splits=3)
    k, table = call.tensors["k"], call.tensors["block_table"]
    assert block.block_table_ptr == at(table, 0, 0)
    assert block.block_table_ptr + 4 * block.batch_stride_block_table == at(table, 1, 0)
    for page, row, head in ((0, 0, 0), (3, 127, 1), (2, 5, 0)):
        offset = page * block.batch_stride_k + row * block.stride_k + head * block.nhead_stride_k
        assert block.k_ptr + 2 * offset == at(k, page, row, head, 0)
    assert (block.page_block_size, block.is_gappy) == (128, 0)


def test_prefill_takes_pages_for_rows() -> None:
    line = "--seqlens-q 3,2 -H 4 --kv-heads 2 -d 128 --kv-cache paged:1 --cache-seqlens 4,2 --causal"
    call, (block,) = bound(line, Family.BATCH_PREFILL)
    k = call.tensors["k"]
    assert block.num_total_pages == k.shape[0]
    for page, head in ((0, 1), (5, 0)):
        assert block.k_ptr + 2 * (page * block.stride_k + head * block.nhead_stride_k) == at(k, page, 0, head, 0)


@pytest.mark.parametrize("sizes", SIZES)
def test_partial_results_do_not_overlap(sizes: str) -> None:
    call, (block, combine) = bound(sizes, Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE, splits=4)
    p = call.problem
    rows, batches = (11, 1) if p.seqlens_q is not None else (5, 3)
    seen = {
        b * block.batch_stride_o_acc
        + h * block.nhead_stride_o_acc
        + s * block.split_stride_o_acc
        + i * block.stride_o_acc
        for b, h, s, i in np.ndindex(batches, p.heads, 4, rows)
    }
    assert len(seen) == batches * p.heads * 4 * rows
    assert max(seen) + p.hdim_v == prod((batches, p.heads, 4, rows, p.hdim_v)) == call.tensors["o_acc"].shape[0] // 4
    assert block == combine


BACKWARD = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_are_found(sizes: str, layout: str) -> None:
    call, blocks = bound(f"{sizes} --layout {layout} --direction bwd --dtype bf16", *BACKWARD, deterministic=True)
    p, block = call.problem, blocks[1]
    assert blocks[0] == block == blocks[2]
    q_lengths, k_lengths = p.query_lengths(), p.key_lengths()
    packed = p.seqlens_q is not None
    q_starts, k_starts = (starts_of(n) if packed else None for n in (q_lengths, k_lengths))
    for b, h in np.ndindex(p.batch, p.heads):
        if not q_lengths[b] or not k_lengths[b]:
            continue
        for name in ("dq", "do"):
            index = axes(p, b, h, q_lengths[b] - 1, 1, q_lengths, out=name == "do")
            assert reached(block, name, b, h, q_lengths[b] - 1, 1, 2, q_starts) == at(call.tensors[name], *index)
    spans = {"dk": p.hdim, "dv": p.hdim_v}
    for name, dim in spans.items():
        heads = call.tensors[f"{name}_heads"]
        ends = [
            reached(block, name, b, h, k_lengths[b] - 1, dim, 2, k_starts) - ARENA - heads.offset
            for b, h in np.ndindex(p.batch, p.heads)
            if k_lengths[b]
        ]
        assert max(ends) == heads.shape[0]
        assert min(ends) > 0
    parts = -(-p.seqlen_k // 64)
    assert block.split_stride_dq_acc * parts * 4 == call.tensors["dq_acc"].shape[0]
    lse, d = call.tensors["lse"], call.tensors["d"]
    last = (p.batch - 1) * block.batch_stride_lsed + (p.heads - 1) * block.nhead_stride_lsed + lse.shape[-1]
    assert 4 * last <= d.shape[0]


def test_a_single_sequence_may_be_larger_than_an_index() -> None:
    """The kernels' strides have 32 bits; the stride of an axis of length 1 is never used."""
    _, (block,) = bound("-b 1 -H 64 -s 1m --seqlen-k 1k -d 128", Family.FWD)
    assert block.batch_stride_q == 0
    assert 64 * 2**20 * 128 <= block.nhead_stride_q * 64 < 2**40
    _, (block,) = bound("-b 2 -H 64 -s 1m --seqlen-k 1k -d 128", Family.FWD)
    assert block.batch_stride_q >= 64 * 2**20 * 128


def test_masks_of_the_kernels() -> None:
    for text, wanted in (
        ("none", (-1, -1, 0)),
        ("causal", (-1, 0, 2)),
        ("causal-tl", (-1, 0, 1)),
        ("window:5,-1", (5, -1, 2)),
        ("window-tl:0,7", (0, 7, 1)),
    ):
        _, (block,) = bound(f"-s 8 -d 64 --mask {text}", Family.FWD)
        assert (block.window_size_left, block.window_size_right, block.mask_type) == wanted, text
    with pytest.raises(InternalError):
        bound("-s 8 -d 64 --mask generic:0,4", Family.FWD)


def test_probabilities_in_single_precision() -> None:
    assert compute_p_undrop(0.0) == 1.0
    assert compute_p_undrop(0.1) == float(np.float32(1.0 - float(np.float32(0.1))))


def cases() -> Iterator[tuple[str, bool, set[str]]]:
    yield "-b 2 -s 8 -d 64 --direction bwd", False, {"dq_acc"}
    yield "-b 2 -s 8 -d 64 --direction bwd --deterministic", True, set()
    yield "-b 2 -s 8 -d 64 --direction bwd --causal", True, {"dq_acc", "dbias"}
    yield (
        "--seqlens-q 8,0 --seqlens-k 8,8 -d 64 --direction bwd",
        False,
        {"dq_acc", "dbias", "dk", "dv", "dq", "dk_heads", "dv_heads"},
    )


@pytest.mark.parametrize(("line", "deterministic", "wanted"), tuple(cases()))
def test_what_must_be_zero(line: str, deterministic: bool, wanted: set[str]) -> None:
    call, _ = bound(line, *BACKWARD, deterministic=deterministic)
    assert set(list_zeroed(call.plan)) == wanted
    forward, _ = bound("-s 8 -d 64", Family.FWD)
    assert list_zeroed(forward.plan) == ()
