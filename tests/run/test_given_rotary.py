"""Rotary bases, tables of one's own, and the index of a linear cache: values by formulas that share nothing with the oracle."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.tensors import shapes_of

Array = np.ndarray[Any, Any]
HEADS, KV_HEADS, DIM, TURNED, NEW = 4, 2, 32, 16, 3
HELD = (61, 17, 4)
NEAR = {np.float32: 3e-6, np.float16: 3e-3, ml_dtypes.bfloat16: 3e-2}


_CACHE = "--kv-cache linear --cache-seqlens 9"
_TURNED = f"{_CACHE} --append 3 --rotary 16"
REFUSED = (
    (f"{_TURNED} --rotary-base 500 --rotary-cos filled --rotary-sin filled", "P007", "--rotary-base"),
    (f"{_TURNED} --rotary-base 10000 --rotary-cos filled --rotary-sin filled", "P007", "--rotary-base"),
    (f"{_TURNED} --rotary-cos filled", "P007", "--rotary-cos needs --rotary-sin"),
    (f"{_TURNED} --rotary-sin filled", "P007", "--rotary-sin needs --rotary-cos"),
    (f"{_TURNED} --rotary-base 0", "P009", "--rotary-base 0"),
    (f"{_TURNED} --rotary-base -5", "P009", "--rotary-base -5"),
    (f"{_TURNED} --rotary-base nan", "P003", "--rotary-base nan"),
    (f"{_CACHE} --append 3 --rotary-base 500", "P007", "--rotary-base needs --rotary"),
    (f"{_CACHE} --append 3 --rotary-cos filled --rotary-sin filled", "P007", "--rotary-cos needs --rotary"),
    ("--rotary-base 500", "P007", "--rotary-base needs --rotary"),
    (
        "--kv-cache linear --cache-seqlens 1,0 --append 2 --rotary 16 --rotary-cos filled --rotary-sin filled",
        "P009",
        "the 3 queries of sequence 1 begin before position 0",
    ),
    ("--cache-batch-idx 1,0", "P007", "--cache-batch-idx needs --kv-cache"),
    ("--kv-cache paged:16 --cache-batch-idx 1,0", "P007", "--cache-batch-idx and --kv-cache paged:16"),
    (f"{_CACHE} --cache-batch-idx 1", "P007", "--cache-batch-idx of 1"),
    (f"{_CACHE} --cache-batch-idx 1,0,2", "P007", "--cache-batch-idx of 3"),
    (f"{_CACHE} --cache-batch-idx 1,-1", "P005", "--cache-batch-idx -1"),
    (f"{_CACHE} --cache-batch-idx 1,x", "P003", "--cache-batch-idx x"),
    (f"{_CACHE} --append 3 --cache-batch-idx 1,1", "P022", "sequences 0 and 1 append to row 1 of the cache"),
)


def tables(base: float, positions: int) -> tuple[Array, Array]:
    """cos, sin (positions, TURNED / 2) of the angles n / base^(2t / TURNED)."""
    angles = [[n / math.pow(base, 2 * t / TURNED) for t in range(TURNED // 2)] for n in range(positions)]
    return np.cos(angles), np.sin(angles)


def yarn(positions: int, factor: float = 8.0, trained: int = 32) -> tuple[Array, Array]:
    """Tables as YaRN scales them (Peng et al., 2023): slow pairs interpolated, fast ones not, and a factor above 1 on both."""
    wave = [2 * math.pi * math.pow(10000, 2 * t / TURNED) for t in range(TURNED // 2)]
    ramp = [min(1.0, max(0.0, (trained / w - 1) / (32 - 1))) for w in wave]
    steps = [2 * math.pi / w * ((1 - r) / factor + r) for w, r in zip(wave, ramp, strict=True)]
    angles = np.outer(np.arange(positions), steps)
    return (0.1 * math.log(factor) + 1) * np.cos(angles), (0.1 * math.log(factor) + 1) * np.sin(angles)


def turned(x: Array, cos: Array, sin: Array, style: str) -> Array:
    """Rows (..., n, d) by the tables' rows (n, TURNED / 2); the elements behind TURNED stay."""
    out = x.astype(np.float64)
    for t in range(TURNED // 2):
        i, j = (t, t + TURNED // 2) if style == "half" else (2 * t, 2 * t + 1)
        a, b = out[..., i].copy(), out[..., j].copy()
        out[..., i], out[..., j] = a * cos[:, t] - b * sin[:, t], a * sin[:, t] + b * cos[:, t]
    return out


def attended(q: Array, keys: list[Array], values: list[Array]) -> Array:
    """O of causal rows, bottom-right; keys and values (kv_heads, n, d) for each sequence."""
    out = np.zeros((*q.shape[:3], values[0].shape[-1]))
    for b, h in np.ndindex(*q.shape[:2]):
        g = h * KV_HEADS // HEADS
        scores = q[b, h] @ keys[b][g].T / math.sqrt(DIM)
        rows, count = scores.shape
        scores[np.arange(count)[None] > np.arange(rows)[:, None] + count - rows] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[b, h] = weights / weights.sum(-1, keepdims=True) @ values[b][g]
    return out


class Appended:
    """Three sequences with rows 4, 0 and 2 of a cache of six, NaN where no key is, and three new keys each.

    Args:
        kind: of the elements.
        padding: rows in front of each sequence's keys.
    """

    items = (4, 0, 2)

    def __init__(self, kind: Any, padding: tuple[int, ...] = (0, 0, 0)) -> None:
        rng = np.random.default_rng(9)
        self.padding = padding
        self.k, self.v = (np.full((6, KV_HEADS, 80, DIM), np.nan, np.float32).astype(kind) for _ in range(2))
        for item, held, pad in zip(self.items, HELD, padding, strict=True):
            for side in (self.k, self.v):
                side[item, :, pad : pad + held] = rng.standard_normal((KV_HEADS, held, DIM))
        self.q = rng.standard_normal((3, HEADS, NEW, DIM)).astype(kind)
        self.new = {name: rng.standard_normal((3, KV_HEADS, NEW, DIM)).astype(kind) for name in ("k_new", "v_new")}

    def expected(self, cos: Array, sin: Array, style: str) -> Array:
        queries, keys, values = np.zeros(self.q.shape), [], []
        for b, (item, held, pad) in enumerate(zip(self.items, HELD, self.padding, strict=True)):
            at = slice(pad + held, pad + held + NEW)
            queries[b] = turned(self.q[b], cos[at], sin[at], style)
            new = turned(self.new["k_new"][b], cos[at], sin[at], style).astype(self.k.dtype)
            old = (side[item, :, pad : pad + held].astype(np.float64) for side in (self.k, self.v))
            keys.append(np.concatenate([next(old), new.astype(np.float64)], axis=1))
            values.append(np.concatenate([next(old), self.new["v_new"][b].astype(np.float64)], axis=1))
        return attended(queries, keys, values)

    def run(self, **flags: Any) -> api.Attention:
        more = {name: flags.pop(name) for name in ("rotary_cos", "rotary_sin") if name in flags}
        flags = {"kv_cache": "linear", "cache_seqlens": HELD, "cache_batch_idx": self.items, "causal": True} | flags
        if any(self.padding):
            flags["cache_leftpad"] = self.padding
        return api.attention(self.q, self.k, self.v, tensors={**self.new, **more}, append=NEW, backend="cpu", **flags)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.parametrize("kind", NEAR, ids=lambda kind: kind.__name__)
def test_the_base_of_the_angles(kind: Any, base: float, style: str) -> None:
    case = Appended(kind)
    found = case.run(rotary=f"{TURNED}:{style}", rotary_base=base)
    assert found.verdict is api.Verdict.PASSED
    assert found.record.problem.get("rotary_base") == (base if base != 1e4 else None)
    np.testing.assert_allclose(
        found.o.astype(np.float64), case.expected(*tables(base, 80), style), atol=NEAR[kind], rtol=0
    )


@pytest.mark.slow
@pytest.mark.ci
def test_a_base_that_single_precision_lacks_far_from_the_start() -> None:
    """At position 100,000 a base rounded to 32 bits would turn by 2e-4 too much, which O of four keys shows."""
    rng, pad, base = np.random.default_rng(11), 100_000, 12345.6789
    k, v = (np.zeros((1, KV_HEADS, pad + 4, DIM), np.float32) for _ in range(2))
    for side in (k, v):
        side[:, :, pad : pad + 3] = 3 * rng.standard_normal((1, KV_HEADS, 3, DIM))
    q, k_new, v_new = (3 * rng.standard_normal((1, h, 1, DIM)).astype(np.float32) for h in (HEADS, KV_HEADS, KV_HEADS))
    flags = {"kv_cache": "linear", "cache_leftpad": pad, "cache_seqlens": 3, "rotary": TURNED, "rotary_base": base}
    found = api.attention(q, k, v, k_new=k_new, v_new=v_new, backend="cpu", **flags)
    assert found.verdict is api.Verdict.PASSED
    angles = np.array([[(pad + 3) / math.pow(base, 2 * t / TURNED) for t in range(TURNED // 2)]])
    new = turned(k_new[0], np.cos(angles), np.sin(angles), "half").astype(np.float32)
    keys = np.concatenate([k[0, :, pad : pad + 3], new], axis=1).astype(np.float64)
    values = np.concatenate([v[0, :, pad : pad + 3], v_new[0]], axis=1).astype(np.float64)
    queries = turned(q, np.cos(angles), np.sin(angles), "half")
    np.testing.assert_allclose(found.o, attended(queries, [keys], [values]), atol=2e-5, rtol=0)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("padding", [(0, 0, 0), (7, 0, 2)])
@pytest.mark.parametrize("stored", [np.float32, np.float64, ml_dtypes.bfloat16], ids=lambda kind: kind.__name__)
def test_tables_of_ones_own(stored: Any, padding: tuple[int, ...], style: str) -> None:
    """Row n is position n; the rows behind the last position are not read, and the tables' own type counts."""
    case, positions = Appended(np.float32, padding), 100
    cos, sin = (np.full((positions, TURNED // 2), np.nan).astype(stored) for _ in range(2))
    last = max(held + pad for held, pad in zip(HELD, padding, strict=True)) + NEW
    cos[:last], sin[:last] = yarn(last)
    found = case.run(rotary=f"{TURNED}:{style}", rotary_cos=cos, rotary_sin=sin)
    assert found.verdict is api.Verdict.PASSED
    assert {key: found.record.problem[key] for key in ("rotary_cos", "rotary_sin")} == dict.fromkeys(
        ("rotary_cos", "rotary_sin"), True
    )
    want = case.expected(cos.astype(np.float32), sin.astype(np.float32), style)
    np.testing.assert_allclose(found.o, want, atol=NEAR[np.float32], rtol=0)


@pytest.mark.slow
@pytest.mark.ci
def test_tables_of_the_default_base_give_its_answer() -> None:
    case = Appended(np.float32)
    cos, sin = tables(1e4, 64)
    given = case.run(rotary=TURNED, rotary_cos=cos, rotary_sin=sin)
    np.testing.assert_allclose(given.o, case.run(rotary=TURNED).o, atol=1e-6, rtol=0)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("rows", "splits"), [(1, "auto"), (1, "3"), (40, "auto")])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_sequences_may_read_the_same_row_of_a_cache(layout: str, rows: int, splits: str) -> None:
    rng = np.random.default_rng(10)
    items, lengths = (3, 1, 3), (70, 50, 41)
    k, v = (np.full((5, KV_HEADS, 70, DIM), np.nan, np.float32) for _ in range(2))
    for side in (k, v):
        side[3], side[1, :, :50] = rng.standard_normal((KV_HEADS, 70, DIM)), rng.standard_normal((KV_HEADS, 50, DIM))
    q = rng.standard_normal((3, HEADS, rows, DIM)).astype(np.float32)
    keys, values = ([side[i, :, :n].astype(np.float64) for i, n in zip(items, lengths, strict=True)] for side in (k, v))
    arrays = [np.ascontiguousarray(x.swapaxes(1, 2)) if layout == "bshd" else x for x in (q, k, v)]
    flags = {"layout": layout, "kv_cache": "linear", "cache_seqlens": lengths, "cache_batch_idx": items}
    found = api.attention(*arrays, causal=True, splits=splits, backend="cpu", **flags)
    assert (found.verdict, found.record.problem["cache_batch_idx"]) == (api.Verdict.PASSED, list(items))
    got = found.o.swapaxes(1, 2) if layout == "bshd" else found.o
    np.testing.assert_allclose(got, attended(q, keys, values), atol=NEAR[np.float32], rtol=0)


def test_bytes_of_a_row_that_is_read_twice_count_once() -> None:
    line = "-b 3 -H 2 -s 1 -d 8 --dtype fp32 --kv-cache linear --cache-seqlens 70,50,41"
    each, shared = (api.Problem.from_cli(f"{line} {flags}") for flags in ("", "--cache-batch-idx 3,1,3"))
    assert each.bytes() - shared.bytes() == 41 * 2 * 2 * 8 * 4
    assert shapes_of(shared)["k"].shape == (4, 2, 70, 8)


def test_the_index_in_its_own_order_is_none() -> None:
    line = "-b 3 -H 2 -s 1 -d 8 --kv-cache linear --cache-seqlens 5"
    assert api.Problem.from_cli(f"{line} --cache-batch-idx 0,1,2") == api.Problem.from_cli(line)


@pytest.mark.parametrize(("line", "code", "words"), REFUSED)
def test_what_contradicts_itself_is_refused(line: str, code: str, words: str) -> None:
    with pytest.raises(ImpossibleProblem) as fault:
        api.Problem.from_cli(f"-b 2 -H 2 -s 3 -d 32 {line}")
    assert fault.value.code == code
    assert words in fault.value.what


@pytest.mark.parametrize(
    ("cos", "sin"), [((63, 8), (64, 8)), ((64, 8), (63, 8)), ((64, 7), (64, 8)), ((64, 8, 1), (64, 8))]
)
def test_tables_of_too_few_positions_or_another_width(cos: tuple[int, ...], sin: tuple[int, ...]) -> None:
    with pytest.raises(ImpossibleProblem, match=r"the problem needs \(64 or more, 8\)") as fault:
        Appended(np.float32).run(rotary=TURNED, rotary_cos=np.ones(cos), rotary_sin=np.ones(sin))
    assert fault.value.code == "P015"


@pytest.mark.parametrize("name", ["positions", "position_ids", "rotary_positions", "rotary_offset", "cache_position"])
def test_free_positions_are_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(api.UsageError) as fault:
        Appended(np.float32).run(rotary=TURNED, **{name: 5})
    assert "positions are not given: new key t has position " in str(fault.value.help)
