"""8-bit inputs on every architecture that runs here: every byte of every type, every form of the scales, appended keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.backends.cpu.meanings import meanings
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.tensors import Element, shapes_of
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import numpy_dtype
from fmha_cli.run.input_files import InputFiles
from fmha_cli.run.request import Request
from fmha_cli.run.run import Run
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.cpu.cases import best_first

CACHES = ("int8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3 --fp8-encoding fnuz", "fp8_e5m2 --fp8-encoding fnuz")
TYPES = [e for e in Element if e.nbytes == 1 and e not in (Element.FP4_E2M1, Element.E8M0)]


@pytest.mark.parametrize("element", TYPES)
def test_the_table_is_what_ml_dtypes_reads(element: Element) -> None:
    expected = np.arange(256, dtype=np.uint8).view(numpy_dtype(element)).astype(np.float64)
    np.testing.assert_array_equal(np.array(meanings(element)), expected)
    assert all(
        math.copysign(1, a) == math.copysign(1, b) for a, b in zip(meanings(element), expected, strict=True) if a == 0
    )


FP8 = (
    "-H 4 --kv-heads 2 -s 140 --seqlen-k 300 -d 40 --dtype fp8_e4m3:bf16 --qscale tensor --lse",
    "-b 2 -H 4 --kv-heads 2 -s 200 -d 33 --dtype fp8_e5m2:fp16 --qscale block --causal --lse",
    "--seqlens-q 3,200 --seqlens-k 150,290 -H 4 --kv-heads 2 -d 64 --dtype fp8_e4m3:fp32 --fp8-encoding fnuz --qscale head --lse",
    "-b 2 -H 2 -s 5 -d 80 --hdim-v 24 --kv-cache paged:48 --cache-seqlens 300,7 --dtype fp8_e5m2:bf16 --fp8-encoding fnuz"
    " --qscale kv-block --softcap 20 --scale -0.1",
    "-H 2 -s 40 -d 64 --dtype fp8_e4m3:bf16 --bias elementwise --dropout 0.1 --sink-logits filled --layout bshd --scale 0",
)
"""Problems with fp8 inputs."""

CACHED = (
    "-b 2 -H 8 --kv-heads 2 -s 1 -d 128 --kv-cache linear --cache-seqlens 700,40 --cache-leftpad 3,0 --qscale head --lse",
    "-b 2 -H 4 --kv-heads 2 -s 3 -d 72 --hdim-v 40 --kv-cache paged:16 --cache-seqlens 300,17 --qscale kv-block --causal --lse",
    "-b 2 -H 4 --kv-heads 1 -s 2 -d 33 --kv-cache linear --cache-seqlens 500,0 --qscale block --append 2 --rotary 16 --splits 3",
    "-b 2 -H 2 -s 50 -d 64 --kv-cache paged:3 --cache-seqlens 200,50 --qscale tensor --append 50 --alibi --causal --lse",
    "-b 1 -H 2 -s 20 -d 20 --kv-cache linear --cache-seqlens 400 --qscale block --softcap 9 --dropout 0.2 --mask window:200,0",
)
"""Problems with a cache, to which each test adds a type."""

LATENT = (
    "-b 2 -H 8 --kv-heads 1 -d 288 --mla-rope 32 --kv-cache paged:16 --cache-seqlens 300,17 --dtype bf16 --causal --lse"
)
"""V is a part of K, and has its scales."""


@pytest.mark.parametrize("arch", best_first(WHOLE, default=False))
@pytest.mark.parametrize("line", range(len(FP8)))
def test_fp8_inputs(arch: str, line: int) -> None:
    (record,) = api.run(api.Problem.from_cli(FP8[line]), backend="cpu", arch=arch, fills=("normal",))
    assert record.verdict is api.Verdict.PASSED, record.repro


@pytest.mark.parametrize("arch", best_first(WHOLE, default=False))
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_caches_of_every_type_and_scale(arch: str, dtype: str) -> None:
    lines = [
        f"{line} --dtype {dtype} --kv-dtype {kv}" for n, line in enumerate(CACHED) for kv in (CACHES[n], CACHES[-n])
    ]
    records = api.run(*(api.Problem.from_cli(line) for line in lines), backend="cpu", arch=arch, fills=("normal",))
    assert {r.repro: r.verdict for r in records} == {r.repro: api.Verdict.PASSED for r in records}
    assert len(records) == len(lines)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("scales", ["tensor", "kv-block"])
def test_latent_caches(rows: int, scales: str) -> None:
    line = f"{LATENT} -s {rows} --kv-dtype fp8_e4m3 --qscale {scales}"
    (record,) = api.run(api.Problem.from_cli(line), backend="cpu", fills=("normal",))
    assert record.verdict is api.Verdict.PASSED, record.comparisons


@pytest.mark.slow
@pytest.mark.ci
def test_keys_are_appended_where_values_are_in_them() -> None:
    """No new values come with the keys then."""
    line = "-b 2 -H 4 --kv-heads 2 -s 3 -d 48 --mla-rope 16 --kv-cache paged:16 --cache-seqlens 20,7 --append 3 --kv-dtype int8"
    (record,) = api.run(api.Problem.from_cli(line), backend="cpu", fills=("normal",))
    assert record.verdict is api.Verdict.PASSED, record.notes


@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("arch", best_first(WHOLE, default=False))
@pytest.mark.parametrize("kv", CACHES)
def test_every_byte_is_read_as_it_means(arch: str, kv: str, rows: int) -> None:
    """V holds all 256 bytes; the bytes that mean NaN or infinity appear in O, and in their own columns alone."""
    problem = api.Problem.from_cli(
        f"-H 1 -s {rows} -d 16 --hdim-v 64 --kv-cache linear --cache-seqlens 64 --dtype fp32 --kv-dtype {kv}"
    )
    inputs = fill(problem)
    bits = (np.arange(64 * 64) % 256).astype(np.uint8)
    inputs["v"] = np.random.default_rng(1).permutation(bits).view(inputs["v"].dtype).reshape(1, 1, 64, 64)
    codes = meanings(Element.of_keys(problem))
    flags = {
        name: str(value)
        for name, value in problem.to_dict().items()
        if name in ("kv_cache", "kv_dtype", "fp8_encoding")
    }
    found = api.attention(inputs["q"], inputs["k"], inputs["v"], backend="cpu", arch=arch, cache_seqlens=64, **flags)
    assert found.record.verdict is api.Verdict.PASSED, found.record.notes
    expected = np.isfinite(np.array(codes))[inputs["v"].view(np.uint8)[0, 0]].all(axis=0)
    np.testing.assert_array_equal(np.isfinite(found.o[0, 0]).all(axis=0), expected)


@pytest.mark.slow
@pytest.mark.ci
def test_a_scale_of_zero_or_nan_follows_the_formula() -> None:
    problem = api.Problem.from_cli("-H 2 -s 40 -d 16 --dtype fp8_e4m3:fp32 --qscale head --causal")
    inputs = fill(problem)
    for value in (0.0, -1.5, math.nan):
        scale = np.array([[value, 1]], np.float32)
        tensors = {"q_descale": scale, "k_descale": inputs["k_descale"], "v_descale": inputs["v_descale"]}
        found = api.attention(
            inputs["q"], inputs["k"], inputs["v"], tensors=tensors, backend="cpu", qscale="head", causal=True,
            dtype="fp8_e4m3:fp32",
        )  # fmt: skip
        assert found.record.verdict is api.Verdict.PASSED, (value, found.record.notes)
        assert np.isfinite(found.o[0, 1]).all()
        assert np.isfinite(found.o[0, 0]).any() == (not math.isnan(value))


@pytest.mark.slow
@pytest.mark.ci
def test_appended_rows_saturate_and_round_to_even() -> None:
    """Rows that meet every rounding: half way between two numbers, beyond the largest, NaN."""
    line = "-H 1 -s 1 -d 64 --kv-cache linear --cache-seqlens 3 --append 8 --dtype fp32"
    for kv in CACHES:
        element = Element.of_keys(api.Problem.from_cli(f"{line} --kv-dtype {kv}"))
        sizes = np.sort([abs(x) for x in meanings(element) if math.isfinite(x)])
        values = np.concatenate([sizes, (sizes[1:] + sizes[:-1]) / 2, [1e9, 3e38, 0.0]])
        values = np.concatenate([values, -values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])
        problem = api.Problem.from_cli(f"-b {-(-len(values) // 512)} {line} --kv-dtype {kv}")
        inputs = fill(problem)
        inputs["v_new"] = np.resize(values, shapes_of(problem)["v_new"].shape).astype(np.float32)
        assert inputs["v_new"].size >= len(values)
        given = InputFiles(inputs, dict.fromkeys(inputs, ""))
        (record,) = Run((problem,), Request(backend="cpu"), build_registry(), given=given).records()
        assert record.verdict is api.Verdict.PASSED, (kv, record.comparisons)
        assert np.isfinite(forward(problem, inputs).cache["v"].astype(np.float64)).all()
