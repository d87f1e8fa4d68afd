"""Workloads from files that PyTorch's profiler and the package onnx write here: what each call computes, and counts that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.domain.workload import Workload, WorkloadCall
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.workloads.reading import read_workload
from fmha_cli.workloads.torch_trace import ARGUMENTS

pytestmark = pytest.mark.promise("What a workload's file does not say is a row with its reason, and the counts add up.")


def counts(workload: Workload) -> dict[str, int]:
    """Flags, or the id of the reason -> calls."""
    found: Counter[str] = Counter()
    for call in workload.calls:
        found[call.problem.repro() if call.problem is not None else str(call.reason and call.reason.id)] += call.count
    return dict(found)


def profiled(path: Path, work: Callable[[Any], None], **options: Any) -> Workload:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as seen:
        work(torch)
    seen.export_chrome_trace(str(path))
    return read_workload(path)


def attend(torch: Any) -> None:
    sdpa = torch.nn.functional.scaled_dot_product_attention
    q, k = torch.randn(2, 4, 16, 8), torch.randn(2, 2, 20, 8)
    for _ in range(3):
        sdpa(q, q, q, is_causal=True)
    sdpa(q.bfloat16(), q.bfloat16(), q.bfloat16(), attn_mask=torch.ones(16, 16, dtype=torch.bool).tril())
    sdpa(q, k, k, enable_gqa=True, scale=0.5)
    sdpa(q, q, q, dropout_p=0.25)
    sdpa(q.double(), q.double(), q.double())
    x = torch.randn(2, 16, 4, 8).transpose(1, 2).requires_grad_()
    for _ in range(2):
        sdpa(x, x, x).sum().backward()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_trace_has_every_call(tmp_path: Path, name: str) -> None:
    found = profiled(tmp_path / name, attend, record_shapes=True)
    assert counts(found) == {
        "-b 2 -H 4 -s 16 -d 8 --dtype fp32 --causal": 3,
        "-b 2 -H 4 -s 16 -d 8 --dtype bf16 --bias elementwise": 1,
        "-b 2 -H 4 --kv-heads 2 -s 16 --seqlen-k 20 -d 8 --dtype fp32 --scale 0.5": 1,
        "-b 2 -H 4 -s 16 -d 8 --dtype fp32 --dropout 0.25": 1,
        "-b 2 -H 4 -s 16 -d 8 --dtype fp32 --layout bshd": 2,
        "-b 2 -H 4 -s 16 -d 8 --dtype fp32 --layout bshd --direction bwd": 2,
        "W003": 1,
    }
    assert (found.total, found.refused) == (11, 1)


def test_a_trace_without_shapes_has_reasons(tmp_path: Path) -> None:
    assert counts(profiled(tmp_path / "trace.json", attend)) == {"W001": 11}


def test_operators_have_the_arguments_of_their_schemas() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
    for name, arguments in ARGUMENTS.items():
        schema = getattr(torch.ops.aten, name.removeprefix("aten::")).default._schema
        assert [one.name for one in schema.arguments] == arguments.split(), name


Shape = Sequence[int | str] | None


def model(onnx: Any, nodes: Sequence[Any], opset: int = 24, constants: Sequence[Any] = (), **shapes: Shape) -> Any:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [value(nodes[-1].output[0], onnx.TensorProto.FLOAT, None)],
        list(constants),
    )
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def read(onnx: Any, path: Path, *nodes: Any, **more: Any) -> list[WorkloadCall]:
    onnx.save(model(onnx, nodes, **more), path)
    return list(read_workload(path).calls)


@pytest.mark.parametrize(
    ("q", "k", "past", "attributes", "said"),
    [
        ((2, 4, 6, 8), (2, 2, 6, 8), 0, {}, "--causal"),
        ((2, 4, 6, 8), (2, 2, 9, 8), 0, {}, "--mask causal-tl"),
        ((2, 4, 6, 8), (2, 2, 6, 8), 5, {}, "--causal"),
        ((2, 4, 3, 8), (2, 2, 6, 8), 5, {}, "--mask window-tl:-1,5"),
        ((2, 4, 6, 8), (2, 2, 6, 8), 5, {"is_causal": 0}, ""),
        ((2, 4, 6, 8), (2, 2, 6, 8), 0, {"scale": 0.5, "softcap": 3.0}, "--causal"),
        ((2, 6, 32), (2, 6, 16), 5, {"q_num_heads": 4, "kv_num_heads": 2}, "--causal"),
    ],
)
def test_the_operator_computes_what_the_problem_says(
    tmp_path: Path, q: Sequence[int], k: Sequence[int], past: int, attributes: dict[str, Any], said: str
) -> None:
    """The package's own reference gives the answer of the oracle to the problem."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
    names = ["q", "k", "v", *(["", "pk", "pv"] if past else [])]
    node = onnx.helper.make_node("Attention", names, ["y"], name="a", **{"is_causal": 1, **attributes})
    cache = {"pk": (2, 2, past, 8), "pv": (2, 2, past, 8)} if past else {}
    (call,) = read(onnx, tmp_path / "m.onnx", node, q=q, k=k, v=k, **cache)
    problem = call.problem
    assert problem is not None, call.reason
    assert said in problem.repro()
    x = fill(problem, "normal", 3)
    axis = 1 if len(q) == 3 else 2
    feeds = {"q": x["q"].reshape(q)}
    for name in ("k", "v"):
        feeds[name] = np.take(x[name], range(past, x[name].shape[axis]), axis).reshape(k)
        if past:
            held = np.take(x[name], range(past), axis)
            feeds[f"p{name}"] = held.transpose(0, 2, 1, 3) if axis == 1 else held
    from onnx.reference import ReferenceEvaluator

    (got,) = ReferenceEvaluator(model(onnx, [node], **{name: one.shape for name, one in feeds.items()})).run(
        None, feeds
    )
    np.testing.assert_allclose(got.reshape(-1), forward(problem, x).o_tensor(problem).reshape(-1), rtol=2e-5, atol=2e-6)


def test_operators_of_onnx_runtime(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
    node, of = onnx.helper.make_node, {"domain": "com.microsoft"}
    lengths = [
        onnx.numpy_helper.from_array(np.array(n, np.int32), name) for name, n in (("one", [15, 20]), ("all", [15, 15]))
    ]
    grouped = {**of, "num_heads": 4, "kv_num_heads": 2}
    nodes = [
        node("MultiHeadAttention", ["x", "x", "x"], ["a"], num_heads=4, unidirectional=1, **of),
        node("MultiHeadAttention", ["x", "y", "y", "", "", "bias"], ["b"], num_heads=4, **of),
        node("Attention", ["x", "w"], ["c"], num_heads=4, unidirectional=1, **of),
        node("GroupQueryAttention", ["x", "n", "n", "", "", "all", "t"], ["d", "", ""], **grouped),
        node(
            "GroupQueryAttention",
            ["x", "n", "n", "pk", "pk", "one", "t"],
            ["e", "", ""],
            local_window_size=5,
            **grouped,
        ),
        node("GroupQueryAttention", ["x", "n", "n", "pk", "pk", "t", "t"], ["f", "", ""], **grouped),
        node("GroupQueryAttention", ["x", "n", "n", "", "", "all", "t"], ["g", "", ""], do_rotary=1, **grouped),
        node("MultiHeadAttention", ["x", "x", "x", "", "t"], ["h"], num_heads=4, **of),
        node("MultiHeadAttention", ["x", "y", "y"], ["i"], num_heads=4, unidirectional=1, **of),
        node("MultiHeadAttention", ["x", "x", "x"], ["j"], num_heads=5, **of),
        node("MultiHeadAttention", ["open", "x", "x"], ["k"], num_heads=4, **of),
        node("SparseAttention", ["x"], ["l"], **of),
    ]
    shapes: dict[str, Shape] = {
        "x": (2, 16, 32),
        "y": (2, 20, 32),
        "n": (2, 16, 16),
        "w": (32, 96),
        "pk": (2, 2, 5, 8),
        "t": (),
    }
    shapes |= {"bias": (1, 4, 16, 20), "open": ("batch", 16, 32)}
    calls = read(onnx, tmp_path / "m.onnx", *nodes, constants=lengths, **shapes)
    head = "-b 2 -H 4 -s 16 -d 8 --dtype fp32"
    gqa = head.replace("-H 4", "-H 4 --kv-heads 2")
    assert [call.problem.repro() for call in calls if call.problem is not None] == [
        f"{head} --causal --layout bshd",
        f"{head.replace('-s 16', '-s 16 --seqlen-k 20')} --bias elementwise:1hss --layout bshd",
        f"{gqa} --causal --layout bshd",
        f"{gqa} --mask window:4,0 --layout bshd --kv-cache linear --cache-seqlens 0,5 --append 16",
    ]
    assert [call.reason.id for call in calls if call.reason is not None] == [
        "W001",
        "W003",
        "W002",
        "W002",
        "W004",
        "W001",
        "W003",
    ]
    assert sum(call.count for call in calls) == len(nodes)


def test_a_node_in_a_loop_is_not_counted_as_one(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
    value = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Attention", ["q", "q", "q"], ["z"])],
        "body",
        [],
        [value("z", onnx.TensorProto.FLOAT, None)],
    )
    yes = onnx.numpy_helper.from_array(np.array(True), "yes")
    node = onnx.helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body)
    (call,) = read(onnx, tmp_path / "m.onnx", node, constants=[yes], q=(1, 2, 4, 8))
    assert call.reason is not None
    assert (call.count, call.reason.id) == (2, "W001")
    assert "body of If" in call.reason.text


def test_functions_of_a_model_are_seen_into(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
    opsets = [onnx.helper.make_opsetid("", 24)]
    inner = [onnx.helper.make_node("Attention", ["p", "p", "p"], ["r"])]
    own = onnx.helper.make_function("own", "block", ["p"], ["r"], inner, opsets)
    calls = [onnx.helper.make_node("block", [name], [to], domain="own") for name, to in (("q", "a"), ("a", "b"))]
    whole = model(onnx, calls, q=(1, 2, 4, 8))
    whole.functions.append(own)
    whole.opset_import.append(onnx.helper.make_opsetid("own", 1))
    onnx.save(whole, tmp_path / "m.onnx")
    (call,) = read_workload(tmp_path / "m.onnx").calls
    assert (call.count, call.problem) == (2, Problem.from_cli("-b 1 -H 2 -s 4 -d 8 --dtype fp32"))


@pytest.mark.parametrize("data", [b"\x08", b"\x08\x09" + b"\xff" * 40, b"\x08\x0a\x3a\xff\xff"])
def test_a_damaged_model_is_refused(tmp_path: Path, data: bytes) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(Exception, match=r"is damaged|has no attention call"):
        read_workload(tmp_path / "m.onnx")
