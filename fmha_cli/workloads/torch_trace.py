"""A trace of PyTorch's profiler: the attention operators with their shapes, of which the outermost counts.

Source: pytorch 2.13.0, ``torch/profiler/profiler.py`` ``export_chrome_trace``: an event of an operator has ``Input Dims``, ``Input type``,
``Input Strides`` and ``Concrete Inputs``, one item for each argument of its schema, if the profiler ran with ``record_shapes=True``. The
arguments are those of ``aten/src/ATen/native/native_functions.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.workload import NO_FLAGS, NO_MEANING, NO_SIZES, WorkloadCall
from fmha_cli.workloads.json_stream import JsonStream
from fmha_cli.workloads.mapping import UnmappedCall, bias_flags, described, one_type

_ONE = "aten::scaled_dot_product_attention"
_FUSED = "aten::_scaled_dot_product_"
ARGUMENTS: Mapping[str, str] = {
    _ONE: "query key value attn_mask dropout_p is_causal scale enable_gqa",
    f"{_FUSED}attention_math": "query key value attn_mask dropout_p is_causal dropout_mask scale enable_gqa",
    f"{_FUSED}flash_attention": "query key value dropout_p is_causal return_debug_mask scale",
    f"{_FUSED}flash_attention_for_cpu": "query key value dropout_p is_causal attn_mask scale",
    f"{_FUSED}efficient_attention": "query key value attn_bias compute_log_sumexp dropout_p is_causal scale",
    f"{_FUSED}cudnn_attention": "query key value attn_bias compute_log_sumexp dropout_p is_causal return_debug_mask scale",
    f"{_FUSED}fused_attention_overrideable": "query key value attn_bias dropout_p is_causal return_debug_mask scale",
    f"{_FUSED}flash_attention_backward": "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal "
    "philox_seed philox_offset scale",
    f"{_FUSED}flash_attention_for_cpu_backward": "grad_out query key value out logsumexp dropout_p is_causal attn_mask scale",
    f"{_FUSED}efficient_attention_backward": "grad_out_ query key value attn_bias out logsumexp philox_seed philox_offset dropout_p "
    "grad_input_mask is_causal scale",
    f"{_FUSED}cudnn_attention_backward": "grad_out query key value out logsumexp philox_seed philox_offset attn_bias cum_seq_q "
    "cum_seq_k max_q max_k dropout_p is_causal scale",
    f"{_FUSED}fused_attention_overrideable_backward": "grad_out query key value attn_bias grad_input_mask out logsumexp cum_seq_q "
    "cum_seq_k max_q max_k dropout_p is_causal philox_seed philox_offset scale",
}
"""Operator -> the names of its arguments."""
_OTHER = re.compile(r"[a-z0-9_]+::[a-z0-9_]*(?:attention|attn|multihead)[a-z0-9_]*\Z")
"""Operators whose arguments are not known here, but that are attention by their name."""
_TYPES = {"float": "fp32", "c10::Half": "fp16", "c10::BFloat16": "bf16"}
_VERSION = 1
_PARTS = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")


@dataclass(frozen=True, order=True)
class TraceSpan:
    """An operator of the trace: when it began and ended, in microseconds, and its arguments (``_PARTS``)."""

    start: float
    before: float
    end: float = field(compare=False)
    name: str = field(compare=False)
    parts: tuple[Any, ...] = field(compare=False)

    def holds(self, other: TraceSpan) -> bool:
        """Whether another operator of the thread ran inside of it."""
        return self.start <= other.start and other.end <= self.end


def torch_calls(stream: IO[bytes]) -> Iterator[WorkloadCall]:
    """The attention calls of a trace.

    Raises:
        DecodeError: the trace is damaged, or of another version.
    """
    threads: dict[tuple[Any, Any], list[TraceSpan]] = {}
    parts: dict[str, tuple[Any, ...]] = {}
    trace = JsonStream(stream)
    for event in trace.items("traceEvents"):
        if trace.passed.get("schemaVersion", _VERSION) != _VERSION:
            raise DecodeError(f"its schemaVersion is {trace.passed['schemaVersion']}, and this fmha reads {_VERSION}")
        name = event.get("name") if isinstance(event, dict) else None
        if not isinstance(name, str) or (name not in ARGUMENTS and not _OTHER.match(name)) or event.get("ph") != "X":
            continue
        start, duration, args = event.get("ts"), event.get("dur"), event.get("args")
        if not isinstance(start, int | float) or not isinstance(duration, int | float):
            continue
        found = tuple(args.get(part) for part in _PARTS) if isinstance(args, dict) else (None,) * len(_PARTS)
        kept = parts.setdefault(repr(found), found)
        span = TraceSpan(start, -duration, start + duration, name, kept)
        threads.setdefault((event.get("pid"), event.get("tid")), []).append(span)
    for spans in threads.values():
        for span in _outermost(sorted(spans)):
            yield _call(span)


def _outermost(spans: Sequence[TraceSpan]) -> Iterator[TraceSpan]:
    """The operators that no other known one holds. One that is not known counts if it neither holds nor is within a known one."""
    known = [span for span in spans if span.name in ARGUMENTS]
    tops = list(_tops(known))
    yield from tops
    free, at = [], 0
    for span in (span for span in spans if span.name not in ARGUMENTS):
        while at < len(tops) and tops[at].end < span.start:
            at += 1
        if not any(top.holds(span) or span.holds(top) for top in tops[at : at + 1]):
            free.append(span)
    yield from _tops(free)


def _tops(spans: Iterable[TraceSpan]) -> Iterator[TraceSpan]:
    last: TraceSpan | None = None
    for span in spans:
        if last is None or not last.holds(span):
            last = span
            yield span


def _call(span: TraceSpan) -> WorkloadCall:
    return described(span.name, lambda: _flags(span))


@dataclass(frozen=True)
class TensorArgument:
    """A tensor of an operator. Empty type: the trace does not tell it."""

    shape: tuple[int, ...]
    type: str
    strides: tuple[int, ...]


def _flags(span: TraceSpan) -> dict[str, object]:
    if span.name not in ARGUMENTS:
        raise UnmappedCall(NO_FLAGS(f"the arguments of {span.name} are not known to fmha"))
    names = ARGUMENTS[span.name].split()
    dims, types, values, strides = span.parts
    if not _lists(dims, len(names)) or not _lists(types, len(names)):
        hint = "profile with record_shapes=True"
        raise UnmappedCall(NO_SIZES("the trace has no shapes of its arguments", hint))
    tensors = {name: _tensor(dims[n], types[n], strides, n) for n, name in enumerate(names)}
    numbers = dict(zip(names, values, strict=True)) if _lists(values, len(names)) else {}
    q, k, v = (tensors[name] for name in ("query", "key", "value"))
    flags = _shape_flags(q, k, v)
    batch, heads, rows, keys = (flags[name] for name in ("batch", "heads", "seqlen", "seqlen_k"))
    flags["dtype"] = one_type((q.type, k.type, v.type), _TYPES)
    if _switch(numbers, "is_causal"):
        if span.name != _ONE and not span.name.startswith(f"{_FUSED}attention_math") and rows != keys:
            text = (
                f"is_causal with {rows} queries and {keys} keys: the trace does not say how {span.name} aligns the mask"
            )
            raise UnmappedCall(NO_MEANING(text))
        flags["mask"] = "causal" if rows == keys else "causal-tl"
    mask = tensors.get("attn_mask") or tensors.get("attn_bias")
    if mask is not None and mask.shape:
        flags |= bias_flags(mask.shape, batch, heads, rows, keys)
    flags |= {"dropout": _number(numbers, "dropout_p", 0.0) or None, "scale": _number(numbers, "scale", None)}
    if span.name.endswith("_backward"):
        flags["direction"] = "bwd"
    elif "compute_log_sumexp" in names:
        flags["lse"] = _switch(numbers, "compute_log_sumexp")
    else:
        flags["lse"] = span.name != _ONE and "attention_math" not in span.name
    return flags


def _lists(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _tensor(dims: Any, kind: Any, strides: Any, n: int) -> TensorArgument:
    shape = tuple(dims) if isinstance(dims, list) and all(type(size) is int for size in dims) else ()
    steps = strides[n] if isinstance(strides, list) and n < len(strides) else ()
    return TensorArgument(shape, kind if isinstance(kind, str) else "", tuple(steps) if isinstance(steps, list) else ())


def _shape_flags(q: TensorArgument, k: TensorArgument, v: TensorArgument) -> dict[str, Any]:
    """Sizes and layout of (batch, heads, length, hdim), or of (heads, length, hdim)."""
    ranks = {len(one.shape) for one in (q, k, v)}
    if ranks == {0}:
        raise UnmappedCall(NO_SIZES("the trace has no shapes of query, key and value; they may be nested tensors"))
    if ranks not in ({3}, {4}):
        raise UnmappedCall(NO_FLAGS(f"query, key and value of shapes {q.shape}, {k.shape}, {v.shape}"))
    qs, ks, vs = (one.shape if len(one.shape) == 4 else (1, *one.shape) for one in (q, k, v))
    if len({one[0] for one in (qs, ks, vs)}) > 1 or ks[:3] != vs[:3] or qs[3] != ks[3]:
        raise UnmappedCall(NO_FLAGS(f"query, key and value of shapes {q.shape}, {k.shape}, {v.shape}"))
    sizes = zip(("batch", "heads", "seqlen", "hdim"), qs, strict=True)
    flags: dict[str, Any] = dict(sizes)
    flags |= {"kv_heads": ks[1], "seqlen_k": ks[2], "hdim_v": vs[3]}
    flags["layout"] = "bshd" if all(_by_rows(one) for one in (q, k, v)) else "bhsd"
    return flags


def _by_rows(tensor: TensorArgument) -> bool:
    """Whether the heads of a row lie side by side, as after ``x.view(b, s, h, d).transpose(1, 2)``."""
    if len(tensor.shape) != 4 or len(tensor.strides) != 4:
        return False
    _, heads, rows, _ = tensor.shape
    return heads > 1 and rows > 1 and tensor.strides[1] < tensor.strides[2]


def _switch(numbers: Mapping[str, Any], name: str) -> bool:
    value = numbers.get(name)
    if value not in ("True", "False"):
        hint = "profile with record_shapes=True on PyTorch 2.1 or later"
        raise UnmappedCall(NO_MEANING(f"the trace does not say {name}, because it has no Concrete Inputs", hint))
    return bool(value == "True")


def _number(numbers: Mapping[str, Any], name: str, default: float | None) -> float | None:
    value = numbers.get(name)
    if value is None:
        raise UnmappedCall(NO_MEANING(f"the trace does not say {name}, because it has no Concrete Inputs"))
    if value in ("", "None"):
        return default
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UnmappedCall(NO_MEANING(f"{name} is {str(value)[:40]!r} in the trace")) from None
