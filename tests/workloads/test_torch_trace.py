"""Traces of PyTorch's profiler: which operator counts, what it computes, and what the trace does not say."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.workload import WorkloadCall, merged
from fmha_cli.workloads.torch_trace import ARGUMENTS, torch_calls
from tests.support.generators.workload_files import FLASH, SDPA, operator, trace

pytestmark = pytest.mark.promise("What a workload's file does not say is a row with its reason, and the counts add up.")


def calls(*events: dict[str, Any]) -> list[WorkloadCall]:
    return list(merged(torch_calls(BytesIO(trace(*events)))))


def flags(event: dict[str, Any]) -> str:
    (call,) = calls(event)
    assert call.problem is not None, call.reason
    return call.problem.repro()


BASE = "-b 2 -H 4 -s 16 -d 8 --dtype fp32"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (operator(), BASE),
        (operator(kind="c10::BFloat16", is_causal="True"), "-b 2 -H 4 -s 16 -d 8 --dtype bf16 --causal"),
        (operator(k=(2, 4, 20, 8), is_causal="True"), "-b 2 -H 4 -s 16 --seqlen-k 20 -d 8 --dtype fp32 --mask causal-tl"),
        (operator(k=(2, 2, 16, 8), v=(2, 2, 16, 4)), "-b 2 -H 4 --kv-heads 2 -s 16 -d 8 --hdim-v 4 --dtype fp32"),
        (operator(q=(4, 16, 8)), "-b 1 -H 4 -s 16 -d 8 --dtype fp32".removeprefix("-b 1 ")),
        (operator(scale="0.5", dropout_p="0.10000000000000001"), f"{BASE} --dropout 0.1 --scale 0.5"),
        (operator(attn_mask=(16, 16)), f"{BASE} --bias elementwise"),
        (operator(attn_mask=(2, 1, 1, 16)), f"{BASE} --bias elementwise:b11s"),
        (operator(attn_mask=(1, 4, 16, 16)), f"{BASE} --bias elementwise:1hss"),
        (operator(FLASH, is_causal="True"), f"{BASE} --causal --lse"),
        (operator("aten::_scaled_dot_product_efficient_attention", attn_bias=(2, 4, 16, 16)), f"{BASE} --bias elementwise:bhss"),
        (operator("aten::_scaled_dot_product_efficient_attention", compute_log_sumexp="True"), f"{BASE} --lse"),
        (operator(f"{FLASH}_backward", is_causal="True"), f"{BASE} --causal --direction bwd"),
    ],
)  # fmt: skip
def test_what_an_operator_computes(event: dict[str, Any], said: str) -> None:
    assert sorted(flags(event).split()) == sorted(said.split())


def without(event: dict[str, Any], *parts: str) -> dict[str, Any]:
    return {**event, "args": {key: value for key, value in event["args"].items() if key not in parts}}


@pytest.mark.parametrize(
    ("event", "id", "said"),
    [
        (without(operator(), "Input Dims"), "W001", "record_shapes=True"),
        (without(operator(), "Concrete Inputs"), "W002", "is_causal"),
        (operator(is_causal=""), "W002", "is_causal"),
        (operator(scale="abc"), "W002", "scale"),
        (operator(FLASH, k=(2, 4, 20, 8), is_causal="True"), "W002", "aligns"),
        (operator(kind="double"), "W003", "element types double"),
        (operator(kind=""), "W001", "element types"),
        (operator(q=(16, 8)), "W003", "shapes"),
        (operator(k=(1, 4, 16, 8)), "W003", "shapes"),
        (operator(k=(2, 3, 16, 8)), "W004", "kv_heads=3"),
        (operator(attn_mask=(3, 16)), "W004", "does not broadcast"),
        (operator(attn_mask=(16, 1)), "W003", "broadcast"),
        (operator(q=(0, 4, 16, 8)), "W004", "batch"),
        ({**operator(), "name": "flash_attn::_flash_attn_forward"}, "W003", "not known"),
    ],
)
def test_what_the_trace_does_not_say_is_a_reason(event: dict[str, Any], id: str, said: str) -> None:
    (call,) = calls(event)
    assert call.problem is None
    assert call.reason is not None
    assert call.reason.id == id
    assert said in f"{call.reason.text} {call.reason.hint}"


def test_only_the_outermost_operator_counts() -> None:
    outer = [operator(start=100.0 * n, duration=50.0) for n in range(3)]
    inner = [operator(FLASH, start=100.0 * n + 1, duration=48.0) for n in range(3)]
    other = operator(FLASH, start=1.0, duration=5.0, thread=2)  # the same time in another thread
    wrapped = {**operator(start=101.5, duration=20.0), "name": "aten::_flash_attention_forward"}
    around = {**operator(start=99.0, duration=60.0), "name": "aten::_native_multi_head_attention"}
    found = calls(*inner, wrapped, *outer, other, around)
    assert [(call.count, call.place, call.problem is not None) for call in found] == [(3, SDPA, True), (1, FLASH, True)]
    alone = {**around, "ts": 5000.0}
    assert [call.count for call in calls(*outer, alone)] == [3, 1]


def test_equal_calls_add_up() -> None:
    events = [operator(start=20.0 * n, q=(1 + n % 2, 4, 16, 8)) for n in range(10)]
    assert [(call.count, call.problem.batch) for call in calls(*events) if call.problem] == [(5, 1), (5, 2)]


def test_events_of_another_kind_are_no_calls() -> None:
    named = [
        {**operator(), "name": name} for name in ("aten::softmax", "autograd::engine::evaluate_function: Attention")
    ]
    assert calls(*named, {**operator(), "ph": "i"}, {**operator(), "dur": None}, {"ph": "X"}) == []


def test_a_trace_of_another_version_is_refused() -> None:
    with pytest.raises(DecodeError, match="schemaVersion is 2"):
        list(torch_calls(BytesIO(trace(operator(), schemaVersion=2))))


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9])
def test_a_trace_that_is_cut_off_is_refused(place: float) -> None:
    text = trace(*[operator(start=20.0 * n) for n in range(5)])
    with pytest.raises(DecodeError, match="character"):
        list(torch_calls(BytesIO(text[: int(len(text) * place)])))


def test_every_operator_has_query_key_and_value() -> None:
    for name, arguments in ARGUMENTS.items():
        assert {"query", "key", "value", "dropout_p", "is_causal", "scale"} <= set(arguments.split()), name
