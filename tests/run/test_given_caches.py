"""Caches as servers have them: pools with unused and shared pages, wide tables, long rows. Values by gathering every key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.tensors import shapes_of
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.measure import nonfinite_elements
from fmha_cli.oracle.tensors import appended_rows
from fmha_cli.run.given_cache import stored
from fmha_cli.run.input_files import InputFiles, check_fit, fitted, flags_from_files

Array = np.ndarray[Any, Any]
HEADS, KV_HEADS, DIM = 4, 2, 32
LENGTHS = (70, 9, 33)
PAGE, POOL, WIDE, NEW = 8, 64, 30, 3
NEAR = {"fp32": 2e-6, "fp16": 2e-3, "bf16": 2e-2}


def attended(q: Array, keys: list[Array], values: list[Array], *, causal: bool) -> Array:
    """(batch, heads, s, d) of q (batch, heads, s, d) and each sequence's keys (kv_heads, n, d), in float64."""
    out = np.zeros((*q.shape[:3], values[0].shape[-1]))
    for b, h in np.ndindex(*q.shape[:2]):
        k, v = (side[b][h * KV_HEADS // HEADS].astype(np.float64) for side in (keys, values))
        scores = q[b, h].astype(np.float64) @ k.T * DIM**-0.5
        rows, count = scores.shape
        if causal:
            scores[np.arange(count)[None] > np.arange(rows)[:, None] + count - rows] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[b, h] = weights / weights.sum(-1, keepdims=True) @ v
    return out


def pool(rng: np.random.Generator, dtype: Any = np.float32, *, shared: int = 0) -> tuple[Array, Array, Array]:
    """k, v (POOL, PAGE, kv_heads, d), NaN but for the keys in use, and a table (3, WIDE) with stale numbers behind them.

    Args:
        shared: leading pages that the last sequence takes from the first.
    """
    k, v = (np.full((POOL, PAGE, KV_HEADS, DIM), np.nan, np.float32) for _ in range(2))
    table = rng.integers(-3, 3 * POOL, (len(LENGTHS), WIDE)).astype(np.int32)
    free = iter(rng.permutation(POOL))
    for b, length in enumerate(LENGTHS):
        for slot in range(-(-length // PAGE)):
            taken = b == len(LENGTHS) - 1 and slot < shared
            table[b, slot] = table[0, slot] if taken else next(free)
            rows = min(PAGE, length - slot * PAGE)
            for side in (k, v) if not taken else ():
                side[table[b, slot], :rows] = rng.standard_normal((rows, KV_HEADS, DIM))
    return k.astype(dtype), v.astype(dtype), table


def gathered(side: Array, table: Array) -> list[Array]:
    return [
        np.stack([side[table[b, j // PAGE], j % PAGE] for j in range(length)], axis=1)
        for b, length in enumerate(LENGTHS)
    ]


def pools() -> Iterator[Any]:
    """The text that reads pages is one for all types: fp32 has every case, the others have those without shared pages in CI."""
    for dtype, shared in product(("fp32", "fp16", "bf16"), (0, 4)):
        yield pytest.param(dtype, shared, marks=() if shared or dtype == "fp32" else (pytest.mark.slow, pytest.mark.ci))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("rows", "flags"), [(1, {}), (5, {"causal": True}), (1, {"splits": 3}), (40, {"lse": True})])
@pytest.mark.parametrize(("dtype", "shared"), list(pools()))
def test_a_pool_larger_than_needed_gives_the_gathered_keys(
    dtype: str, rows: int, flags: dict[str, Any], shared: int
) -> None:
    rng = np.random.default_rng(1)
    numpy_type = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    k, v, table = pool(rng, numpy_type, shared=shared)
    q = rng.standard_normal((3, HEADS, rows, DIM)).astype(numpy_type)
    found = api.attention(
        q, k, v, tensors={"block_table": table}, kv_cache=f"paged:{PAGE}", cache_seqlens=LENGTHS, **flags
    )
    assert found.verdict is api.Verdict.PASSED
    want = attended(q, gathered(k, table), gathered(v, table), causal="causal" in flags)
    np.testing.assert_allclose(found.o.astype(np.float64), want, atol=NEAR[dtype], rtol=0)
    used = sum(LENGTHS) - shared * PAGE
    assert f"the given cache has {POOL} pages with {POOL * PAGE} rows, of which {used} are used" in found.record.notes


def test_a_pool_may_be_smaller_than_the_sequences_together() -> None:
    """All sequences read the same pages, so the pool has fewer than they need one by one; its bytes count once."""
    rng = np.random.default_rng(2)
    k, v = (rng.standard_normal((9, PAGE, KV_HEADS, DIM)).astype(np.float32) for _ in range(2))
    q, table = rng.standard_normal((3, HEADS, 1, DIM)).astype(np.float32), np.tile(np.arange(9, dtype=np.int32), (3, 1))
    found = api.attention(q, k, v, tensors={"block_table": table}, kv_cache=f"paged:{PAGE}", cache_seqlens=LENGTHS)
    assert found.verdict is api.Verdict.PASSED
    want = attended(q, gathered(k, table), gathered(v, table), causal=False)
    np.testing.assert_allclose(found.o, want, atol=NEAR["fp32"], rtol=0)
    line = f"-b 3 -H 4 --kv-heads 2 -s 1 -d 32 --dtype fp32 --kv-cache paged:{PAGE} --cache-seqlens 70,9,33"
    plain = api.Problem.from_cli(line)
    problem = stored(plain, {"k": k, "v": v, "block_table": table})
    row = KV_HEADS * 2 * DIM * 4
    assert plain.bytes() - problem.bytes() == (sum(LENGTHS) - 70) * row
    assert Plan(problem, ()).predicted_bytes - problem.bytes() == (9 * PAGE - 70) * row
    assert (problem.to_dict(), problem.digest, problem.repro()) == (plain.to_dict(), plain.digest, plain.repro())


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("padding", [(0, 0, 0), (3, 0, 9)])
def test_a_linear_cache_longer_than_its_keys(layout: str, padding: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    k, v = (np.full((5, KV_HEADS, 200, DIM), np.nan, np.float32) for _ in range(2))
    for b, (pad, length) in enumerate(zip(padding, LENGTHS, strict=True)):
        for side in (k, v):
            side[b, :, pad : pad + length] = rng.standard_normal((KV_HEADS, length, DIM))
    q = rng.standard_normal((3, HEADS, 2, DIM)).astype(np.float32)
    keys, values = (
        [side[b, :, pad : pad + n] for b, (pad, n) in enumerate(zip(padding, LENGTHS, strict=True))] for side in (k, v)
    )
    arrays = [np.ascontiguousarray(x.swapaxes(1, 2)) if layout == "bshd" else x for x in (q, k, v)]
    found = api.attention(
        *arrays, layout=layout, kv_cache="linear", cache_seqlens=LENGTHS, cache_leftpad=padding, causal=True
    )
    assert found.verdict is api.Verdict.PASSED
    got = found.o.swapaxes(1, 2) if layout == "bshd" else found.o
    np.testing.assert_allclose(got, attended(q, keys, values, causal=True), atol=NEAR["fp32"], rtol=0)


def test_all_rows_of_a_linear_cache_are_in_use_without_lengths() -> None:
    """Not as many keys as there are queries."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((1, 4, n, DIM)).astype(np.float32) for n in (1, 50, 50))
    found = api.attention(q, k[:, :2], v[:, :2], kv_cache="linear")
    assert found.record.problem["seqlen_k"] == 50
    np.testing.assert_allclose(found.o, attended(q, [k[0]], [v[0]], causal=False), atol=NEAR["fp32"], rtol=0)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("lengths", [(12, 4), None], ids=["lengths", "all rows"])
def test_each_sequence_fits_after_its_own_padding(lengths: tuple[int, ...] | None) -> None:
    """12 keys after no padding and 4 after 8 rows need 12 rows, not 12 after the largest padding."""
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((2, 4, n, DIM)).astype(np.float32) for n in (2, 12, 12))
    k, v = k[:, :KV_HEADS].copy(), v[:, :KV_HEADS].copy()
    k[1, :, :8], v[1, :, :8] = np.nan, np.nan
    given = {} if lengths is None else {"cache_seqlens": lengths}
    found = api.attention(q, k, v, kv_cache="linear", cache_leftpad=(0, 8), causal=True, **given)
    assert found.verdict is api.Verdict.PASSED
    want = attended(q, [k[0], k[1, :, 8:]], [v[0], v[1, :, 8:]], causal=True)
    np.testing.assert_allclose(found.o, want, atol=NEAR["fp32"], rtol=0)


def test_given_pages_need_lengths() -> None:
    k, v, table = pool(np.random.default_rng(5))
    q = np.zeros((3, HEADS, 1, DIM), np.float32)
    with pytest.raises(ImpossibleProblem, match="given pages without cache_seqlens"):
        api.attention(q, k, v, tensors={"block_table": table}, kv_cache=f"paged:{PAGE}")


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("kv_dtype", ["int8", "fp8_e4m3", "fp8_e5m2"])
def test_scales_of_the_pool_have_its_length(kv_dtype: str) -> None:
    """A cache in 8 bits with a scale for each page and head: those of pages that no sequence uses may be NaN."""
    rng = np.random.default_rng(6)
    plain_k, plain_v, table = pool(rng, shared=2)
    kind = {"int8": np.int8, "fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2}[kv_dtype]
    steps = 30 if kv_dtype == "int8" else 4
    k, v = (np.nan_to_num(side * steps, nan=100).round().clip(-127, 127).astype(kind) for side in (plain_k, plain_v))
    scales = {name: np.full((POOL, KV_HEADS), np.nan, np.float32) for name in ("k_descale", "v_descale")}
    named = {int(table[b, s]) for b, n in enumerate(LENGTHS) for s in range(-(-n // PAGE))}
    for side in scales.values():
        side[sorted(named)] = rng.uniform(0.02, 0.05, (len(named), KV_HEADS))
    q = rng.standard_normal((3, HEADS, 1, DIM)).astype(ml_dtypes.bfloat16)
    flags = {"kv_cache": f"paged:{PAGE}", "cache_seqlens": LENGTHS, "qscale": "kv-block"}
    found = api.attention(q, k, v, tensors={"block_table": table, **scales}, **flags)
    assert (found.verdict, found.record.problem["kv_dtype"]) == (api.Verdict.PASSED, kv_dtype)
    sides = [
        gathered(side.astype(np.float64) * scales[f"{name}_descale"][:, None, :, None], table)
        for name, side in (("k", k), ("v", v))
    ]
    want = attended(q, *sides, causal=False)
    np.testing.assert_allclose(found.o.astype(np.float64), want, atol=NEAR["bf16"] * np.abs(want).max(), rtol=0)
    line = f"-b 3 -H 4 --kv-heads 2 -s 1 -d 32 --kv-cache paged:{PAGE} --cache-seqlens 70,9,33 --qscale kv-block"
    arrays = {"q": q, "k": k, "v": v, "block_table": table, **scales}
    problem = stored(api.Problem.from_cli(f"{line} --dtype bf16 --kv-dtype {kv_dtype}"), arrays)
    assert nonfinite_elements(problem, arrays) == 0
    scales["v_descale"][table[1, 1], 0] = np.nan
    assert nonfinite_elements(problem, arrays) == 1


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("rows", [1, NEW])
@pytest.mark.parametrize("kind", ["paged", "linear"])
def test_keys_appended_to_a_given_cache(kind: str, rows: int) -> None:
    """The first pages are shared and stay; the new keys go to each sequence's own pages, or behind its rows."""
    rng = np.random.default_rng(12)
    k, v, table = pool(rng, shared=3)
    new = {name: rng.standard_normal((3, KV_HEADS, NEW, DIM)).astype(np.float32) for name in ("k_new", "v_new")}
    q = rng.standard_normal((3, HEADS, rows, DIM)).astype(np.float32)
    held = tuple(n - NEW for n in LENGTHS)
    sides = [gathered(side, table) for side in (k, v)]
    for side, name in zip(sides, new, strict=True):
        for b, keys in enumerate(side):
            keys[:, held[b] :] = new[name][b]
    tensors: dict[str, Any] = {**new, "block_table": table}
    flags: dict[str, Any] = {"kv_cache": f"paged:{PAGE}", "cache_seqlens": held, "append": NEW, "causal": True}
    if kind == "linear":
        k, v = (np.full((4, KV_HEADS, 100, DIM), np.nan, np.float32) for _ in range(2))
        for side, full in zip((k, v), sides, strict=True):
            for b, keys in enumerate(full):
                side[b, :, : held[b]] = keys[:, : held[b]]
        tensors.pop("block_table")
        flags["kv_cache"] = "linear"
    found = api.attention(q, k, v, tensors=tensors, **flags)
    assert found.verdict is api.Verdict.PASSED
    np.testing.assert_allclose(found.o, attended(q, *sides, causal=True), atol=NEAR["fp32"], rtol=0)


@pytest.mark.slow
@pytest.mark.ci
def test_keys_appended_to_a_pool_in_8_bits() -> None:
    """Each new key is quantised by the scale of its page; the pool and its scales have more pages than are used."""
    rng = np.random.default_rng(13)
    plain_k, plain_v, table = pool(rng)
    k, v = ((np.nan_to_num(side, nan=3) * 30).round().clip(-127, 127).astype(np.int8) for side in (plain_k, plain_v))
    scales = {name: np.full((POOL, KV_HEADS), np.nan, np.float32) for name in ("k_descale", "v_descale")}
    named = sorted({int(table[b, s]) for b, n in enumerate(LENGTHS) for s in range(-(-n // PAGE))})
    for side in scales.values():
        side[named] = rng.uniform(0.03, 0.05, (len(named), KV_HEADS))
    new = {name: rng.standard_normal((3, KV_HEADS, NEW, DIM)).astype(np.float32) for name in ("k_new", "v_new")}
    held, sides = tuple(n - NEW for n in LENGTHS), []
    for side, name, scale in zip((k, v), new, scales.values(), strict=True):
        real = gathered(side.astype(np.float64) * scale[:, None, :, None], table)
        for b, keys in enumerate(real):
            for t, j in enumerate(range(held[b], held[b] + NEW)):
                step = scale[table[b, j // PAGE]].astype(np.float64)[:, None]
                keys[:, j] = np.clip(np.rint(new[name][b, :, t] / step), -127, 127) * step
        sides.append(real)
    q = rng.standard_normal((3, HEADS, 1, DIM)).astype(np.float32)
    flags = {"kv_cache": f"paged:{PAGE}", "cache_seqlens": held, "qscale": "kv-block", "append": NEW}
    found = api.attention(q, k, v, tensors={**new, **scales, "block_table": table}, **flags)
    assert found.verdict is api.Verdict.PASSED
    np.testing.assert_allclose(found.o, attended(q, *sides, causal=False), atol=1e-5, rtol=0)


def test_files_of_the_command_line(tmp_path: Path) -> None:
    """``run`` on files, and the same flags as Problem: the record says what was given, and the repro line repeats it."""
    rng = np.random.default_rng(7)
    k, v, table = pool(rng, shared=1)
    q = rng.standard_normal((3, HEADS, 1, DIM)).astype(np.float32)
    arrays = {"q": q, "k": k, "v": v, "block_table": table}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = {name: str(tmp_path / f"{name}.npy") for name in arrays}
    given = InputFiles(arrays, files)
    raw = {"kv_cache": f"paged:{PAGE}", "cache_seqlens": "70,9,33"}
    problem = api.Problem.of(**flags_from_files(raw, given))
    (record,) = api.run(problem, backend="cpu", files=files, out=str(tmp_path / "o.npy"))
    assert record.verdict is api.Verdict.PASSED
    assert all(f"--{name.replace('_', '-')} {path}" in record.repro for name, path in files.items())
    want = attended(q, gathered(k, table), gathered(v, table), causal=False)
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), want, atol=NEAR["fp32"], rtol=0)


def test_numbers_behind_the_keys_of_a_table_are_not_read() -> None:
    """Stale ones that name no page become -1; stale ones that name a page stay as they are."""
    k, v, table = pool(np.random.default_rng(8))
    table[1, -2:] = POOL - 1, POOL
    given = InputFiles({"k": k, "v": v, "block_table": table}, {})
    line = f"-b 3 -H 4 --kv-heads 2 -s 1 -d 32 --dtype fp32 --kv-cache paged:{PAGE} --cache-seqlens 70,9,33"
    held = stored(api.Problem.from_cli(line), given.arrays)
    arrays, notes = fitted(held, given)
    assert arrays["block_table"][1, :2].tolist() == table[1, :2].tolist()
    assert arrays["block_table"][1, -2:].tolist() == [POOL - 1, -1]
    assert {name: array.shape for name, array in arrays.items()} == {
        name: shapes_of(held)[name].shape for name in arrays
    }
    assert len(notes) == 1


def misfit(table: Array, *, line: str = "", pages: int = POOL) -> Any:
    """The check of a pool and a table with which three sequences of 17, 8 and 7 keys have three appended."""
    flags = f"-b 3 -H 1 -s 1 -d 8 --dtype fp32 --kv-cache paged:8 --cache-seqlens 17,8,7 {line or '--append 3'}"
    given = InputFiles({"k": np.zeros((pages, 8, 1, 8), np.float32), "block_table": np.array(table, np.int32)}, {})
    check_fit(stored(api.Problem.from_cli(flags), given.arrays), given)


def test_pages_of_the_sequences_own_may_be_appended_to() -> None:
    misfit([[5, 6, 7], [8, 9, -1], [1, 2, -1]])
    misfit([[5, 6, 7], [5, 9, -1], [1, 2, -1]])  # sequence 0 appends to page 7, sequence 1 to page 9, both read 5


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[5, 6, 7], [7, 9, -1], [1, 2, -1]], "sequence 0 appends to page 7, which sequence 1 reads too"),
        ([[5, 6, 7], [8, 7, -1], [1, 2, -1]], "sequence 0 appends to page 7, which sequence 1 appends to too"),
        ([[5, 6, 1], [8, 9, -1], [1, 2, -1]], "sequence 0 appends to page 1, which sequence 2 appends to too"),
        ([[5, 7, 7], [8, 9, -1], [1, 2, -1]], "sequence 0 appends to page 7, which its block table names twice"),
        ([[2, 6, 7], [8, 9, -1], [1, 2, -1]], "sequence 2 appends to page 2, which sequence 0 reads too"),
    ],
)
def test_a_page_that_is_appended_to_is_of_one_sequence(table: Any, words: str) -> None:
    with pytest.raises(ImpossibleProblem, match=words) as fault:
        misfit(table)
    assert fault.value.code == "P022"
    misfit(table, line="--append 0")  # to read it is well defined


def test_pages_that_the_pool_lacks() -> None:
    with pytest.raises(UsageError, match="sequence 1 has page 9 at place 1") as fault:
        misfit([[5, 6, 7], [8, 9, -1], [1, 2, -1]], pages=9)
    assert fault.value.why == "the cache has pages 0 to 8, and the 11 keys need 2"


@pytest.mark.parametrize("kind", ["paged:8", "linear"])
def test_only_the_appended_rows_may_change(kind: str) -> None:
    """The mask that puts a write elsewhere in a cache out of bounds: row for row those of the appended keys."""
    line = f"-b 2 -H 2 -s 1 -d 8 --dtype fp32 --layout bshd --kv-cache {kind} --cache-seqlens 13,7 --append 3"
    problem = api.Problem.from_cli(line + (" --cache-leftpad 2,0" if kind == "linear" else ""))
    inputs = fill(problem)
    own = appended_rows(problem, inputs)["k"]
    want = np.zeros_like(own)
    for b, first in enumerate(problem.cache_seqlens or ()):
        for j in range(first, first + 3):
            if kind == "linear":
                want[b, problem.leftpads()[b] + j] = True
            else:
                want[inputs["block_table"][b, j // 8], j % 8] = True
    assert own.shape == inputs["k"].shape[:-1]
    np.testing.assert_array_equal(own, want)
    assert own.sum() == 2 * 2 * 3
