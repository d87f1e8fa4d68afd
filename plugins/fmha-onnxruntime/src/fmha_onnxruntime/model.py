"""A model of one node in ONNX's wire format (``onnx/onnx.proto``), so that the package ``onnx`` is not needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

IR_VERSION = 10
TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
"""numpy's names -> ``TensorProto.DataType``."""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _bytes(1, name) + _number(3, value) + _number(20, 2)
    return _bytes(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _value(name: str, dtype: str, shape: Sequence[int] | None) -> bytes:
    dims = b"" if shape is None else _bytes(2, b"".join(_bytes(1, _number(1, size)) for size in shape))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, TYPES[dtype]) + dims))


def model(
    op: str,
    opset: int,
    domain: str,
    names: Sequence[str],
    feeds: Mapping[str, tuple[str, Sequence[int]]],
    outputs: Sequence[str],
    dtype: str,
    attributes: Mapping[str, int | float],
) -> bytes:
    """The serialised model.

    Args:
        names: the node's inputs in order; an empty name leaves one out.
        feeds: type and shape of every input that is there.
        outputs: of the node; all of the type ``dtype``.
    """
    node = b"".join(_bytes(1, name) for name in names) + b"".join(_bytes(2, name) for name in outputs)
    node += _bytes(4, op) + b"".join(_bytes(5, _attribute(*item)) for item in attributes.items()) + _bytes(7, domain)
    graph = _bytes(1, node) + _bytes(2, "attention")
    graph += b"".join(_bytes(11, _value(name, *feed)) for name, feed in feeds.items())
    graph += b"".join(_bytes(12, _value(name, dtype, None)) for name in outputs)
    sets = [("", opset), ("com.microsoft", 1)]
    imports = b"".join(_bytes(8, _bytes(1, name) + _number(2, version)) for name, version in sets)
    return _number(1, IR_VERSION) + _bytes(7, graph) + imports
