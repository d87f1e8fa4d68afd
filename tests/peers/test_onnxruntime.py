"""The oracle agrees with ONNX Runtime's CPU kernels in float32.

The operators are Attention (opset 23), MultiHeadAttention and GroupQueryAttention.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fmha_cli.domain.features import Rotary, RotaryStyle
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import Reference, forward
from fmha_cli.oracle.tensors import rotate

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: peers)")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed (extra: peers)")

CLOSE = {"rtol": 1e-5, "atol": 3e-6}
MICROSOFT = "com.microsoft"


def run(
    op: str, feeds: dict[str, Any], outputs: int, domain: str = "", opset: int = 23, **attributes: Any
) -> list[Any]:
    """The results of one node; an input whose name is ``_`` and a number is omitted."""
    helper = onnx.helper
    names = [f"y{n}" for n in range(outputs)]
    inputs = ["" if name.startswith("_") else name for name in feeds]
    feeds = {name: x for name, x in feeds.items() if not name.startswith("_")}
    node = helper.make_node(op, inputs, names, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results: list[Any] = session.run(None, feeds)
    return results


def reference(line: str, seed: int = 4) -> tuple[Problem, dict[str, Any], Reference]:
    problem = Problem.from_cli(f"{line} --dtype fp32")
    inputs = fill(problem, "normal", seed)
    return problem, inputs, forward(problem, inputs)


@pytest.mark.parametrize(
    "flags", ["", "--softcap 2", "--scale 0.4", "--mask causal-tl", "--mask causal-tl --softcap 3"]
)
def test_attention_operator(flags: str) -> None:
    problem, x, expected = reference(f"-b 2 -H 6 --kv-heads 2 -s 13 --seqlen-k 13 -d 16 --hdim-v 8 {flags}")
    attributes: dict[str, Any] = {"scale": problem.scale}
    attributes |= {"is_causal": 1} if "causal" in flags else {}
    attributes |= {"softcap": problem.softcap} if problem.softcap else {}
    got = run("Attention", {name: x[name] for name in ("q", "k", "v")}, 1, **attributes)[0]
    np.testing.assert_allclose(got, expected.o_tensor(problem), **CLOSE)


@pytest.mark.parametrize("rank", ["11ss", "1hss", "bhss"])
def test_attention_operator_with_bias(rank: str) -> None:
    problem, x, expected = reference(f"-b 2 -H 4 -s 7 --seqlen-k 19 -d 16 --bias elementwise:{rank}")
    got = run("Attention", {name: x[name] for name in ("q", "k", "v", "bias")}, 1)[0]
    np.testing.assert_allclose(got, expected.o_tensor(problem), **CLOSE)


def joined(x: Any) -> Any:
    """(batch, s, heads, d) to (batch, s, heads * d)."""
    return np.ascontiguousarray(x).reshape(*x.shape[:2], -1)


@pytest.mark.parametrize("flags", ["", "--causal", "--scale 0.2", "--bias elementwise:1hss", "--bias elementwise:bhss"])
def test_multi_head_attention(flags: str) -> None:
    keys = 17 if "causal" in flags else 29
    problem, x, expected = reference(f"-b 2 -H 4 -s 17 --seqlen-k {keys} -d 16 --layout bshd {flags}")
    feeds: dict[str, Any] = {name: joined(x[name]) for name in ("q", "k", "v")}
    if "bias" in x:
        feeds |= {"_0": None, "_1": None, "bias": x["bias"]}
    causal = int("causal" in flags)
    got = run("MultiHeadAttention", feeds, 1, MICROSOFT, num_heads=4, scale=problem.scale, unidirectional=causal)[0]
    np.testing.assert_allclose(got, joined(expected.o_tensor(problem)), **CLOSE)


def group_query(problem: Problem, feeds: dict[str, Any], lengths: list[int], **attributes: Any) -> list[Any]:
    """GroupQueryAttention; ``lengths`` are the total keys of each sequence."""
    padding = {f"_{n}": None for n in range(5 - len(feeds))}
    tail = {"last": np.array([n - 1 for n in lengths], np.int32), "total": np.array(max(lengths), np.int32)}
    sinks = attributes.pop("head_sink", None)
    tables = attributes.pop("tables", {})
    if sinks is not None:
        tables = {"_7": None, "_8": None, "_9": None, "_10": None, "head_sink": sinks}
    heads = {"num_heads": problem.heads, "kv_num_heads": problem.kv_heads, "scale": problem.scale}
    return run("GroupQueryAttention", {**feeds, **padding, **tail, **tables}, 3, MICROSOFT, **heads, **attributes)


@pytest.mark.parametrize(
    ("flags", "attributes"),
    [
        ("--causal", {}),
        ("--causal --softcap 2", {"softcap": 2.0}),
        ("--causal --scale 0.3", {}),
        ("--mask window:4,0", {"local_window_size": 5}),
        ("--mask window:7,0 --softcap 3", {"local_window_size": 8, "softcap": 3.0}),
    ],
)
def test_group_query_attention(flags: str, attributes: dict[str, Any]) -> None:
    problem, x, expected = reference(f"-b 2 -H 6 --kv-heads 2 -s 23 -d 16 --layout bshd {flags}")
    feeds = {name: joined(x[name]) for name in ("q", "k", "v")}
    got = group_query(problem, feeds, [23, 23], **attributes)[0]
    np.testing.assert_allclose(got, joined(expected.o_tensor(problem)), **CLOSE)


def test_group_query_attention_with_learned_sinks() -> None:
    problem, x, expected = reference("-b 2 -H 4 --kv-heads 2 -s 9 -d 16 --layout bshd --causal --sink-logits filled")
    feeds = {name: joined(x[name]) for name in ("q", "k", "v")}
    got = group_query(problem, feeds, [9, 9], head_sink=x["sink_logits"])[0]
    np.testing.assert_allclose(got, joined(expected.o_tensor(problem)), **CLOSE)


@pytest.mark.parametrize(("dim", "style"), [(0, ""), (16, ":half"), (16, ":interleaved")])
def test_group_query_attention_appends_and_rotates(dim: int, style: str) -> None:
    rotary = f"--rotary {dim}{style}" if dim else ""
    line = f"-b 2 -H 4 --kv-heads 2 -s 1 -d 16 --kv-cache linear --cache-seqlens 8,5 --append 1 --causal {rotary}"
    problem, x, expected = reference(line)
    past = {f"past_{name}": np.nan_to_num(x[name]) for name in ("k", "v")}
    new = {"q": x["q"], "k": x["k_new"], "v": x["v_new"]}
    feeds: dict[str, Any] = {name: joined(value.swapaxes(1, 2)) for name, value in new.items()} | past
    attributes: dict[str, Any] = {}
    if dim:
        angle = np.arange(32)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
        tables = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}
        attributes = {"do_rotary": 1, "rotary_interleaved": int("interleaved" in style), "tables": tables}
    o, k, v = group_query(problem, feeds, [9, 6], **attributes)
    np.testing.assert_allclose(o, joined(expected.o_tensor(problem).swapaxes(1, 2)), **CLOSE)
    for b, held in enumerate((8, 5)):
        rows = slice(0, held + 1)
        np.testing.assert_allclose(k[b, :, rows], expected.cache["k"][b, :, rows], **CLOSE)
        np.testing.assert_array_equal(v[b, :, rows], expected.cache["v"][b, :, rows])


@pytest.mark.parametrize("style", RotaryStyle)
@pytest.mark.parametrize("dim", [8, 16])
def test_rotary_operator(dim: int, style: RotaryStyle) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 16)).astype(np.float32)
    positions = np.array([3, 4, 9, 11, 30])
    angle = np.arange(32)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    tables = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}
    feeds = {"x": x, **tables, "at": np.broadcast_to(positions, (2, 5)).copy()}
    interleaved = int(style is RotaryStyle.INTERLEAVED)
    got = run("RotaryEmbedding", feeds, 1, rotary_embedding_dim=dim, interleaved=interleaved)[0]
    np.testing.assert_allclose(got, rotate(x, positions, Rotary(dim, style)), **CLOSE)
