"""New keys and values that are given: O and the cache that is left, by a formula in float64, in every form of a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fmha_cli import api
from tests.support.generators.given_problems import attention, normal

B, H, G, S, D, NEW, PAGE = 2, 4, 2, 3, 16, 3, 8
HELD = (9, 4)
"""Keys of each sequence before the append."""


def turned(x: Any, layout: str) -> Any:
    return x if layout == "bhsd" else x.swapaxes(1, 2)


def keys_of(b: int, cache: Any, new: Any) -> Any:
    """(1, heads, keys, d) of one sequence of a bhsd cache."""
    return np.concatenate((cache[b : b + 1, :, : HELD[b]], new[b : b + 1]), axis=2)


def expected(q: Any, k: Any, v: Any, k_new: Any, v_new: Any) -> Any:
    """(batch, heads, queries, d), all bhsd."""
    return np.concatenate([attention(q[b : b + 1], keys_of(b, k, k_new), keys_of(b, v, v_new))["o"] for b in range(B)])


def drawn() -> dict[str, Any]:
    rows = max(HELD) + NEW
    return {
        "q": normal(1, B, H, S, D),
        "k": normal(2, B, G, rows, D),
        "v": normal(3, B, G, rows, D),
        "k_new": normal(4, B, G, NEW, D),
        "v_new": normal(5, B, G, NEW, D),
    }


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("packed", [False, True], ids=["batch", "packed queries"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_a_linear_cache(layout: str, packed: bool) -> None:
    real = drawn()
    given = {name: turned(x, layout) for name, x in real.items()}
    want, flags = turned(expected(**real), layout), {}
    if packed:
        axis = 1 if layout == "bhsd" else 0
        given["q"], want = (np.concatenate(list(x), axis=axis) for x in (given["q"], want))
        flags = {"seqlens_q": (S,) * B}
    done = api.attention(**given, kv_cache="linear", cache_seqlens=HELD, layout=layout, backend="cpu", **flags)
    assert (done.verdict, done.record.problem["append"]) == (api.Verdict.PASSED, NEW)
    np.testing.assert_allclose(done.o, want, atol=1e-5)
    for name in ("k", "v"):
        left = turned(done.outputs[name], layout)
        for b, held in enumerate(HELD):
            np.testing.assert_array_equal(left[b, :, :held], real[name][b, :, :held])
            np.testing.assert_array_equal(left[b, :, held : held + NEW], real[f"{name}_new"][b])


def test_pages() -> None:
    real = drawn()
    table = np.array([[4, 1], [0, -1]], np.int32)
    pools = {name: np.full((5, PAGE, G, D), np.nan, np.float32) for name in ("k", "v")}
    for name, pool in pools.items():
        for b, held in enumerate(HELD):
            for row in range(held):
                pool[table[b, row // PAGE], row % PAGE] = real[name][b, :, row]
    new = {name: real[name] for name in ("k_new", "v_new")}
    done = api.attention(
        real["q"],
        **pools,
        **new,
        block_table=table,
        kv_cache=f"paged:{PAGE}",
        cache_seqlens=np.array(HELD),
        backend="cpu",
    )
    assert done.verdict is api.Verdict.PASSED
    np.testing.assert_allclose(done.o, expected(**real), atol=1e-5)
    for name in ("k", "v"):
        for b, held in enumerate(HELD):
            for t in range(NEW):
                page, row = table[b, (held + t) // PAGE], (held + t) % PAGE
                np.testing.assert_array_equal(done.outputs[name][page, row], real[f"{name}_new"][b, :, t])


def test_v_in_k() -> None:
    """Multi-head latent attention: the appended keys are values too."""
    real = drawn()
    given = {name: real[name][:, :1] if name != "q" else real[name] for name in ("q", "k", "k_new")}
    done = api.attention(**given, kv_cache="linear", cache_seqlens=HELD, mla_rope=4, backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    halves = {"k": given["k"], "k_new": given["k_new"], "v": given["k"][..., :12], "v_new": given["k_new"][..., :12]}
    np.testing.assert_allclose(
        done.o, expected(given["q"], halves["k"], halves["v"], halves["k_new"], halves["v_new"]), atol=1e-5
    )
    with pytest.raises(api.UsageError, match="there is the array v_new"):
        api.attention(**given, v_new=given["k_new"], kv_cache="linear", cache_seqlens=HELD, mla_rope=4)


@pytest.mark.slow
@pytest.mark.ci
def test_a_quantised_cache_takes_new_keys_of_the_queries_type() -> None:
    """The new keys are quantised as they are written, so O has their rounding to 1/32."""
    real = drawn()
    held = {name: np.rint(real[name] * 16).clip(-127, 127).astype(np.int8) for name in ("k", "v")}
    scale = np.array([1 / 16], np.float32)
    rest = {name: real[name] for name in ("q", "k_new", "v_new")}
    done = api.attention(
        **rest,
        **held,
        k_descale=scale,
        v_descale=scale,
        qscale="tensor",
        kv_cache="linear",
        cache_seqlens=HELD,
        backend="cpu",
    )
    assert done.verdict is api.Verdict.PASSED
    assert done.record.problem["kv_dtype"] == "int8"
    near = {name: np.rint(x * 16) / 16 if name != "q" else x for name, x in real.items()}
    np.testing.assert_allclose(done.o, expected(**near), atol=2e-2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"append": 4}, "append=4, but the array k_new has 3"),
        ({"v_new": normal(1, B, G, 2, D)}, "v_new has append=2, k_new has 3"),
        ({"k_new": normal(1, B, 1, NEW, D)}, "k_new has kv_heads=1, k has 2"),
        ({"k_new": normal(1, 3, G, NEW, D)}, "k_new has batch=3, q has 2"),
        ({"v_new": normal(1, B, G, NEW, 8)}, "v_new has hdim_v=8, v has 16"),
        ({"k_new": normal(1, B, G, 0, D)}, "whose axis s is 0"),
        ({"k_new": normal(1, B, NEW, D)}, "axes (batch, heads, s, d) are needed"),
        ({"k_new": normal(1, B, G, NEW, D).astype(np.float16)}, "several element types"),
        ({"q": normal(1, B, H, 0, D)}, "the array q has shape (2, 4, 0, 16), whose axis s is 0"),
        ({"kv_cache": "none", "cache_seqlens": None}, "append needs kv_cache"),
        ({"v_new": None}, "v_new is not given beside q, k, v and k_new"),
    ],
)
def test_new_keys_that_do_not_fit_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(api.UsageError) as caught:
        api.attention(**{**drawn(), "kv_cache": "linear", "cache_seqlens": HELD, **change}, backend="cpu")
    assert said in str(caught.value)


def test_new_keys_of_the_other_layout_are_named() -> None:
    real = {**drawn(), "append": NEW, "kv_cache": "linear", "cache_seqlens": HELD}
    with pytest.raises(api.UsageError, match="the array k_new has shape") as caught:
        api.attention(**{**real, "k_new": real["k_new"].swapaxes(1, 2)})
    assert 'layout="bshd"' in str(caught.value.help)
