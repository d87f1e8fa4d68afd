"""Tensors that a Python caller gives: arrays of any library, names of files, and the word that asks for a generated one.

Arrays of other libraries come by the DLPack protocol; bf16 and fp8 too, which numpy itself refuses. The producer's memory is copied at
once, so none of it is held. Only memory that the host can read is taken: this process opens no device.

Source: DLPack 1.1, ``include/dlpack/dlpack.h`` (``DLManagedTensor``, ``DLTensor``, ``DLDataTypeCode``, ``DLDeviceType``)
and the Python array API standard (``__dlpack__``, ``__dlpack_device__``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike, fspath
from typing import Any

import ml_dtypes
import numpy as np

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.suggest import suggest
from fmha_cli.oracle.mx import SCALED, unpack_fp4
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.input_files import ARRAY, FLAG_OF, InputFiles, read_input_files
from fmha_cli.run.request import TENSOR_OF_FLAG, Command, Request

_CAPSULE = b"dltensor"
_HOST = (1, 3, 11)
"""``DLDeviceType`` of memory that the host can read: its own, and pinned memory of two GPU runtimes."""

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


def host_array(value: object, name: str) -> Array:
    """The tensor as a numpy array in C order and in the machine's byte order; anything with ``__dlpack__`` as a copy.

    Args:
        name: the argument, for errors.

    Raises:
        UsageError: E039, not a tensor, not in host memory, or of an element type without a numpy form.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise _refused(name, "it is a masked array", f"pass {name}.filled(value); a mask of keys is a bias of booleans")
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        native = array.dtype.newbyteorder("=")
        return np.ascontiguousarray(array, native) if array.ndim else array.astype(native)
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        raise _refused(name, f"it is a {type(value).__name__}", "pass a numpy array, or an object with __dlpack__")
    try:
        device, number = (int(part) for part in value.__dlpack_device__())
        if device not in _HOST:
            where = getattr(value, "device", f"device {number} of DLPack type {device}")
            raise _refused(name, f"it is on {where}", f"fmha opens devices in a child process: pass {name}.cpu()")
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as fault:
        raise _refused(name, f"its library does not hand it out: {fault}", f"pass {name}.detach()") from fault
    return _copied(capsule, name)


def _copied(capsule: object, name: str) -> Array:
    """A copy of the tensor in a capsule, which stays unconsumed: its destructor frees it."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        tensor = _Tensor.from_address(pointer(capsule, _CAPSULE))
    except ValueError as fault:
        raise _refused(name, f"its capsule is not of DLPack: {fault}", "pass a numpy array") from fault
    pairs = (tensor.code, tensor.bits, tensor.lanes) == _FP4_PAIR and tensor.ndim > 0
    kind = np.dtype(np.uint8) if pairs else _TYPES.get((tensor.code, tensor.bits))
    if kind is None or (tensor.lanes != 1 and not pairs):
        what = f"its elements are of DLPack type {tensor.code} with {tensor.bits} bits and {tensor.lanes} lanes"
        raise _refused(name, what, "fp32, fp16, bf16, fp8, int32 or bool elements are needed")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] * kind.itemsize for i in range(tensor.ndim)) if tensor.strides else None
    if 0 in shape:
        return np.empty(shape, kind)
    start = tensor.data + tensor.byte_offset
    reach = _reach(shape, strides, kind.itemsize)
    memory = (ctypes.c_char * reach).from_address(start)
    copy = np.ndarray(shape, kind, memoryview(memory), strides=strides).copy()
    return unpack_fp4(copy) if pairs else copy


def _reach(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> int:
    """Bytes from the first element to the end of the last one; DLPack's strides are not negative for a producer's view."""
    if strides is None:
        return int(np.prod(shape, dtype=np.int64)) * itemsize
    return sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + itemsize


def _refused(name: str, why: str, help: str) -> UsageError:
    return UsageError(f"{name} cannot be read", code="E039", where=name, why=why, help=help)


TENSORS: Mapping[str, str] = {
    **TENSOR_OF_FLAG,
    **{tensor: tensor for tensor in TENSOR_OF_FLAG.values()},
    **{f"{name}_scale": f"{name}_scale" for name in SCALED},
}
"""Name of an argument -> the tensor: tensors go by their own names and by those of their flags."""


def given_tensors(values: Mapping[str, object]) -> tuple[InputFiles, dict[str, str]]:
    """The tensors of arguments, and the texts among them as flag key -> FILE[:KEY] or the word.

    Args:
        values: name of a tensor -> an array (numpy, or with ``__dlpack__`` in host memory), the name of a file,
            ``filled``, or None for "not given".

    Raises:
        UsageError: E039, an array that cannot be read; see also ``fmha_cli.run.input_files.read_input_files``.
    """
    named = {name: value for name, value in values.items() if value is not None}
    spelled = {name: value for name, value in named.items() if isinstance(value, str | PathLike) and name in FLAG_OF}
    texts = {FLAG_OF[name][2:].replace("-", "_"): fspath(value) for name, value in spelled.items()}
    arrays = {name: host_array(value, name) for name, value in named.items() if name not in spelled}
    read = read_input_files(texts)
    return InputFiles({**read.arrays, **arrays}, {**read.paths, **dict.fromkeys(arrays, ARRAY)}), texts


def merged(*several: Mapping[str, object]) -> dict[str, object]:
    """Tensors by their own names, from arguments that may have those of their flags.

    Raises:
        UsageError: E039, no such tensor, or one that is given twice.
    """
    out: dict[str, object] = {}
    for name, value in (item for one in several for item in one.items() if item[1] is not None):
        if name not in TENSORS:
            help = ", ".join(sorted({*TENSORS.values()}))
            raise UsageError(f"there is no tensor {name}", code="E039", where="tensors", help=help)
        if TENSORS[name] in out:
            raise UsageError(f"{TENSORS[name]} is given twice", code="E039", where=name, help="give it once")
        out[TENSORS[name]] = value
    return out


def request_with(options: Mapping[str, Any], files: Mapping[str, str]) -> Request:
    """The request of a Python caller.

    Args:
        options: members of a request by their names.

    Raises:
        UsageError: E043, the option does not exist.
    """
    known = {field.name for field in fields(Request)}
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        help = suggest(unknown, known)
        if unknown in TENSORS and unknown != "bias":
            help = f'tensors={{"{TENSORS[unknown]}": ...}}'
        elif unknown in BY_KEY:
            help = f"Problem.of({unknown}=...)"
        raise UsageError(f"there is no option {unknown}", code="E043", where=unknown, help=help)
    named = {name: fspath(value) if isinstance(value, PathLike) else value for name, value in options.items()}
    return Request(**{**named, "command": Command(options.get("command", Command.RUN)), "files": files})
