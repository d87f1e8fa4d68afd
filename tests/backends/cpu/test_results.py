"""Results of every kernel that runs on this machine, on seeded random problems over the whole surface."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from tests.support.generators.cpu.cases import BEST, AttentionCase, Load, complaints, make_data, random_case, run

COMMON, MANY = 14, 200


def check(load: Load, arch: str, dtype: str, kind: str, seeds: range) -> None:
    library = load(arch, dtype, kind)
    for seed in seeds:
        rng = np.random.default_rng([seed, len(dtype), len(kind)])
        case = random_case(rng, dtype, few_rows=kind == "decode")
        make_data(case, rng)
        run(library, case)
        assert complaints(case) == [], f"seed {seed}: {case}"


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_sample(load: Load, arch: str, dtype: str, kind: str) -> None:
    check(load, arch, dtype, kind, range(COMMON))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_many(load: Load, arch: str, dtype: str, kind: str) -> None:
    check(load, arch, dtype, kind, range(1000, 1000 + MANY))


LONG = AttentionCase("fp32", q_len=(64,), k_len=(2000,), capacity=2000, hdim=32, hdim_v=32, right=0)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"left": 300, "right": 10},
        {"left": 300, "sink": 500},
        {"softcap": 5.0, "alibi": 1},
        {"bias": (1, 2)},
        {"bias": (1, 1), "bias_rows": False},
    ],
    ids=str,
)
def test_many_blocks_of_keys(load: Load, dtype: str, change: dict[str, object]) -> None:
    case = replace(LONG, dtype=dtype, data={}, **change)
    make_data(case, np.random.default_rng(5))
    run(load(BEST, dtype, "prefill"), case)
    assert complaints(case) == []


def test_decode_splits_agree(load: Load) -> None:
    results = []
    for splits in (1, 2, 7, 64):
        case = AttentionCase(
            "fp32", heads=8, kv_heads=2, q_len=(1,), k_len=(1900,), capacity=1900, splits=splits, data={}
        )
        make_data(case, np.random.default_rng(6))
        run(load(BEST, "fp32", "decode"), case)
        assert complaints(case) == []
        results.append(case.data["o"].copy())
    assert max(float(np.abs(r - results[0]).max()) for r in results) < 1e-6


@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_same_bits_for_any_number_of_threads(load: Load, dtype: str, kind: str) -> None:
    library, seen = load(BEST, dtype, kind), set()
    for threads in (1, 2, 5):
        case = AttentionCase(
            dtype, heads=4, q_len=(4,) * 3, k_len=(300,) * 3, capacity=300, threads=threads, splits=3, data={}
        )
        make_data(case, np.random.default_rng(7))
        run(library, case)
        seen.add(case.data["o"].tobytes())
    assert len(seen) == 1
