"""Extreme scores, biases and sinks, and keys that a bias of -inf hides: right values from every family of kernels on every architecture."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli import api
from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.oracle.fills import fill
from tests.backends.cpu.conftest import CI_TYPE
from tests.backends.cpu.test_splits import run_both
from tests.support.fakes.software_tiles import AMX, WHOLE
from tests.support.generators.cpu.backward_cases import (
    BackwardCase,
    backward_complaints,
    finish_forward,
    make_backward,
    run_backward,
)
from tests.support.generators.cpu.cases import (
    BEST,
    NUMPY,
    AttentionCase,
    Load,
    best_and_tiles,
    complaints,
    make_data,
    run,
)
from tests.support.generators.cpu.extreme_cases import EXTREMES, LEAST, SHOWN_BY, Extreme, extreme_case
from tests.support.models.faults import ExtremeFault

KINDS = ("prefill", "decode", "pages", "split", "backward")
DTYPES = ("fp32", "fp16", "bf16")
SLOW = (pytest.mark.slow,)
CI = (*SLOW, pytest.mark.ci)
TABLE = [
    pytest.param(arch, dtype, marks=CI if CI_TYPE.get(arch, dtype) == dtype else SLOW)
    for arch in ARCHS
    for dtype in (("bf16",) if arch == AMX else DTYPES)
]
"""Architecture and type of every kernel; CI has all types of the architectures that this machine chooses, and one of each other."""


def runnable() -> Iterator[Any]:
    """The architectures of this machine: its best with vectors and its matrix tiles, in CI the others, which are compiled for this."""
    for arch in (*WHOLE, *([AMX] if BEST == AMX else [])):
        often = arch in (WHOLE[0], AMX)
        yield pytest.param(arch, marks=() if often else (pytest.mark.slow, pytest.mark.ci))


def found(load: Load, arch: str, kind: str, case: AttentionCase, fault: ExtremeFault | None = None) -> list[str]:
    """What the formula says against a launch."""
    if isinstance(case, BackwardCase):
        run_backward(load(arch, case.dtype, kind, fault), case)
        return backward_complaints(case)
    if kind == "split":
        run_both(load, arch, case, fault)
    else:
        run(load(arch, case.dtype, "decode" if kind == "pages" else kind, fault), case)
    return complaints(case)


def cases(extreme: Extreme, dtype: str, kind: str) -> list[AttentionCase]:
    if kind == "backward":
        return [extreme_case(extreme, dtype, kind, with_lse=given) for given in (True, False)]
    pages = (16, 7) if kind == "pages" else (0, 16) if kind == "prefill" else (0,)
    return [extreme_case(extreme, dtype, kind, page=page) for page in pages]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("arch", "dtype"), TABLE)
def test_right_values(load: Load, arch: str, dtype: str, kind: str) -> None:
    wrong = {}
    for extreme in EXTREMES:
        said = [text for case in cases(extreme, dtype, kind) for text in found(load, arch, kind, case)]
        wrong |= {extreme.name: said} if said else {}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ExtremeFault)
@pytest.mark.parametrize(("arch", "dtype"), [(BEST, "fp32"), *best_and_tiles()[-1:]])
def test_fault_shows(load: Load, arch: str, dtype: str, fault: ExtremeFault, kind: str) -> None:
    if arch == "generic" and fault is ExtremeFault.SCALED_MAXIMUM:
        pytest.skip("without fused sums a score and the maximum are rounded alike")
    assert found(load, arch, kind, extreme_case(SHOWN_BY[fault], dtype, kind), fault) != []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", list(runnable()))
def test_the_values_of_a_row_with_one_large_bias(arch: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((1, 2, 64, 32), np.float32).astype(NUMPY["bf16" if arch == AMX else "fp32"]) for _ in "qkv"
    )
    bias = np.zeros((1, 2, 64, 64), q.dtype)
    bias[0, 0, 10, 3] = 1e20
    bias[0, 1, 7] = LEAST["bf16"]
    got = api.attention(q, k, v, tensors={"bias": bias}, backend="cpu", arch=arch, lse=True)
    np.testing.assert_array_equal(got.o[0, 0, 10], v[0, 0, 3])
    assert got.outputs["lse"][0, 0, 10] == np.float32(bias[0, 0, 10, 3])
    np.testing.assert_allclose(
        got.o[0, 1, 7].astype(np.float64), v[0, 1].astype(np.float64).mean(axis=0), atol=3e-3 if arch == AMX else 1e-6
    )
    assert got.outputs["lse"][0, 1, 7] == np.float32(bias[0, 1, 7, 0])


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("scales", ["head", "kv-block"])
@pytest.mark.parametrize("kv", ["int8", "fp8_e4m3"])
@pytest.mark.parametrize("arch", list(runnable()))
def test_caches_of_bytes_with_large_factors(arch: str, kv: str, scales: str, rows: int) -> None:
    """Products are small whole numbers, and the factor makes them large: keys of equal largest scores share a row."""
    line = f"-b 1 -H 2 --kv-heads 1 -s {rows} -d 32 --kv-cache linear --cache-seqlens 150 --dtype bf16 --kv-dtype {kv} --qscale {scales}"
    inputs, rng = fill(api.Problem.from_cli(line)), np.random.default_rng(3)
    for name in ("q", "k"):
        inputs[name] = rng.integers(-1, 2, inputs[name].shape).astype(inputs[name].dtype)
    inputs["k_descale"] = np.full(inputs["k_descale"].shape, 2.0**40, np.float32)
    inputs["v_descale"] = np.full(inputs["v_descale"].shape, 0.5, np.float32)
    got = api.attention(
        inputs["q"], inputs["k"], inputs["v"], tensors={n: inputs[n] for n in ("k_descale", "v_descale")}, backend="cpu",
        arch=arch, cache_seqlens=150, kv_cache="linear", kv_dtype=kv, qscale=scales,
    )  # fmt: skip
    k, v = (inputs[name][0, 0].astype(np.float64) for name in ("k", "v"))
    for h in range(2):
        raw = inputs["q"][0, h].astype(np.float64) @ k.T
        most = raw == raw.max(axis=1, keepdims=True)
        want = 0.5 * (most @ v) / most.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(got.o[0, h].astype(np.float64), want, atol=0.01 * np.abs(v).max())


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("arch", list(runnable()))
def test_bytes_that_a_bias_hides(arch: str, rows: int) -> None:
    """NaN in a cache of fp8, under a bias of -inf; row 2 of many sees no key."""
    line = f"-b 1 -H 2 --kv-heads 1 -s {rows} -d 32 --kv-cache linear --cache-seqlens 150 --dtype bf16 --kv-dtype fp8_e4m3 --qscale head"
    inputs = fill(api.Problem.from_cli(line))
    bias = np.zeros((1, 1, rows, 150), inputs["q"].dtype)
    bias[..., 5], bias[:, :, 2:3] = -np.inf, -np.inf
    for name in ("k", "v"):
        inputs[name][0, 0, 5] = np.nan
    got = api.attention(
        inputs["q"], inputs["k"], inputs["v"], tensors={"bias": bias} | {n: inputs[n] for n in ("k_descale", "v_descale")},
        backend="cpu", arch=arch, cache_seqlens=150, kv_cache="linear", kv_dtype="fp8_e4m3", qscale="head", lse=True,
    )  # fmt: skip
    k, v = (inputs[name][0, 0].astype(np.float64) * float(inputs[f"{name}_descale"][0, 0]) for name in ("k", "v"))
    seen = np.arange(150) != 5
    for h in range(2):
        s = inputs["q"][0, h].astype(np.float64) @ k[seen].T * 32**-0.5
        p = np.exp(s - s.max(axis=1, keepdims=True))
        want = p @ v[seen] / p.sum(axis=1, keepdims=True)
        want[2:3] = 0
        np.testing.assert_allclose(got.o[0, h].astype(np.float64), want, atol=0.01)
        assert np.isneginf(got.outputs["lse"][0, h]).tolist() == [n == 2 for n in range(rows)]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(("prefill", "decode", "backward")),
    bias=st.lists(st.sampled_from((0.0, 1.0, 1e9, -1e9, 1e20, -1e20, LEAST["fp32"], -np.inf)), min_size=1, max_size=4),
    sink=st.sampled_from((None, 0.0, 1e9, 1e20, -1e20, 3.4e38, -3.4e38, -np.inf)),
    right=st.sampled_from((None, 0)),
)
def test_any_extremes(
    load: Load, seed: int, kind: str, bias: list[float], sink: float | None, right: int | None
) -> None:
    """Biases of any of these sizes, next to each other in a row, with NaN and infinities under what is hidden."""
    rng = np.random.default_rng(seed)
    rows, keys = int(rng.integers(1, 5 if kind == "decode" else 40)), int(rng.integers(1, 80))
    case = (BackwardCase if kind == "backward" else AttentionCase)(
        "fp32", q_len=(rows,), k_len=(keys,), capacity=keys, hdim=int(rng.integers(1, 40)), hdim_v=20, large=True, right=right,
        bias=(1, 2), sink_logits=sink is not None,
    )  # fmt: skip
    if isinstance(case, BackwardCase):
        case.dbias, case.with_lse = True, bool(rng.integers(2))
    (make_backward if isinstance(case, BackwardCase) else make_data)(case, rng)  # type: ignore[operator]
    d = case.data
    d["bias"][...] = rng.choice(np.array(bias, np.float32), d["bias"].shape)
    d["bias"][..., rng.random(rows) < 0.3, :] = bias[0]
    hidden = np.isneginf(d["bias"]).all(axis=(1, 2))[0]
    d["k"][0, :, hidden], d["v"][0, :, hidden] = np.nan, -np.inf
    if sink is not None:
        d["sink_logits"][:] = sink
    if isinstance(case, BackwardCase):
        finish_forward(case)
    assert found(load, BEST, kind, case) == [], dataclasses.replace(case, data={})
