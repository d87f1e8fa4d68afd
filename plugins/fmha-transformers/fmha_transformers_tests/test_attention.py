"""What the attention function serves beside the models' logits: training, a caller's masks, recording; and what it refuses."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmha_cli import api

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
os.environ["HF_HUB_OFFLINE"] = "1"
pytest.importorskip("transformers", reason="transformers is not installed (extra: peers)")
pytest.importorskip("fmha_transformers", reason="plugins/fmha-transformers is not installed")

import fmha_transformers.attention as ours  # noqa: E402 - transformers may not be installed
from fmha_transformers.masks import mask_of  # noqa: E402

from fmha_transformers_tests.families import made  # noqa: E402
from fmha_transformers_tests.phases import LENGTH, padded, tokens  # noqa: E402


class Layer(torch.nn.Module):
    """What the attention function reads of a layer."""

    is_causal = True


def model(family: str = "llama", dtype: Any = torch.float32) -> Any:
    made_one = made(family, dtype)
    made_one.set_attn_implementation("fmha")
    return made_one


@pytest.mark.parametrize("family", ["llama", "gpt_oss", "t5"])
def test_gradients_of_all_weights(family: str) -> None:
    """A padded batch: gradients read no flags of a cache, so the mask is numbers then."""
    found = []
    for implementation in ("eager", "fmha"):
        one = made(family, torch.float32)
        one.set_attn_implementation(implementation)
        mask = padded(LENGTH)
        more = {"decoder_input_ids": tokens(6)} if family == "t5" else {}
        logits = one(tokens(LENGTH), attention_mask=mask, **more).logits
        real = logits if more else logits[mask.bool()]
        torch.logsumexp(real, -1).sum().backward()
        found.append({name: x.grad for name, x in one.named_parameters() if x.grad is not None})
    eager, fused = found
    assert fused.keys() == eager.keys()
    for name, gradient in eager.items():
        assert (fused[name] - gradient).abs().max() <= 1e-4 * max(1, gradient.abs().max()), name


@pytest.mark.parametrize("form", ["booleans", "numbers", "both"])
def test_a_mask_of_the_caller(form: str) -> None:
    torch.manual_seed(3)
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)
    visible, bias = torch.rand(2, 1, 6, 9) > 0.3, torch.randn(1, 4, 6, 9)
    mask = bias if form == "numbers" else visible
    o, weights = ours.attend(Layer(), q, k, v, mask, position_bias=bias if form == "both" else None)
    added = bias if form == "numbers" else torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
    added = added + bias if form == "both" else added
    right = torch.nn.functional.scaled_dot_product_attention(
        *(x.double() for x in (q, k, v)), added.double(), enable_gqa=True
    )
    assert weights is None
    assert o.is_contiguous()
    assert (o - right.transpose(1, 2)).abs().max() < 1e-5


def test_calls_are_recorded_as_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ours.RECORD, str(tmp_path))
    with torch.no_grad():
        cache = model("mistral")(tokens(LENGTH), use_cache=True).cache
        model("mistral")(tokens(1), cache=cache)
        model("llama")(tokens(LENGTH), attention_mask=padded(LENGTH))
        model("llama", torch.bfloat16)(
            tokens(9)[:1], position_ids=torch.tensor([[*range(5), *range(4)]]), use_cache=False
        )
        model("gpt_oss")(tokens(4))
        model("t5").get_encoder()(tokens(5))
    model("gemma2")(tokens(3))
    with pytest.raises(api.UnsupportedError):
        model()(tokens(3), output_attentions=True)
    ours._recorder(str(tmp_path)).close()
    lines = [json.loads(line) for line in (tmp_path / "workload.jsonl").read_text("utf-8").splitlines()]
    counts = {line.get("flags", line.get("reason")): line["count"] for line in lines}
    basic = "-b 2 -H 4 --kv-heads 2"
    wanted = {
        f"{basic} -s {LENGTH} -d 16 --dtype fp32 --mask window:5,0": 2,
        f"{basic} -s 1 --seqlen-k 6 -d 16 --dtype fp32": 2,
        f"{basic} -s {LENGTH} -d 16 --dtype fp32 --causal --kv-cache linear --cache-seqlens 9,14 --cache-leftpad 5,0": 2,
        "--seqlens-q 5,4 -H 4 --kv-heads 2 -d 16 --dtype bf16 --causal": 2,
        f"{basic} -s 4 -d 16 --dtype fp32 --causal --sink-logits filled": 2,
        "-b 2 -H 4 -s 5 -d 16 --dtype fp32 --scale 1 --bias elementwise:1hss": 2,
        f"{basic} -s 3 -d 24 --dtype fp32 --causal --scale {40**-0.5!r} --softcap 2 --direction fwd+bwd": 2,
    }
    assert {api.Problem.from_cli(flags): n for flags, n in counts.items() if flags.startswith("-")} == {
        api.Problem.from_cli(flags): n for flags, n in wanted.items()
    }
    assert [n for said, n in counts.items() if not said.startswith("-")] == [1]


@pytest.mark.slow
@pytest.mark.ci
def test_a_compiled_model_is_one_graph() -> None:
    one, mask = model(), padded(LENGTH)
    with torch.no_grad():
        plain = one(tokens(LENGTH), attention_mask=mask).logits
        found = torch.compile(one, backend="aot_eager", fullgraph=True)(tokens(LENGTH), attention_mask=mask).logits
    assert (plain - found)[mask.bool()].abs().max() < 1e-4


def _trained() -> None:
    one = model()
    one.train()
    for layer in one.model.layers:
        layer.self_attn.attention_dropout = 0.1
    one(tokens(3))


def _called(mask: Any = None, rows: int = 4, keys: int = 6, **more: Any) -> None:
    q, k = torch.randn(1, 2, rows, 8), torch.randn(1, 2, keys, 8)
    ours.attend(Layer(), q, k, k, mask, **more)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "dropout": (_trained, "model.train(False)"),
    "weights": (lambda: model()(tokens(3), output_attentions=True), "keeps no weights"),
    "float64": (lambda: model(dtype=torch.float64)(tokens(3)), "float64"),
    "where the queries stand": (_called, "only a mask says"),
    "a window without a mask": (lambda: _called(rows=6, sliding_window=3), "only a mask says"),
    "a part of a mask": (lambda: _called(mask_of(1, 4, 8)[..., :6]), "a part of one"),
    "a mask of other keys": (lambda: _called(mask_of(1, 4, 8)), "a part of one"),
    "a mask of two axes": (lambda: _called(torch.ones(1, 6)), "a mask of shape (1, 6)"),
    "sparse attention": (lambda: _called(indices=torch.zeros(1)), "sparse attention"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_is_refused_with_the_reason(name: str) -> None:
    call, why = REFUSED[name]
    with pytest.raises(api.FmhaError) as told:
        call()
    assert why in "".join(traceback.format_exception(told.value)), told.value.render()


def test_no_mask_means_what_it_means_to_transformers() -> None:
    """A single query sees all keys; a layer that is not causal too; a causal one of as many queries as keys is causal."""
    torch.manual_seed(5)
    q, k = torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    for given, right in (
        (ours.attend(Layer(), q[:, :, :1], k, k), sdpa(q[:, :, :1], k, k)),
        (ours.attend(Layer(), q, k, k, is_causal=False), sdpa(q, k, k)),
        (ours.attend(Layer(), q, k, k), sdpa(q, k, k, is_causal=True)),
    ):
        assert (given[0].transpose(1, 2) - right).abs().max() < 1e-5
