"""Tensors by DLPack: every element type, any strides, and refusals that say what to pass instead."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli.domain.errors import UsageError
from fmha_cli.run.dlpack import _Tensor
from fmha_cli.run.given_arrays import host_array


class Foreign:
    """Another library's tensor: numpy's own capsule with members that a test changes."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0), **members: int) -> None:
        self._array, self._device, self._members = array, device, members

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self) -> object:
        capsule = self._array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
        for name, value in self._members.items():
            setattr(tensor, name, value)
        return capsule


def test_numpy_arrays_are_taken_as_they_are() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(host_array(array, "q"), array)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "view", [lambda a: a, lambda a: a.T, lambda a: a[::-1, 1::2], lambda a: a[0, 0], lambda a: a[1:1]]
)
def test_numpy_arrays_of_any_order_have_their_values(order: str, view: Callable[[Any], Any]) -> None:
    plain = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    taken = host_array(view(np.arange(24).reshape(4, 6).astype(f"{order}f4")), "q")
    assert (taken.dtype, taken.shape) == (np.dtype(np.float32), plain.shape)
    assert taken.flags.c_contiguous
    np.testing.assert_array_equal(taken, plain)


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        host_array(np.ma.masked_array(np.ones(2), [True, False]), "q")
    assert (caught.value.code, caught.value.why) == ("E039", "it is a masked array")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[:, 1::2], lambda a: a[1:1]])
def test_views_of_numpys_own_types(dtype: type, view: Callable[[Any], Any]) -> None:
    array = view(np.arange(24).reshape(4, 6).astype(dtype))
    taken = host_array(Foreign(array), "q")
    assert taken.dtype == array.dtype
    np.testing.assert_array_equal(taken, array)


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
@pytest.mark.parametrize(
    ("dtype", "code", "carrier"),
    [
        (ml_dtypes.bfloat16, 4, np.uint16),
        (ml_dtypes.float8_e4m3fn, 10, np.uint8),
        (ml_dtypes.float8_e5m2, 12, np.uint8),
        (ml_dtypes.float8_e4m3fnuz, 11, np.uint8),
        (ml_dtypes.float8_e5m2fnuz, 13, np.uint8),
        (ml_dtypes.float8_e8m0fnu, 14, np.uint8),
    ],
)
def test_types_that_numpy_refuses(dtype: type, code: int, carrier: type) -> None:
    numbers = [[0.5, 2.0, 4.0], [1.0, 8.0, 0.25]] if code == 14 else [[0.5, -2.0, 3.0], [1.0, 0.0, -0.25]]
    values = np.array(numbers).astype(dtype)
    taken = host_array(Foreign(values.view(carrier), code=code), "k")
    assert taken.dtype == values.dtype
    np.testing.assert_array_equal(taken.astype(np.float64), values.astype(np.float64))


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[:, ::2], lambda a: a.T])
def test_two_elements_of_fp4_in_a_byte(view: Callable[[Any], Any]) -> None:
    """The first element is in the low half; the shape counts bytes. The 16 numbers are those of OCP Microscaling, E2M1."""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    pairs = view(np.arange(96, dtype=np.uint8).reshape(4, 24))
    taken = host_array(Foreign(pairs, code=17, bits=4, lanes=2), "k")
    assert taken.shape == (*pairs.shape[:-1], 2 * pairs.shape[-1])
    np.testing.assert_array_equal(taken[..., 0::2].astype(np.float64), numbers[pairs % 16])
    np.testing.assert_array_equal(taken[..., 1::2].astype(np.float64), numbers[pairs // 16])


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
@pytest.mark.parametrize("device", [1, 3, 11], ids=["of the host", "pinned by CUDA", "pinned by ROCm"])
def test_memory_that_the_host_can_read_is_taken(device: int) -> None:
    array = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(host_array(Foreign(array, device=(device, 0)), "q"), array)


def test_what_is_taken_is_a_copy() -> None:
    array = np.zeros(4, np.float32)
    taken = host_array(Foreign(array), "q")
    array[:] = 7
    assert not taken.any()


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1.0, 2.0], "it is a list"),
        (Foreign(np.zeros(2), device=(2, 1)), r"it is on device 1 of DLPack type 2 .*q\.cpu\(\)"),
        (Foreign(np.zeros(2), device=(10, 0)), "it is on device 0 of DLPack type 10"),
        (Foreign(np.zeros(2), device=(99, 0)), "it is on device 0 of DLPack type 99"),
        (Foreign(np.zeros(2), code=5), "DLPack type 5 with 64 bits"),
        (Foreign(np.zeros(2, np.float32), lanes=4), "4 lanes"),
    ],
)
def test_refusals_say_what_to_pass(value: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        host_array(value, "q")
    error = caught.value
    assert error.code == "E039"
    assert re.search(said, f"{error.what}: {error.why} {error.help}")


def test_a_tensor_that_its_library_does_not_hand_out() -> None:
    class Tracked(Foreign):
        def __dlpack__(self) -> object:
            raise BufferError("it requires grad")

    with pytest.raises(UsageError, match="cannot be read") as caught:
        host_array(Tracked(np.zeros(2)), "v")
    assert "requires grad" in str(caught.value.why)
    assert caught.value.help == "pass v.detach()"


def test_a_library_that_knows_no_number_for_its_device() -> None:
    class Elsewhere(Foreign):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("unknown device type")

    with pytest.raises(UsageError, match="cannot be read") as caught:
        host_array(Elsewhere(np.zeros(2)), "v")
    assert "unknown device type" in str(caught.value.why)


def test_a_capsule_of_something_else() -> None:
    class Liar(Foreign):
        def __dlpack__(self) -> object:
            return object()

    with pytest.raises(UsageError, match="cannot be read"):
        host_array(Liar(np.zeros(2)), "v")
