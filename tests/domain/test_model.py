"""``Model``: facts become layers, and layers become problem flags that mean what the model does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.layer import LayerKind, LayerPhase
from fmha_cli.domain.model import FACTS, Fact, Model, model_of
from fmha_cli.domain.problem import Problem

PLAIN: Mapping[str, Any] = {"layers": 4, "heads": 8, "kv_heads": 2, "hdim": 64}
LOCAL: Mapping[str, Any] = {**PLAIN, "local_layers": 3, "window": 16}
LATENT: Mapping[str, Any] = {
    "layers": 2,
    "heads": 16,
    "kv_heads": 16,
    "hdim": 192,
    "hdim_v": 128,
    "latent": 512,
    "latent_rope": 64,
}


def model(**values: Any) -> Model:
    return model_of("m", "M", {key: Fact(value, "a paper") for key, value in values.items()})


def problem(made: Model, kind: int = 0, phase: LayerPhase = LayerPhase.PREFILL, tp: int = 1, **flags: Any) -> Problem:
    sizes = {"seqlen": 64} if phase is LayerPhase.PREFILL else {"seqlen": 1, "seqlen_k": 64}
    own = made.flags(made.layers[kind], phase, tp, one_query=phase is LayerPhase.DECODE)
    return Problem.of(**{**own, **sizes, **flags})


@pytest.mark.promise("A window of W keys includes the query's own.")
def test_a_window_includes_the_query_itself() -> None:
    """The rows of a window of 16 keys see 16 keys, or all up to their own."""
    local, far = problem(model(**LOCAL)), problem(model(**LOCAL), 1)
    assert (local.mask.text(), far.mask.text()) == ("window:15,0", "causal")
    assert local.visible_pairs() == sum(min(16, row + 1) for row in range(64))
    assert problem(model(**LOCAL), phase=LayerPhase.DECODE).visible_pairs() == 16
    assert problem(model(**{**LOCAL, "window": 1})).visible_pairs() == 64


def test_one_query_sees_every_key() -> None:
    step = problem(model(**PLAIN), phase=LayerPhase.DECODE)
    assert (step.mask.text(), step.visible_pairs()) == ("none", 64)
    assert (
        model(**PLAIN).flags(model(**PLAIN).layers[0], LayerPhase.DECODE)["mask"] == "causal"
    )  # several queries for each


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (PLAIN, [("global", 4)]),
        (LOCAL, [("local", 3), ("global", 1)]),
        ({**PLAIN, "window": 16}, [("local", 4)]),
        ({**LOCAL, "local_layers": 0}, [("global", 4)]),
    ],
)
def test_the_kinds_of_layers(values: dict[str, Any], kinds: list[tuple[str, int]]) -> None:
    assert [(one.kind, one.count) for one in model(**values).layers] == kinds


def test_kinds_of_layers_may_differ_in_shape() -> None:
    made = model(**LOCAL, global_hdim=128, global_kv_heads=1)
    assert [(p.kv_heads, p.hdim, p.hdim_v) for p in (problem(made), problem(made, 1))] == [(2, 64, 64), (1, 128, 128)]


def test_a_layer_that_calls_attention_twice_counts_twice() -> None:
    assert [one.count for one in model(**PLAIN, calls=2).layers] == [8]


def test_global_layers_may_have_sinks_scale_and_heads_of_their_own() -> None:
    made = model(
        **LOCAL, sink_logits=True, global_sink_logits=False, global_scale=0.5, global_heads=16, global_hdim_v=32
    )
    near, far = problem(made), problem(made, 1)
    assert [(p.heads, p.sink_logits, p.scale, p.hdim_v) for p in (near, far)] == [
        (8, True, 64**-0.5, 64),
        (16, False, 0.5, 32),
    ]


def test_what_is_not_causal_sees_both_ways() -> None:
    whole, near = problem(model(**PLAIN, causal=False)), problem(model(**PLAIN, window=16, causal=False))
    assert (whole.mask.text(), whole.visible_pairs()) == ("none", 64 * 64)
    assert near.mask.text() == "window:15,15"
    assert near.visible_pairs() == sum(min(row, 15) + 1 + min(63 - row, 15) for row in range(64))
    assert not model(**PLAIN, causal=False).causal


def test_what_a_model_does_to_the_scores() -> None:
    made = problem(model(**PLAIN, softcap=50.0, scale=0.25, sink_logits=True))
    assert (made.softcap, made.scale, made.sink_logits) == (50.0, 0.25, True)
    assert problem(model(**PLAIN)).scale == 64**-0.5
    assert problem(model(**PLAIN, alibi=True)).alibi.value == "standard"


def test_latent_attention_is_absorbed_in_decode_alone() -> None:
    made = model(**LATENT)
    prefill, decode = problem(made), problem(made, phase=LayerPhase.DECODE)
    assert (prefill.heads, prefill.kv_heads, prefill.hdim, prefill.hdim_v, prefill.mla_rope) == (16, 16, 192, 128, 0)
    assert (decode.heads, decode.kv_heads, decode.hdim, decode.hdim_v, decode.mla_rope) == (16, 1, 576, 512, 64)
    assert prefill.scale == decode.scale == 192**-0.5  # absorption changes no score
    assert problem(model(**LATENT, scale=0.1), phase=LayerPhase.DECODE).scale == 0.1


@pytest.mark.promise("Flags override a model's values, and what no flag can express is refused.")
@pytest.mark.parametrize(("tp", "heads", "kv_heads"), [(1, 8, 2), (2, 4, 1), (4, 2, 1), (8, 1, 1)])
def test_heads_are_divided_and_no_device_is_without_a_key(tp: int, heads: int, kv_heads: int) -> None:
    made = problem(model(**PLAIN), tp=tp)
    assert (made.heads, made.kv_heads) == (heads, kv_heads)


def test_the_latent_row_is_not_divided() -> None:
    shares = [problem(model(**LATENT), phase=phase, tp=4) for phase in LayerPhase]
    assert [(p.heads, p.kv_heads) for p in shares] == [(4, 4), (4, 1)]


@pytest.mark.promise("Flags override a model's values, and what no flag can express is refused.")
@pytest.mark.parametrize(
    ("values", "tp", "what"),
    [
        (PLAIN, 3, "--tp 3: m has 8 heads"),
        (PLAIN, 16, "--tp 16: m has 8 heads"),
        ({**PLAIN, "heads": 12, "kv_heads": 6}, 4, "--tp 4: m has 6 key/value heads"),
        ({**PLAIN, "heads": 12, "kv_heads": 4}, 6, "--tp 6: m has 4 key/value heads"),
    ],
)
def test_heads_that_cannot_be_divided(values: dict[str, Any], tp: int, what: str) -> None:
    with pytest.raises(ImpossibleProblem, match=what) as caught:
        problem(model(**values), tp=tp)
    assert caught.value.code == "P019"
    ways = [int(n) for n in str(caught.value.help).removeprefix("--tp one of ").split(", ")]
    assert ways[0] == 1
    for way in range(1, values["heads"] + 1):
        if way in ways:
            problem(model(**values), tp=way)
        else:
            with pytest.raises(ImpossibleProblem):
                problem(model(**values), tp=way)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"heads": 8}, "lacks layers, kv_heads, hdim"),
        ({**PLAIN, "kv_heads": 3}, "8 heads are not a multiple of 3"),
        ({**LOCAL, "global_kv_heads": 3}, "8 heads are not a multiple of 3"),
        ({**PLAIN, "local_layers": 2}, "2 local layers without a window"),
        ({**LOCAL, "local_layers": 5}, "5 local layers of 4"),
        ({**PLAIN, "latent": 512}, "need each other"),
        ({**PLAIN, "colour": 1}, "colour: no such fact"),
        *(({**PLAIN, "hdim": bad}, "hdim .*not a value") for bad in (0, -1, 64.0, True, "64")),
        *(({**PLAIN, "softcap": bad}, "softcap .*not a value") for bad in (0, -1.0, True)),
        ({**PLAIN, "sink_logits": 1}, "sink_logits .*not a value"),
        ({**PLAIN, "window": 0}, "window .*not a value"),
    ],
)
def test_facts_that_make_no_model(values: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        model(**values)


def test_a_fact_without_a_source_is_none() -> None:
    with pytest.raises(ValueError, match="heads has no source"):
        model_of("m", "M", {key: Fact(value, "" if key == "heads" else "s") for key, value in PLAIN.items()})


def test_facts_are_kept_in_the_order_in_which_they_are_shown() -> None:
    made = model(**dict(reversed(LOCAL.items())))
    assert list(made.facts) == [key for key in FACTS if key in LOCAL]


@given(
    heads=st.integers(1, 64),
    group=st.integers(1, 8),
    hdim=st.integers(1, 256),
    layers=st.integers(1, 80),
    local=st.integers(0, 80),
    window=st.integers(1, 10_000),
    tp=st.integers(1, 64),
    phase=st.sampled_from(LayerPhase),
)
def test_every_model_makes_problems_or_says_why_not(
    heads: int, group: int, hdim: int, layers: int, local: int, window: int, tp: int, phase: LayerPhase
) -> None:
    made = model(
        layers=layers, local_layers=min(local, layers), heads=heads * group, kv_heads=heads, hdim=hdim, window=window
    )
    assert sum(one.count for one in made.layers) == layers
    for index, one in enumerate(made.layers):
        if heads * group % tp or (heads % tp and tp % heads):
            with pytest.raises(ImpossibleProblem, match=f"--tp {tp}"):
                problem(made, index, phase, tp)
            continue
        found = problem(made, index, phase, tp)
        assert found.heads * tp == one.heads
        assert found.kv_heads >= 1
        assert found.heads % found.kv_heads == 0
        rows = [min(64, row + 1) for row in range(64)] if phase is LayerPhase.PREFILL else [64]
        seen = [min(window, row) if one.kind is LayerKind.LOCAL else row for row in rows]
        assert found.visible_pairs() == sum(seen)
