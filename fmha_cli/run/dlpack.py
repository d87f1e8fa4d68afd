"""Tensors of other libraries, by the DLPack protocol: read as copies, lent where they lie, and handed out.

bf16 and fp8 too, which numpy itself refuses. Only memory that the host can read is taken: this process opens no device.

Source: DLPack 1.1, ``include/dlpack/dlpack.h`` (``DLManagedTensorVersioned``, ``DLTensor``, ``DLDataTypeCode``, ``DLDeviceType``)
and the Python array API standard (``__dlpack__``, ``__dlpack_device__``, ``from_dlpack``).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from fmha_cli.domain.errors import UsageError
from fmha_cli.oracle.mx import unpack_fp4
from fmha_cli.oracle.tensors import Array

_CAPSULE, _VERSIONED = b"dltensor", b"dltensor_versioned"
_HOST = (1, 3, 11)
"""``DLDeviceType`` of memory that the host can read: its own, and pinned memory of two GPU runtimes."""

_KEPT_BY_PRODUCER = 0b11
"""Flags of a versioned capsule: read-only, and a copy of the producer's. What is written to either is lost or forbidden."""

_TYPES: Mapping[tuple[int, int], np.dtype[Any]] = {
    (0, 8): np.dtype(np.int8),
    (0, 16): np.dtype(np.int16),
    (0, 32): np.dtype(np.int32),
    (0, 64): np.dtype(np.int64),
    (1, 8): np.dtype(np.uint8),
    (2, 16): np.dtype(np.float16),
    (2, 32): np.dtype(np.float32),
    (2, 64): np.dtype(np.float64),
    (1, 16): np.dtype(np.uint16),
    (1, 32): np.dtype(np.uint32),
    (1, 64): np.dtype(np.uint64),
    (4, 16): np.dtype(ml_dtypes.bfloat16),
    (6, 8): np.dtype(np.bool_),
    (7, 8): np.dtype(ml_dtypes.float8_e3m4),
    (8, 8): np.dtype(ml_dtypes.float8_e4m3),
    (9, 8): np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    (10, 8): np.dtype(ml_dtypes.float8_e4m3fn),
    (11, 8): np.dtype(ml_dtypes.float8_e4m3fnuz),
    (12, 8): np.dtype(ml_dtypes.float8_e5m2),
    (13, 8): np.dtype(ml_dtypes.float8_e5m2fnuz),
    (14, 8): np.dtype(ml_dtypes.float8_e8m0fnu),
}
"""(``DLDataTypeCode``, bits) -> numpy type. Which of them a problem can have is for the problem to say."""

_CODES = {kind: code for (code, _), kind in _TYPES.items()}

_FP4_PAIR = (17, 4, 2)
"""Code, bits and lanes of two elements of fp4 in a byte (``torch.float4_e2m1fn_x2``), whose shape counts bytes."""


class _Tensor(ctypes.Structure):
    """``DLTensor``; shape and strides count elements, strides may be null (C order)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def has_dlpack(value: object) -> bool:
    """Whether an object speaks the protocol."""
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


def copied(value: object, name: str) -> Array:
    """A copy of a tensor in C order; fp4 in pairs gets an element its own byte.

    Raises:
        UsageError: E039, not in host memory, or of an element type without a numpy form.
    """
    capsule = _capsule_of(value, name)
    array, pairs = _seen(_tensor_in(capsule, _CAPSULE, name), capsule, name)
    copy = array.copy()
    return unpack_fp4(copy) if pairs else copy


def lent(value: object, name: str, *, writable: bool = False) -> Array:
    """A view of a tensor's own memory, which it keeps alive.

    Args:
        writable: it is an output.

    Raises:
        UsageError: E039, as ``copied``; fp4 in pairs; an output that its library never changes, or hands out for reading only.
    """
    if writable:
        _refuse_fixed(value, name)
    capsule, tensor = _capsule_of(value, name, flags=writable), None
    if writable and _named(capsule, _VERSIONED):
        whole = _Versioned.from_address(_pointer(capsule, _VERSIONED))
        if whole.flags & _KEPT_BY_PRODUCER:
            raise refused(
                name, "its library hands it out for reading only", "pass a numpy array, or leave it out", "written"
            )
        tensor = whole.tensor
    array, pairs = _seen(tensor or _tensor_in(capsule, _CAPSULE, name), capsule, name)
    if pairs:
        raise refused(name, "two elements are in a byte", "in_process=False copies it")
    array.flags.writeable = writable
    return array


def handed_to(library_of: object, array: Array, name: str) -> Any:
    """A numpy array as a tensor of the library of another tensor, on the same memory where that library allows it.

    Raises:
        UsageError: E039, it has no ``from_dlpack``, or refuses the element type.
    """
    told = getattr(library_of, "__array_namespace__", None)
    library = told() if told is not None else sys.modules[type(library_of).__module__.partition(".")[0]]
    try:
        return library.from_dlpack(_Handed(array))
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as fault:
        text = str(fault).partition("\n")[0]
        raise refused(
            name, f"{library.__name__} does not take {array.dtype}: {text}", "take numpy arrays", "handed out"
        ) from fault


def as_given(outputs: Mapping[str, Array], q: object) -> dict[str, Any]:
    """Outputs as tensors of the library of q; numpy arrays where q is one, or a text.

    Raises:
        UsageError: E039, see ``handed_to``.
    """
    foreign = has_dlpack(q) and not isinstance(q, np.ndarray | np.generic)
    return {name: handed_to(q, array, name) if foreign else array for name, array in outputs.items()}


class _Handed:
    """A numpy array that a library can take over. Its own capsule says which type the bytes really have."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **asked: object) -> object:
        array, code = self._array, _CODES[self._array.dtype]
        capsule = (array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")).__dlpack__()
        _Tensor.from_address(_pointer(capsule, _CAPSULE)).code = code
        return capsule


_LEAVE_OUT = "pass a numpy array, or leave it out for a new one"


def _refuse_fixed(value: Any, name: str) -> None:
    """Libraries whose arrays never change (JAX) hand them out without a flag, so an assignment to no element is tried."""
    try:
        value[0:0] = value[0:0]
    except Exception as fault:
        text = str(fault).partition("\n")[0]
        raise refused(name, f"its items cannot be set: {text}", _LEAVE_OUT, "written") from fault


def _capsule_of(value: Any, name: str, *, flags: bool = False) -> object:
    try:
        device, number = (int(part) for part in value.__dlpack_device__())
        if device not in _HOST:
            where = getattr(value, "device", f"device {number} of DLPack type {device}")
            raise refused(name, f"it is on {where}", f"fmha opens devices in a child process: pass {name}.cpu()")
        if flags:
            try:
                return value.__dlpack__(max_version=(1, 0))
            except TypeError:  # a producer of the time before versions
                pass
        return value.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as fault:
        raise refused(name, f"its library does not hand it out: {fault}", f"pass {name}.detach()") from fault


def _pointer(capsule: object, kind: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, kind))


def _named(capsule: object, kind: bytes) -> bool:
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
    return bool(valid(capsule, kind))


def _tensor_in(capsule: object, kind: bytes, name: str) -> _Tensor:
    try:
        return _Tensor.from_address(_pointer(capsule, kind))
    except ValueError as fault:
        raise refused(name, f"its capsule is not of DLPack: {fault}", "pass a numpy array") from fault


def _seen(tensor: _Tensor, capsule: object, name: str) -> tuple[Array, bool]:
    """A view of the tensor in a capsule, which stays unconsumed: its destructor frees it with the last view. And whether its bytes are
    pairs of fp4."""
    pairs = (tensor.code, tensor.bits, tensor.lanes) == _FP4_PAIR and tensor.ndim > 0
    kind = np.dtype(np.uint8) if pairs else _TYPES.get((tensor.code, tensor.bits))
    if kind is None or (tensor.lanes != 1 and not pairs):
        what = f"its elements are of DLPack type {tensor.code} with {tensor.bits} bits and {tensor.lanes} lanes"
        raise refused(name, what, "fp32, fp16, bf16, fp8, int32 or bool elements are needed")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] * kind.itemsize for i in range(tensor.ndim)) if tensor.strides else None
    if 0 in shape:
        return np.empty(shape, kind), pairs
    memory = (ctypes.c_char * _reach(shape, strides, kind.itemsize)).from_address(tensor.data + tensor.byte_offset)
    memory.capsule = capsule  # type: ignore[attr-defined]
    return np.ndarray(shape, kind, memoryview(memory), strides=strides), pairs


def _reach(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> int:
    """Bytes from the first element to the end of the last one; DLPack's strides are not negative for a producer's view."""
    if strides is None:
        return int(np.prod(shape, dtype=np.int64)) * itemsize
    return sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + itemsize


def refused(name: str, why: str, help: str, done: str = "read") -> UsageError:
    """E039: a tensor that cannot be read, written or handed out."""
    return UsageError(f"{name} cannot be {done}", code="E039", where=name, why=why, help=help)
