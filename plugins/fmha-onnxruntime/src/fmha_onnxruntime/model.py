"""A model of one node in ONNX's wire format (``onnx/onnx.proto``), so the package ``onnx`` is not needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
"""numpy's names -> ``TensorProto.DataType``."""


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _part(1, name) + _number(3, value) + _number(20, 2)
    return _part(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _value(name: str, dtype: str, shape: Sequence[int] | None = None) -> bytes:
    sizes = b"" if shape is None else _part(2, b"".join(_part(1, _number(1, size)) for size in shape))
    return _part(1, name) + _part(2, _part(1, _number(1, TYPES[dtype]) + sizes))


def one_node(
    op: str,
    opset: int,
    order: Sequence[str],
    feeds: Mapping[str, Any],
    outputs: Sequence[str],
    attributes: Mapping[str, float],
) -> bytes:
    """The serialised model: opset 0 is the domain ``com.microsoft``, and all outputs have the type of ``q``.

    Args:
        order: the node's inputs, of which ``feeds`` (arrays by name) may lack some.
    """
    names, domain = list(order), "" if opset else "com.microsoft"
    while names[-1] not in feeds:
        names.pop()
    node = b"".join(_part(1, name if name in feeds else "") for name in names) + b"".join(_part(2, y) for y in outputs)
    node += _part(4, op) + b"".join(_part(5, _attribute(*item)) for item in attributes.items()) + _part(7, domain)
    graph = _part(1, node) + _part(2, "attention")
    # Releases 1.25 to 1.30 infer the shape of present_k from that of past_k (findings/onnxruntime_gqa_present_length.sh); 1.26 and
    # later ones of them then refused the longer one that they computed.
    shapes = {name: None if "past_k" in feeds else a.shape for name, a in feeds.items()}
    graph += b"".join(_part(11, _value(name, str(a.dtype), shapes[name])) for name, a in feeds.items())
    graph += b"".join(_part(12, _value(name, str(feeds["q"].dtype))) for name in outputs)
    imports = (_part(1, name) + _number(2, version) for name, version in (("", opset or 21), ("com.microsoft", 1)))
    return _number(1, 10) + _part(7, graph) + b"".join(_part(8, text) for text in imports)
