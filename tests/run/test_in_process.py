"""``api.session(in_process=True)``: a proven CPU kernel on tensors where they lie."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli import api
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.dlpack import _Handed, _pointer, _Tensor, _Versioned, lent
from fmha_cli.run.in_process import PlacedKernel
from fmha_cli.run.session import KEPT_SHAPES, AttentionSession
from tests.run.test_session import arrays, attended


@pytest.fixture
def here() -> Iterator[AttentionSession]:
    with api.session(backend="cpu", in_process=True) as session:
        yield session


def test_each_call_has_its_own_answer_and_its_own_memory(here: AttentionSession) -> None:
    first = here(*arrays(24))["o"]
    kept = first.copy()
    for seed in range(1, 5):
        tensors = arrays(24, seed)
        np.testing.assert_allclose(here(*tensors)["o"], attended(*tensors), atol=1e-5)
    np.testing.assert_array_equal(first, kept)
    assert len(here._placed) == 1


def test_views_are_read_where_they_lie(here: AttentionSession) -> None:
    whole = np.random.default_rng(1).standard_normal((1, 24, 3, 4, 32), dtype=np.float32)
    q, k, v = (whole[:, :, n, :, :16].transpose(0, 2, 1, 3) for n in range(3))
    np.testing.assert_allclose(here(q, k, v)["o"], attended(q, k, v), atol=1e-5)
    whole *= 0.5
    np.testing.assert_allclose(here(q, k, v)["o"], attended(q, k, v), atol=1e-5)


@pytest.mark.parametrize(
    "flags", [{"causal": True, "lse": True}, {"layout": "bshd", "mask": "window:5,0"}, {"softcap": 5.0, "splits": 2}]
)
def test_the_bits_are_those_of_the_worker(flags: dict[str, Any]) -> None:
    tensors = arrays(40, heads=40)
    with api.session(backend="cpu", **flags) as apart, api.session(backend="cpu", in_process=True, **flags) as here:
        apart(*tensors)
        wanted, found = apart(*tensors), here(*tensors)
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def test_gradients_and_sixteen_bits() -> None:
    tensors = [x.astype(ml_dtypes.bfloat16) for x in (*arrays(24), arrays(24, 9)[0])]
    q, k, v, do = tensors
    with api.session(backend="cpu") as apart, api.session(backend="cpu", in_process=True) as here:
        apart(q, k, v, do=do)
        wanted, found = apart(q, k, v, do=do), here(q, k, v, do=do)
    assert set(found) == {"o", "lse", "dq", "dk", "dv"}
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name].view(np.uint8), value.view(np.uint8))


def test_long_lists_of_lengths_are_told_apart(here: AttentionSession) -> None:
    q, k, v = (np.random.default_rng(n).standard_normal((1, 1500, 8), dtype=np.float32) for n in range(3))
    with api.session(backend="cpu") as apart:
        for longer in (600, 601):  # NumPy's own text leaves the middle out
            lengths = np.ones(1200, np.int64)
            lengths[longer] = 301
            flags = {"seqlens_q": lengths, "seqlens_k": lengths}
            np.testing.assert_array_equal(here(q, k, v, **flags)["o"], apart(q, k, v, **flags)["o"])


def test_a_library_is_closed_with_its_last_kernel(here: AttentionSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that grows has another form at each call: threads that ended and started anew each time would cost more than the kernel."""
    closed: list[PlacedKernel] = []
    monkeypatch.setattr(PlacedKernel, "close", lambda kernel: closed.append(kernel))
    for seqlen in range(20, 32):
        here(*arrays(seqlen))
    assert len(here._placed) == KEPT_SHAPES
    assert not closed
    half = [x.astype(np.float16) for x in arrays(24)]
    for seqlen in range(1, KEPT_SHAPES + 1):
        here(*(x[:, :, :seqlen] for x in half))
    assert len(closed) == 1


def test_outputs_can_be_given(here: AttentionSession) -> None:
    tensors = arrays(24)
    out = np.zeros((1, 2, 24, 16), np.float32)
    assert here(*tensors, out={"o": out})["o"] is out
    np.testing.assert_allclose(out, attended(*tensors), atol=1e-5)
    readonly = np.zeros((1, 2, 24, 16), np.float32)
    readonly.flags.writeable = False
    for bad, why in (
        (np.zeros((1, 2, 24, 17), np.float32), "its shape is"),
        (np.zeros((1, 2, 24, 16), np.float64), "its type is float64, and o has fp32"),
        (np.zeros((1, 2, 24, 16), ">f4"), "its type is >f4"),
        (np.zeros((1, 24, 2, 16), np.float32).transpose(0, 2, 1, 3), "not dense"),
        (readonly, "read-only"),
        (np.ma.MaskedArray(out), "MaskedArray"),
        ([0.0], "it is a list"),
        (tensors[1], "shares memory with k"),
    ):
        with pytest.raises(api.UsageError, match=r"out\['o'\] cannot be written") as told:
            here(*tensors, out={"o": bad})
        assert why in str(told.value.why)
        assert told.value.help


def test_outputs_lie_apart_and_are_the_problems() -> None:
    q, k, v = arrays(24)
    do, shared = arrays(24, 9)[0], np.zeros((1, 2, 24, 16), np.float32)
    with api.session(backend="cpu", in_process=True) as here:
        with pytest.raises(api.UsageError, match="cannot be written") as told:
            here(q, k, v, do=do, out={"dk": shared, "dv": shared})
        assert told.value.why == "it shares memory with dk"
        with pytest.raises(api.UsageError, match="no such output") as told:
            here(q, k, v, out={"O": shared})
        assert told.value.help == "outputs: o"


class Library:
    """A small library of arrays whose tensors speak DLPack, like the namespaces of the Python array API."""

    __name__ = "library"

    @staticmethod
    def from_dlpack(other: Any) -> Tensor:
        return Tensor(lent(other, "o", writable=False))


class Tensor:
    """A tensor of that library; ``flags`` are those of a versioned capsule."""

    def __init__(self, array: Array, *, fixed: bool = False, flags: int | None = None, device: int = 1) -> None:
        self.array, self.fixed, self.flags, self.device_type = array, fixed, flags, device

    def __array_namespace__(self) -> type[Library]:
        return Library

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, **asked: Any) -> object:
        if asked and self.flags is None:
            raise TypeError("older than versions")
        capsule = _Handed(self.array).__dlpack__()
        return capsule if self.flags is None else versioned(capsule, self.flags)

    def __getitem__(self, place: Any) -> Any:
        return self.array[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        if self.fixed:
            raise TypeError("arrays are immutable")
        self.array[place] = value


def versioned(capsule: object, flags: int) -> object:
    """A versioned capsule of the tensor in another one. Both live as long as the test."""
    whole = _Versioned(flags=flags, tensor=_Tensor.from_address(_pointer(capsule, b"dltensor")))
    KEPT.append((capsule, whole))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(ctypes.addressof(whole), b"dltensor_versioned", None)


KEPT: list[object] = []


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_tensors_of_any_library_stay_where_they_lie_and_come_back(here: AttentionSession, kind: Any) -> None:
    plain = [x.astype(kind) for x in arrays(24)]
    want = here(*plain)["o"]
    found = here(*map(Tensor, plain))["o"]
    assert isinstance(found, Tensor)
    assert found.array.dtype == kind
    np.testing.assert_array_equal(found.array, want)
    assert len(here._placed) == 1
    for flags in (None, 0):
        out = Tensor(np.zeros_like(want), flags=flags)
        assert here(*map(Tensor, plain), out={"o": out})["o"] is out
        np.testing.assert_array_equal(out.array, want)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"fixed": True}, "its items cannot be set: arrays are immutable"),
        ({"flags": 1}, "reading only"),
        ({"flags": 2}, "reading only"),
        ({"device": 2}, "it is on device 0 of DLPack type 2"),
    ],
)
def test_an_output_of_another_library_that_cannot_be_written(
    here: AttentionSession, options: dict[str, Any], why: str
) -> None:
    tensors, memory = arrays(24), np.zeros((1, 2, 24, 16), np.float32)
    with pytest.raises(api.UsageError) as told:
        here(*tensors, out={"o": Tensor(memory, **options)})
    assert why in str(told.value.why)
    assert told.value.help
    assert not memory.any()


def test_an_output_of_another_library_may_not_lie_in_an_input(here: AttentionSession) -> None:
    q, k, v = arrays(24)
    with pytest.raises(api.UsageError) as told:
        here(Tensor(q), k, v, out={"o": Tensor(q)})
    assert told.value.why == "it shares memory with q"


@pytest.mark.parametrize("check", ["first", "always"])
def test_outputs_of_a_worker_come_as_tensors_of_the_inputs_library(check: str) -> None:
    plain = [x.astype(ml_dtypes.bfloat16) for x in arrays(24)]
    with api.session(backend="cpu", like_inputs=True, check=check, lse=True) as session:
        for _ in range(2):
            found, want = session(*map(Tensor, plain)), session(*plain)
            for name in ("o", "lse"):
                assert isinstance(want[name], np.ndarray)
                assert isinstance(found[name], Tensor)
                np.testing.assert_array_equal(found[name].array, want[name])
    done = api.attention(*map(Tensor, plain), backend="cpu", like_inputs=True)
    assert isinstance(done.o, Tensor)
    np.testing.assert_array_equal(done.o.array, want["o"])
    assert isinstance(api.attention(*map(Tensor, plain), backend="cpu").o, np.ndarray)


def test_a_mask_is_never_passed_over(here: AttentionSession) -> None:
    q, k, v = arrays(24)
    here(q, k, v)
    with pytest.raises(api.UsageError, match="tensors in host memory"):
        here(np.ma.MaskedArray(q, mask=q > 0), k, v)


def test_what_cannot_stay_where_it_lies_is_refused(here: AttentionSession) -> None:
    q, k, v = arrays(24)
    lengths = {"kv_cache": "paged:8", "cache_seqlens": 24}
    pages = [x[0].swapaxes(0, 1).reshape(3, 8, 2, 16) for x in (k, v)]
    for tensors, flags, where, why in (
        ((q, k, v), {"dtype": "fp16"}, "q", "its type is float32"),
        ((q, k, v[:, :, ::-1]), {}, "v", "dense rows"),
        ((q, k.astype(">f4"), v), {}, "k", "its type is >f4"),
        ((q[..., ::2], k[..., ::2], v[..., ::2]), {}, "q", "dense rows"),
        ((q, *pages), {**lengths, "block_table": np.arange(3, dtype=np.int32)[None]}, "block_table", None),
        ((q, k, v), {"bias": np.zeros((1, 1, 24, 24), bool)}, "bias", "its type is bool"),
        ((q, k, v), {"alibi_slopes": np.ones(2, np.float32)}, "alibi_slopes", None),
        ((q, k, v), {"alibi": True}, "alibi_slopes", "made from arguments"),
    ):
        with pytest.raises(api.UsageError, match="in_process=True") as told:
            here(*tensors, **flags)
        assert told.value.where == where
        assert why is None or why in str(told.value.why)
        assert str(told.value.help).startswith("in_process=False")


@pytest.mark.parametrize(
    "more",
    [
        {"alibi_slopes": np.ones(2, np.float32)},
        {"tensors": {"bias": np.ones((1, 1, 24, 24), np.float32)}},
        {"bias": "elementwise"},
        {"alibi": True},
    ],
)
def test_a_tensor_beside_those_of_a_known_form_is_not_passed_over(here: AttentionSession, more: dict[str, Any]) -> None:
    here(*arrays(24)), here(*arrays(24), bias=None)
    for _ in range(2):
        with pytest.raises(api.UsageError, match=r"in_process=True|bias is not given"):
            here(*arrays(24), **more)


def test_a_bias_and_sinks_lie_where_they_are(here: AttentionSession) -> None:
    """They are read anew at each call, also where the form is known."""
    q, k, v = arrays(24)
    bias, sinks = arrays(24, 3)[0] @ arrays(24, 4)[0].swapaxes(2, 3), np.array([0.5, -1.0], np.float32)
    with api.session(backend="cpu") as apart:
        for factor in (np.float32(1), np.float32(-2)):
            given = {"bias": bias * factor, "sink_logits": sinks * factor}
            np.testing.assert_array_equal(here(q, k, v, **given)["o"], apart(q, k, v, **given)["o"])


def test_the_gradients_alone_follow_the_saved_forward_pass(here: AttentionSession) -> None:
    q, k, v = arrays(24)
    do = arrays(24, 9)[0]
    whole = here(q, k, v, do=do)
    alone = here(q, k, v, do=do, saved=(whole["o"], whole["lse"]))
    assert set(alone) == {"dq", "dk", "dv"}
    for name, value in alone.items():
        np.testing.assert_array_equal(value, whole[name])
    other = here(q, k, v, do=do, saved=(whole["o"], whole["lse"] + 1))
    np.testing.assert_allclose(other["dv"], whole["dv"] / np.e, atol=1e-5)
    with api.session(backend="cpu") as apart, pytest.raises(api.UsageError, match="saved"):
        apart(q, k, v, do=do, saved=(whole["o"], whole["lse"]))


def test_numbers_that_prove_nothing_are_answered(here: AttentionSession) -> None:
    """A kernel that did nothing would be right, so generated numbers prove it."""
    zeros = np.zeros((1, 2, 24, 16), np.float32)
    assert not here(zeros, zeros, zeros)["o"].any()
    assert here.record is not None
    assert here.record.verdict is api.Verdict.PASSED


def test_only_a_kernel_that_passed_comes_in() -> None:
    name = null_kernel(DType.FP32, Family.FWD, Behaviour.ZEROS).name
    with api.session(backend="null", kernel=name, in_process=True) as session, pytest.raises(api.KernelFailure):
        session(*arrays(24))
    honest = null_kernel(DType.FP32, Family.FWD, Behaviour.HONEST).name
    with (
        api.session(backend="null", kernel=honest, in_process=True) as session,
        pytest.raises(api.UsageError, match="child process only"),
    ):
        session(*arrays(24))
    for check in ("never", "always"):
        with pytest.raises(api.UsageError, match="in_process"):
            api.session(in_process=True, check=check)
    with api.session(backend="cpu") as session, pytest.raises(api.UsageError, match="in_process"):
        session(*arrays(24), out={})


def test_threads_may_share_it(here: AttentionSession) -> None:
    cases = [arrays(24 + n % 3, n) for n in range(48)]

    def answer(tensors: tuple[Array, Array, Array]) -> Array:
        return np.asarray(here(*tensors)["o"])

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(answer, cases))
    for tensors, found in zip(cases, answers, strict=True):
        np.testing.assert_allclose(found, attended(*tensors), atol=1e-5)


def test_a_tensor_of_the_block_moves_alone(here: AttentionSession) -> None:
    """Each tensor's members are found; one of two that changed places is the other."""
    q, k, v = arrays(24)
    here(q, k, v)
    (kernel,) = here._placed.values()
    for launch in kernel.session._launches:
        assert {name: launch.members[name] for name in "qkvo"} == {name: (name,) for name in "qkvo"}
    np.testing.assert_allclose(here(q, v, k)["o"], attended(q, v, k), atol=1e-5)
