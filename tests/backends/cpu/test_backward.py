"""Gradients of every backward kernel that runs on this machine, on seeded random problems over the whole surface."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.codegen.abi import BACKWARD_ENTRY, EntryStatus, FmhaCpuBwdArgs
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.verdict import Verdict
from tests.support.generators.cpu.backward_cases import (
    BEST,
    DTYPES,
    KERNELS,
    BackwardCase,
    backward_arguments,
    backward_complaints,
    make_backward,
    random_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import Load

COMMON, MANY = 6, 200
LONG = BackwardCase("fp32", q_len=(150,), k_len=(900,), capacity=900, hdim=40, hdim_v=24, right=0)


def check(load: Load, arch: str, dtype: str, seeds: range) -> None:
    library = load(arch, dtype, "backward")
    for seed in seeds:
        rng = np.random.default_rng([seed, len(dtype)])
        case = random_backward(rng, dtype)
        make_backward(case, rng)
        run_backward(library, case)
        assert backward_complaints(case) == [], f"seed {seed}: {case}"


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_sample(load: Load, arch: str, dtype: str) -> None:
    check(load, arch, dtype, range(COMMON))


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "dtype"), KERNELS)
def test_many(load: Load, arch: str, dtype: str) -> None:
    check(load, arch, dtype, range(1000, 1000 + MANY))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "change",
    [
        {"left": 300, "right": 10},
        {"left": 100, "sink": 500, "heads": 4},
        {"softcap": 5.0, "alibi": 1, "with_lse": False},
        {"bias": (1, 1), "dbias": True, "heads": 4, "dropout": 0.3},
        {"bias": (1, 1), "bias_rows": False, "dbias": True, "heads": 4, "left": 100, "sink": 9},
        {"bias": (1, 4), "bias_rows": False, "dbias": True, "heads": 4},
    ],
    ids=str,
)
def test_many_blocks_of_keys(load: Load, dtype: str, change: dict[str, object]) -> None:
    case = replace(LONG, dtype=dtype, data={}, **change)
    make_backward(case, np.random.default_rng(5))
    run_backward(load(BEST, dtype, "backward"), case)
    assert backward_complaints(case) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("batch", "rows"), [(1, True), (3, True), (3, False)])
def test_same_bits_for_any_number_of_threads(load: Load, dtype: str, batch: int, rows: bool) -> None:
    """One thread takes whole groups, several share them; seven are more than there are groups."""
    library, seen = load(BEST, dtype, "backward"), set()
    case = BackwardCase(
        dtype, heads=4, q_len=(300,) * batch, k_len=(1700,) * batch, capacity=1700, right=50, bias=(1, 1), dbias=True,
        bias_rows=rows,
    )  # fmt: skip
    make_backward(case, np.random.default_rng(7))
    for threads in (1, 2, 7):
        for name in ("dq", "dk", "dv", "dbias"):
            case.data[name][...] = np.nan
        run_backward(library, replace(case, threads=threads))
        seen.add(b"".join(case.data[name].tobytes() for name in ("dq", "dk", "dv", "dbias")))
    assert len(seen) == 1
    assert batch > 1 or backward_complaints(case) == []


def test_more_rows_than_a_shared_slab(load: Load) -> None:
    case = replace(LONG, q_len=(1500,), k_len=(70,), capacity=70, right=None, heads=6, kv_heads=3, threads=2, data={})
    make_backward(case, np.random.default_rng(9))
    run_backward(load(BEST, "fp32", "backward"), case)
    assert backward_complaints(case) == []


def test_sequences_without_rows_or_keys(load: Load) -> None:
    """A gradient without a partner is zero, never left as it was."""
    case = BackwardCase("fp32", q_len=(0, 5, 3), k_len=(7, 0, 4), packed=True, bias=(3, 2), dbias=True)
    make_backward(case, np.random.default_rng(4))
    run_backward(load(BEST, "fp32", "backward"), case)
    assert backward_complaints(case) == []
    assert not case.data["dk"][0, :, :7].any()
    assert not case.data["dq"][0, :, :5].any()
    assert not case.data["dbias"][0].any()


@pytest.mark.slow
@pytest.mark.ci
def test_statuses(load: Load) -> None:
    """Scratch for 2^40 keys cannot be allocated; the kernel reads nothing before it asks for it."""
    library, word = load(BEST, "fp16", "backward"), np.zeros(4, np.float16).ctypes.data
    tensors = dict.fromkeys(("q", "k", "v", "o", "dout", "dq", "dk", "dv"), word)
    sizes = {"batch": 1, "heads": 1, "kv_heads": 1, "seqlen_q": 1, "seqlen_k": 1, "hdim": 8, "hdim_v": 8, "scale": 1.0}

    def status(**changes: int) -> int:
        return int(library[BACKWARD_ENTRY](ctypes.byref(pack(FmhaCpuBwdArgs(**{**tensors, **sizes, **changes})))))

    assert status(seqlen_k=1 << 40) == EntryStatus.OUT_OF_MEMORY
    for wrong in (
        {"heads": 3, "kv_heads": 2},
        {"hdim": 577},
        {"hdim_v": 0},
        {"dv": 0, "hdim_v": 9},
        {"threads": 0},
        {"dq": 0},
        {"dout": 0},
    ):
        assert status(**wrong) == EntryStatus.BAD_ARGUMENT, wrong


def test_the_block_starts_as_the_forward_one(load: Load) -> None:
    """Both directions share C++ text that reads the common fields by the forward block's name."""
    case = BackwardCase("fp32")
    make_backward(case, np.random.default_rng(0))
    names = [name for name, _ in pack(backward_arguments(case))._fields_]
    assert names[:8] == ["q", "k", "v", "o", "lse", "bias", "alibi_slopes", "sink_logits"]


@pytest.mark.parametrize("bias", ["elementwise", "elementwise:bhss", "elementwise:1h1s"])
def test_without_a_query_row_nothing_of_dbias_is_written(bias: str) -> None:
    """An axis of no rows is none that rows share: a kernel that takes it for one writes the first row."""
    problem = api.Problem.from_cli(f"-H 2 --seqlens-q 0 --seqlens-k 49 --bias {bias} --direction bwd --dbias")
    (record,) = api.run(problem, backend="cpu", command="validate")
    assert record.verdict is Verdict.PASSED, record.notes
