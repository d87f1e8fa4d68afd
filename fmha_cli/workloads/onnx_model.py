"""The attention nodes of an ONNX model, as far as the model says their shapes. Each node is one call.

Source: onnx 1.23.2, operator Attention of opsets 23 to 25 (``onnx/reference/ops/op_attention.py``: a causal mask lets query i see the keys
up to i + the number of past keys); microsoft/onnxruntime at 004b79ed, ``docs/ContribOperators.md``: Attention, MultiHeadAttention and
GroupQueryAttention of the domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.installation import import_modules
from fmha_cli.domain.workload import NO_FLAGS, NO_MEANING, NO_PROBLEM, NO_SIZES, WorkloadCall
from fmha_cli.workloads.mapping import UnmappedCall, bias_flags, described, one_type

_TYPES = {"FLOAT": "fp32", "FLOAT16": "fp16", "BFLOAT16": "bf16"}
_INPUTS: Mapping[tuple[str, str], str] = {
    ("", "Attention"): "Q K V attn_mask past_key past_value nonpad_kv_seqlen",
    ("com.microsoft", "Attention"): "input weights bias mask_index past attention_bias past_sequence_length",
    ("com.microsoft", "MultiHeadAttention"): "query key value bias key_padding_mask attention_bias past_key past_value "
    "past_sequence_length cache_indirection",
    (
        "com.microsoft",
        "GroupQueryAttention",
    ): "query key value past_key past_value seqlens_k total_sequence_length cos_cache "
    "sin_cache position_ids attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight",
}
"""Domain and operator -> the names of its inputs, in order."""
_ATTRIBUTES: Mapping[tuple[str, str], str] = {
    ("", "Attention"): "is_causal q_num_heads kv_num_heads scale softcap qk_matmul_output_mode softmax_precision "
    "left_window_size right_window_size",
    ("com.microsoft", "Attention"): "num_heads qkv_hidden_sizes unidirectional scale mask_filter_value "
    "past_present_share_buffer",
    ("com.microsoft", "MultiHeadAttention"): "num_heads unidirectional scale mask_filter_value",
    (
        "com.microsoft",
        "GroupQueryAttention",
    ): "num_heads kv_num_heads scale softcap causal local_window_size rotary_interleaved qk_norm_epsilon kv_cache_bit_width",
}
"""The attributes that are read, or that say nothing where the inputs beside them are absent."""
_OFF = {"do_rotary": 0, "smooth_softmax": 0, "sliding_window_cache": 0, "qk_output": 0,
        "k_quant_type": b"NONE", "v_quant_type": b"NONE"}  # fmt: skip
"""Attributes that may be there with this value, with which they do nothing."""


@dataclass(frozen=True)
class NodeTensor:
    """A tensor of a graph: the name of its element type, empty if unknown, and its sizes; None is one that the model leaves open."""

    type: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class AttentionNode:
    """A node with its inputs by name, its attributes, the constants among the inputs, and whether it returns its scores."""

    operator: tuple[str, str]
    inputs: Mapping[str, NodeTensor | None]
    attributes: Mapping[str, Any]
    constants: Mapping[str, Sequence[int]]
    scores: bool

    def shape(self, name: str, *ranks: int) -> tuple[int, ...]:
        """The sizes of an input that must be there.

        Raises:
            UnmappedCall: a size is open, or the number of axes is another one.
        """
        tensor = self.inputs.get(name)
        if tensor is None or any(size is None for size in tensor.shape) or not tensor.type:
            hint = "give the inputs of the model sizes, and infer its shapes, before it is saved"
            raise UnmappedCall(NO_SIZES(f"the model does not say the shape of {name}", hint))
        if len(tensor.shape) not in ranks:
            raise UnmappedCall(NO_FLAGS(f"{name} has the shape {tensor.shape}"))
        return tuple(size for size in tensor.shape if size is not None)

    def refuse(self, why: str, *names: str) -> None:
        """Raises UnmappedCall: one of these inputs is there."""
        found = next((name for name in names if name in self.inputs), None)
        if found is not None:
            raise UnmappedCall(NO_MEANING(f"the model does not say what {found} holds: {why}"))


def onnx_calls(data: bytes) -> Iterator[WorkloadCall]:
    """The calls of a model.

    Raises:
        DecodeError: not a model, or a damaged one.
        EnvironmentProblem: X052, the package onnx is not installed.
    """
    help = 'pip install "fmha[onnx]"'
    onnx, inference, inliner = import_modules(("onnx", "onnx.shape_inference", "onnx.inliner"), "onnx", "X052", help)
    try:
        model = onnx.load_model_from_string(data)
        model = inliner.inline_local_functions(model) if model.functions else model
    except Exception as fault:  # protobuf has an own error in each of its implementations
        why = next(iter(str(fault).splitlines()), type(fault).__name__)
        raise DecodeError(f"no ONNX model: {why[:200]}") from fault
    with suppress(ValueError, RuntimeError, TypeError, AttributeError):  # then what the model itself says counts
        model = inference.infer_shapes(model, data_prop=True)
    yield from _graph_calls(onnx, model.graph, "")


def _graph_calls(onnx: Any, graph: Any, within: str) -> Iterator[WorkloadCall]:
    """The calls of a graph; ``within``: the node whose body it is, which may run any number of times."""
    tensors = _tensors(onnx, graph)
    constants = {
        node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.attribute
    }
    constants |= {one.name: one for one in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _graph_calls(onnx, body, node.op_type)
        operator = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        if "Attention" not in node.op_type or "LinearAttention" in node.op_type:
            continue
        names = _INPUTS.get(operator, "").split()
        names += [f"input {number}" for number in range(len(names), len(node.input))]
        given = {name: text for name, text in zip(names, node.input, strict=False) if text}
        read = AttentionNode(
            operator,
            {name: tensors.get(text) for name, text in given.items()},
            {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute},
            {name: _integers(onnx, constants[text]) for name, text in given.items() if text in constants},
            len(node.output) > 3 and bool(node.output[3]),
        )
        place = f"{node.op_type} {node.name or next(iter(node.output), '')}".strip()
        yield described(place, partial(_flags, read, within))


def _tensors(onnx: Any, graph: Any) -> dict[str, NodeTensor]:
    name_of = onnx.TensorProto.DataType.Name
    found = {one.name: NodeTensor(name_of(one.data_type), tuple(one.dims)) for one in graph.initializer}
    for value in (*graph.value_info, *graph.output, *graph.input):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            sizes = tuple(one.dim_value if one.HasField("dim_value") else None for one in kind.shape.dim)
            found[value.name] = NodeTensor(name_of(kind.elem_type) if kind.elem_type else "", sizes)
    return found


def _integers(onnx: Any, constant: Any) -> tuple[int, ...]:
    """The values of a short list of integers; empty for another tensor, or one in a file of its own."""
    wanted = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    if (
        constant.data_type not in wanted
        or constant.data_location
        or len(constant.dims) > 1
        or sum(constant.dims) > 1 << 20
    ):
        return ()
    return tuple(int(number) for number in onnx.numpy_helper.to_array(constant).reshape(-1))


def _flags(node: AttentionNode, within: str) -> dict[str, object]:
    if within:
        raise UnmappedCall(
            NO_SIZES(f"it stands in the body of {within}, and the model does not say how often that runs")
        )
    if node.operator not in _INPUTS:
        domain, name = node.operator
        raise UnmappedCall(NO_FLAGS(f"the operator {name} of {domain or 'ai.onnx'} is not read by fmha"))
    more = [name for name in node.inputs if name not in _INPUTS[node.operator].split()]
    if more:
        raise UnmappedCall(NO_FLAGS(f"{more[0]} of {node.operator[1]} is not read by fmha"))
    known = _ATTRIBUTES[node.operator].split()
    for name, value in node.attributes.items():
        if name not in known and (name not in _OFF or value != _OFF[name]):
            raise UnmappedCall(NO_FLAGS(f"the attribute {name} = {value!r} is not read by fmha"))
    flags = _MAPPINGS[node.operator](node)
    scale, softcap = node.attributes.get("scale"), node.attributes.get("softcap", 0.0)
    return {**flags, "scale": scale or None, "softcap": softcap or None}


def _attention(node: AttentionNode) -> dict[str, object]:
    """Attention of ai.onnx: (batch, heads, length, hdim), or (batch, length, heads * hdim)."""
    node.refuse("the lengths of the sequences", "nonpad_kv_seqlen")
    if node.scores:
        raise UnmappedCall(NO_FLAGS("it also returns the scores"))
    q, k, v = (node.shape(name, 3, 4) for name in "QKV")
    flags: dict[str, object] = {"layout": "bhsd"}
    if len(q) == 3:
        heads, kv_heads = (_positive(node, name) for name in ("q_num_heads", "kv_num_heads"))
        q, k, v = (_split(one, n) for one, n in zip((q, k, v), (heads, kv_heads, kv_heads), strict=True))
        flags["layout"] = "bshd"
    past = node.shape("past_key", 4)[2] if "past_key" in node.inputs else 0
    _check_alike(q, k, v)
    flags |= _sizes(node, "QKV", q, k, v, past)
    left, right = (int(node.attributes.get(name, -1)) for name in ("left_window_size", "right_window_size"))
    right = 0 if node.attributes.get("is_causal", 0) else right
    flags["mask"] = _mask(left, right, q[2], k[2], past)
    return {**flags, **_bias(node, "attn_mask", q, k[2] + past)}


def _mask(left: int, right: int, rows: int, new: int, past: int) -> str:
    """The mask whose diagonal is at ``past`` keys; -1 is unlimited."""
    if left < 0 and right < 0:
        return "none"
    if rows == new:  # then the diagonal ends in the last corner
        return f"window:{left},{right}"
    if past == 0:
        return f"window-tl:{left},{right}"
    if left < 0:
        return f"window-tl:-1,{past + right}"
    raise UnmappedCall(
        NO_FLAGS(f"a window of {left} keys behind {past} past keys, with {rows} queries and {new} new keys")
    )


def _microsoft_attention(node: AttentionNode) -> dict[str, object]:
    """Attention of com.microsoft: the projections of one input; (batch, length, hidden)."""
    node.refuse("which keys count", "mask_index")
    node.refuse("the number of past keys", "past_sequence_length")
    (batch, rows, _), (_, columns) = node.shape("input", 3), node.shape("weights", 2)
    heads = _positive(node, "num_heads")
    hidden = [int(n) for n in node.attributes.get("qkv_hidden_sizes") or (columns // 3,) * 3]
    if len(hidden) != 3 or sum(hidden) != columns:
        raise UnmappedCall(NO_PROBLEM(f"hidden sizes {hidden} of weights with {columns} columns"))
    q, k, v = (_split((batch, rows, size), heads) for size in hidden)
    past = node.shape("past", 5)[3] if "past" in node.inputs else 0
    flags = {"layout": "bshd", **_sizes(node, ("input", "weights"), q, k, v, past)}
    flags["mask"] = "causal" if node.attributes.get("unidirectional", 0) else "none"
    return {**flags, **_bias(node, "attention_bias", q, rows + past)}


def _multi_head(node: AttentionNode) -> dict[str, object]:
    node.refuse("which keys count", "key_padding_mask")
    node.refuse("the number of past keys", "past_sequence_length", "cache_indirection")
    heads = _positive(node, "num_heads")
    if "key" not in node.inputs or "value" not in node.inputs:
        raise UnmappedCall(NO_FLAGS("query, key and value are packed into one tensor"))
    q = _split(node.shape("query", 3), heads)
    k, v = (node.shape(name, 3, 4) for name in ("key", "value"))
    k, v = (one if len(one) == 4 else _split(one, heads) for one in (k, v))
    past = node.shape("past_key", 4)[2] if "past_key" in node.inputs else 0
    _check_alike(q, k, v)
    flags = {"layout": "bshd", **_sizes(node, ("query", "key", "value"), q, k, v, past)}
    causal = bool(node.attributes.get("unidirectional", 0))
    if causal and q[2] != k[2]:
        text = (
            f"unidirectional with {q[2]} queries and {k[2]} new keys: the operator does not say how the mask is aligned"
        )
        raise UnmappedCall(NO_MEANING(text))
    flags["mask"] = "causal" if causal else "none"
    return {**flags, **_bias(node, "attention_bias", q, k[2] + past)}


def _grouped(node: AttentionNode) -> dict[str, object]:
    heads, kv_heads = _positive(node, "num_heads"), _positive(node, "kv_num_heads")
    other = next((n for n in ("k_scale", "v_scale", "q_norm_weight", "k_norm_weight") if n in node.inputs), None)
    if other is not None:
        raise UnmappedCall(NO_FLAGS(f"the input {other} is not read by fmha"))
    batch, rows, width = node.shape("query", 3)
    columns = heads if "key" in node.inputs else heads + 2 * kv_heads
    hdim = _split((batch, rows, width), columns)[3]
    ends = node.constants.get("seqlens_k", ())
    if len(ends) != batch:
        raise UnmappedCall(NO_SIZES("the lengths of the sequences (seqlens_k) are no constant of the model"))
    totals = [end + 1 for end in ends]
    if any(total < rows for total in totals):
        text = f"{rows} rows of new keys, some of them padding: the sequences have {', '.join(map(str, totals))} keys"
        raise UnmappedCall(NO_FLAGS(text))
    window = int(node.attributes.get("local_window_size", -1))  # keys that a query sees, its own included
    flags: dict[str, object] = {
        "batch": batch, "heads": heads, "kv_heads": kv_heads, "seqlen": rows, "hdim": hdim, "layout": "bshd",
        "dtype": _dtype(node, ("query",)), "sink_logits": "filled" if "head_sink" in node.inputs else None,
        "mask": f"window:{window - 1},0" if window > 0 else "causal" if node.attributes.get("causal", 1) else "none",
    }  # fmt: skip
    if set(totals) == {rows}:
        flags["seqlen_k"] = rows
    else:
        flags |= {"kv_cache": "linear", "append": rows, "cache_seqlens": [total - rows for total in totals]}
    return {**flags, **_bias(node, "attention_bias", (batch, heads, rows, hdim), max(totals))}


_MAPPINGS: Mapping[tuple[str, str], Callable[[AttentionNode], dict[str, object]]] = {
    ("", "Attention"): _attention,
    ("com.microsoft", "Attention"): _microsoft_attention,
    ("com.microsoft", "MultiHeadAttention"): _multi_head,
    ("com.microsoft", "GroupQueryAttention"): _grouped,
}


def _positive(node: AttentionNode, name: str) -> int:
    value = node.attributes.get(name)
    if not isinstance(value, int) or value < 1:
        raise UnmappedCall(NO_SIZES(f"the model does not say {name}"))
    return value


def _split(shape: Sequence[int], heads: int) -> tuple[int, ...]:
    """(batch, heads, length, hdim) of (batch, length, heads * hdim)."""
    if len(shape) != 3 or shape[2] % heads:
        raise UnmappedCall(NO_PROBLEM(f"a tensor of shape {tuple(shape)} cannot be split into {heads} heads"))
    return shape[0], heads, shape[1], shape[2] // heads


def _check_alike(q: Sequence[int], k: Sequence[int], v: Sequence[int]) -> None:
    if not len(q) == len(k) == len(v) == 4 or k[:3] != v[:3] or q[0] != k[0] or q[3] != k[3]:
        raise UnmappedCall(NO_PROBLEM(f"Q, K and V of the shapes {tuple(q)}, {tuple(k)}, {tuple(v)}"))


def _sizes(
    node: AttentionNode, names: Iterable[str], q: Sequence[int], k: Sequence[int], v: Sequence[int], past: int
) -> dict[str, object]:
    return {
        "batch": q[0], "heads": q[1], "kv_heads": k[1], "seqlen": q[2], "seqlen_k": k[2] + past, "hdim": q[3], "hdim_v": v[3],
        "dtype": _dtype(node, names),
    }  # fmt: skip


def _dtype(node: AttentionNode, names: Iterable[str]) -> str:
    tensors = [node.inputs.get(name) for name in names]
    return one_type(["" if tensor is None else tensor.type for tensor in tensors], _TYPES)


def _bias(node: AttentionNode, name: str, q: Sequence[int], keys: int) -> dict[str, object]:
    return {} if name not in node.inputs else bias_flags(node.shape(name, 2, 3, 4), q[0], q[1], q[2], keys)
