"""What a Python caller has: arrays for tensors and lengths, None, scalars of libraries, and the arguments of other libraries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.flags import FlagKind
from fmha_cli.run.given_arrays import given_tensors, merged
from fmha_cli.run.request import TENSOR_OF_FLAG
from tests.run.test_dlpack import Foreign
from tests.support.generators.given_problems import CASES, attention, normal

NAMES = sorted({*TENSOR_OF_FLAG, *TENSOR_OF_FLAG.values()})


def plain() -> dict[str, Any]:
    return {"q": normal(1, 2, 2, 5, 16), "k": normal(2, 2, 2, 7, 16), "v": normal(3, 2, 2, 7, 16)}


class Numbers:
    """Another library's array of lengths: it has ``tolist`` and is not a numpy array."""

    def __init__(self, *values: int) -> None:
        self._values = list(values)

    def tolist(self) -> list[int]:
        return self._values


# tensors


FORMS: Mapping[str, Callable[[Any], Any]] = {
    "own": lambda array: array,
    "another order of bytes": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "DLPack": Foreign,
}


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
def test_an_array_under_any_name_of_a_tensor_is_that_tensor() -> None:
    array, wrong = normal(4, 3, 4)[:, ::2], []
    for name in NAMES:
        for form, make in FORMS.items():
            given, texts = given_tensors(merged({name: make(array)}))
            tensor = TENSOR_OF_FLAG.get(name, name)
            same = np.array_equal(given.arrays[tensor], array)
            if texts or given.paths != {tensor: "(array)"} or not same:
                wrong.append((name, form))
    assert wrong == []


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", CASES)
def test_arrays_of_other_libraries_and_orders_give_the_same_outputs(name: str) -> None:
    """One tensor by DLPack, the next as the view of an array with swapped axes, the next in another order of bytes, and so on.

    Every tensor has each form in one of the three runs of ``pages`` and ``gradients``; the other cases are run once.
    """
    case = CASES[name]()
    real = api.attention(**case.tensors, **case.flags, backend="cpu")
    np.testing.assert_allclose(real.o, case.o, atol=5e-3)
    for turn in range(3 if name in ("pages", "gradients") else 1):
        mixed = {flag: _formed(x, place + turn) for place, (flag, x) in enumerate(case.tensors.items())}
        done = api.attention(**mixed, **case.flags, backend="cpu")
        assert done.verdict is api.Verdict.PASSED
        np.testing.assert_array_equal(done.o, real.o)


def _formed(array: Any, form: int) -> Any:
    if form % 3 == 1 or array.dtype.isbuiltin != 1:  # numpy hands out only its own types
        return np.ascontiguousarray(array.T).T
    return Foreign(array) if form % 3 == 0 else array.astype(array.dtype.newbyteorder(">"))


def test_an_array_under_another_flag_is_refused() -> None:
    wrong = {}
    for flag in sorted(key for key, flag in BY_KEY.items() if flag.kind is not FlagKind.FILE and key != "bias"):
        numbers = Numbers(1, 2, 3) if BY_KEY[flag].kind is not FlagKind.LIST else np.ones(2)
        for array in (np.ones((2, 2), np.float32), numbers):
            for take in (lambda **flags: api.attention(**plain(), **flags), api.Problem.of):
                try:
                    take(**{flag: array})
                    wrong[flag] = "accepted"
                except api.UsageError as caught:
                    if caught.code not in ("E043", "P007"):
                        wrong[flag] = caught.render()
    assert wrong == {}


def test_a_tensor_is_given_once() -> None:
    for more in ({"bias": np.ones((5, 7)), "bias_file": np.ones((5, 7))}, {"tensors": {"q": normal(1, 2, 2, 5, 16)}}):
        with pytest.raises(api.UsageError, match="is given twice"):
            api.attention(**plain(), **more)


@pytest.mark.slow
@pytest.mark.ci
def test_fnuz_tensors_by_dlpack() -> None:
    """The same bytes are other numbers in OCP's encoding: half of these."""
    for code, kind in ((11, ml_dtypes.float8_e4m3fnuz), (13, ml_dtypes.float8_e5m2fnuz)):
        values = {name: x.astype(kind) for name, x in plain().items()}
        given = {name: Foreign(x.view(np.uint8), code=code) for name, x in values.items()}
        assert given_tensors(merged({"q": given["q"]}))[0].arrays["q"].dtype == kind
        if code == 11:
            done = api.attention(**given, dtype="fp8_e4m3:fp32", backend="cpu")
            assert done.record.problem["fp8_encoding"] == "fnuz"
            assert done.verdict is api.Verdict.PASSED
            np.testing.assert_allclose(done.o, attention(*values.values())["o"], atol=1e-2)


# lengths, switches, numbers


LENGTHS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "list": list,
    "int64": np.array,
    "int32": lambda n: np.array(n, np.int32),
    "big-endian": lambda n: np.array(n, ">i8"),
    "another library": lambda n: Numbers(*n),
    "scalars": lambda n: [np.int64(x) for x in n],
}


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    "forms", [("tuple", "list"), ("int64", "big-endian"), ("another library", "scalars"), ("int32", "int32")]
)
def test_lengths_may_be_arrays(forms: tuple[str, str]) -> None:
    """One form for the queries, another one for the keys, and each where a problem takes them."""
    queries, keys = (2, 0, 3), (4, 1, 2)
    q, k, v = normal(1, 2, 5, 16), normal(2, 2, 7, 16), normal(3, 2, 7, 16)
    of_queries, of_keys = (LENGTHS[form] for form in forms)
    done = api.attention(q, k, v, seqlens_q=of_queries(queries), seqlens_k=of_keys(keys), backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    i = j = 0
    for rows, cols in zip(queries, keys, strict=True):
        part = attention(q[None, :, i : i + rows], k[None, :, j : j + cols], v[None, :, j : j + cols])["o"][0]
        np.testing.assert_allclose(done.o[:, i : i + rows], part, atol=1e-5)
        i, j = i + rows, j + cols
    cached = {"kv_cache": "linear", "heads": 2, "batch": 3}
    for flag in ("cache_seqlens", "cache_leftpad"):
        for form in (of_queries, of_keys):
            assert api.Problem.of(**cached, **{flag: form((3, 5, 4))}) == api.Problem.of(**cached, **{flag: "3,5,4"})


def test_one_length_applies_to_all() -> None:
    flags = {"kv_cache": "linear", "batch": 2}
    for value in (3, np.int32(3), np.array(3), np.array([3]), Numbers(3), "3"):
        assert api.Problem.of(cache_seqlens=value, **flags).cache_seqlens == (3, 3), value


def test_scalars_of_libraries() -> None:
    mine = api.Problem.of(
        batch=np.int64(2),
        causal=np.bool_(True),
        scale=np.float32(0.1),
        softcap=np.array(30.0),
        dropout=np.float64(0.5),
        lse=np.array(True),
    )
    theirs = api.Problem.of(batch=2, causal=True, scale=float(np.float32(0.1)), softcap=30, dropout=0.5, lse=True)
    assert mine == theirs
    assert mine.scale == float(np.float32(0.1))  # as the kernel gets it, not 0.1


@pytest.mark.slow
@pytest.mark.ci
def test_none_is_not_given() -> None:
    assert api.Problem.of(**dict.fromkeys(BY_KEY)) == api.Problem.of()
    arrays = plain()
    names = {name: None for name in (*BY_KEY, *TENSOR_OF_FLAG.values()) if name not in arrays}
    done = api.attention(**arrays, **names, window_size=None, softmax_scale=None, tensors={"bias": None}, backend="cpu")
    np.testing.assert_array_equal(done.o, api.attention(**arrays, backend="cpu").o)


def test_a_value_that_is_none_of_its_flag_is_refused() -> None:
    for flag, value in NO_VALUES:
        with pytest.raises(api.UsageError) as caught:
            api.Problem.of(**{flag: value})
        assert (caught.value.code, caught.value.where) == ("E043", flag), value


NO_VALUES: list[tuple[str, object]] = [
        ("causal", "yes"), ("causal", "False"), ("causal", 2), ("causal", 1.0), ("lse", "true"), ("batch", True), ("batch", 2.5),
        ("seqlen", [1, 2]), ("scale", [0.5]), ("scale", 1j), ("mask", ("window", 1)), ("mask", True), ("dtype", 0.5),
        ("seqlens_q", (1.0, 2.0)), ("seqlens_q", (True, False)), ("seqlens_q", np.array([[1, 2]])), ("cache_seqlens", 2.5),
        ("seqlens_q", object()), ("batch", object()),
]  # fmt: skip


# other libraries' arguments

ELSEWHERE = [
    ("window_size", (127, 0), 'mask="window:127,0"'),
    ("window_size", (-1, 0), "causal=True"),
    ("window_size", (-1, -1), "leave it out"),
    ("window_size", np.array([64, -1]), 'mask="window:64,-1"'),
    ("window_size", [8, 8], 'mask="window:8,8"'),
    ("window_size", "all", 'mask="window:LEFT,RIGHT"'),
    ("local_window_size", 5, 'mask="window:5,5"'),
    ("sliding_window", 4096, "window=4095"),
    ("window_left", 9, "window=9"),
    ("softmax_scale", 0.125, "scale=0.125"),
    ("softmax_scale", np.float32(0.5), "scale=0.5"),
    ("sm_scale", 2, "scale=2"),
    ("is_causal", True, "causal=True"),
    ("is_causal", np.bool_(False), "causal=False"),
    ("dropout_p", 0.1, "dropout=0.1"),
    ("logits_soft_cap", 30.0, "softcap=30.0"),
    ("cu_seqlens_q", np.array([0, 3, 8], np.int32), "seqlens_q=(3, 5)"),
    ("cu_seqlens_k", [0, 4], "seqlens_k=(4,)"),
    ("attn_mask", np.ones((5, 7), bool), "bias=array"),
    ("attn_bias", np.ones((5, 7)), "bias=array"),
    ("attention_mask", "causal", 'mask="causal"'),
    ("key_padding_mask", np.ones((2, 7), bool), "bias=~array[:, None, None, :]"),
    ("sinks", np.ones(2), "sink_logits=array"),
    ("s_aux", np.ones(2), "sink_logits=array"),
    ("enable_gqa", True, "leave it out"),
    ("max_seqlen_q", 5, "leave it out"),
    ("num_splits", 0, 'splits="auto"'),
    ("num_splits", 4, "splits=4"),
    ("return_lse", True, "lse=True"),
    ("page_size", 16, 'kv_cache="paged:16"'),
    ("page_table", np.ones((2, 2), np.int32), "block_table=array"),
    ("k_cache", np.ones(2), "k=array"),
    ("dout", np.ones(2), "do=array"),
]


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
def test_arguments_of_other_libraries_are_refused_with_what_to_write() -> None:
    for name, value, write in ELSEWHERE:
        for take in (lambda **flags: api.attention(**plain(), **flags), api.Problem.of):
            with pytest.raises(api.UsageError, match="of another library") as caught:
                take(**{name: value})
            assert (caught.value.code, caught.value.where) == ("E043", name), value
            assert write in str(caught.value.help), (name, value)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("write", "visible"),
    [
        ({"mask": "window:3,0"}, lambda i, j: (j <= i + 2) & (j >= i + 2 - 3)),
        ({"mask": "window:2,-1"}, lambda i, j: j >= i + 2 - 2),
        ({"window": 2}, lambda i, j: (j <= i + 2) & (j >= i + 2 - 2)),
        ({"causal": np.bool_(True)}, lambda i, j: j <= i + 2),
        ({"bias": ~np.array([[True] * 3 + [False] * 4] * 2)[:, None, None, :]}, lambda i, j: j >= 3 + 0 * i),
    ],
    ids=["window_size=(3, 0)", "window_size=(2, -1)", "sliding_window=3", "is_causal", "key_padding_mask"],
)
def test_what_is_to_be_written_means_what_was_meant(
    write: Mapping[str, Any], visible: Callable[[Any, Any], Any]
) -> None:
    arrays = plain()
    seen = visible(np.arange(5)[:, None], np.arange(7)[None, :])
    done = api.attention(**arrays, **write, backend="cpu")
    np.testing.assert_allclose(done.o, attention(*arrays.values(), bias=np.where(seen, 0.0, -np.inf))["o"], atol=1e-5)


# errors

WRONG: Mapping[str, Callable[[], object]] = {
    "heads": lambda: api.attention(**plain(), kv_heads=3),
    "shapes": lambda: api.attention(**{**plain(), "k": normal(2, 2, 2, 7, 8)}),
    "axes": lambda: api.attention(**{**plain(), "q": normal(2, 2, 5)}),
    "missing": lambda: api.attention(**plain(), direction="bwd"),
    "type": lambda: api.attention(**{**plain(), "v": np.ones((2, 2, 7, 16), np.int32)}),
    "further tensor": lambda: api.attention(**plain(), sink_logits=np.ones(3, np.float32)),
    "no such tensor": lambda: api.attention(**plain(), block_table=np.ones((2, 2), np.int32)),
    "mask": lambda: api.attention(**plain(), mask="window:x"),
    "layout": lambda: api.attention(**plain(), layout="bsdh"),
    "packed": lambda: api.Problem.of(seqlens_q=(1, 2), seqlen=3),
    "conflict": lambda: api.Problem.of(causal=True, mask="window:3,0"),
    "unknown": lambda: api.attention(**plain(), cauasl=True),
    "pages": lambda: api.attention(**plain(), kv_cache="paged:4"),
    "run": lambda: api.run(api.Problem.of(heads=2, seqlen=4, hdim=8), tensors={"q": normal(1, 1, 2, 4, 8)}),
    "unsupported": lambda: api.attention(**plain(), dtype="fp32:bf16", backend="cpu"),
}


def test_errors_speak_of_arguments_and_arrays() -> None:
    for name, make in WRONG.items():
        with pytest.raises(api.FmhaError) as caught:
            make()
        error = caught.value
        said = "\n".join(filter(None, (str(error), error.what, error.why, error.help)))
        assert not re.search(r"(^|\s)--[a-z]|\bfiles?\b|\bflags?\b", said), (name, error.render())
        if name != "unsupported":
            assert not str(error.where).startswith("--"), name


def test_the_command_line_still_speaks_of_flags() -> None:
    with pytest.raises(api.UsageError, match="--heads 8 is not a multiple of --kv-heads 3"):
        api.Problem.from_cli("--heads 8 --kv-heads 3")


def test_options_that_run_does_not_have() -> None:
    problem = api.Problem.of(heads=1, seqlen=4, hdim=8)
    for options, help in (
        ({"sink_logits": np.ones(1)}, 'tensors={"sink_logits": ...}'),
        ({"causal": True}, "Problem.of(causal=...)"),
        ({"bakend": "cpu"}, "did you mean backend?"),
    ):
        with pytest.raises(api.UsageError) as caught:
            api.run(problem, **options)
        assert (caught.value.code, caught.value.help) == ("E043", help)


# nothing to compute

EMPTY = {
    "batch": ((0, 2, 5, 16), (0, 2, 7, 16)),
    "queries": ((2, 2, 0, 16), (2, 2, 7, 16)),
    "both": ((0, 2, 0, 16), (0, 2, 7, 16)),
}


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_batch_and_no_queries_give_empty_outputs(name: str, layout: str) -> None:
    shapes = [shape if layout == "bhsd" else (shape[0], shape[2], shape[1], shape[3]) for shape in EMPTY[name]]
    q, k, v = (np.ones(shape, np.float16) for shape in (shapes[0], shapes[1], shapes[1]))
    done = api.attention(q, k, v, causal=True, lse=True, layout=layout)
    assert (done.verdict, done.record.kernel) == (api.Verdict.PASSED, None)
    assert {n: (x.shape, x.dtype.name) for n, x in done.outputs.items()} == {
        "o": (q.shape, "float16"),
        "lse": ((EMPTY[name][0][0], 2, EMPTY[name][0][2]), "float32"),
    }
    found = api.attention(q, k, v, do=q, layout=layout, check=False)
    assert found.verdict is api.Verdict.UNCHECKED
    assert {n: x.shape for n, x in found.outputs.items() if n != "lse"} == {
        "o": q.shape, "dq": q.shape, "dk": k.shape, "dv": v.shape,
    }  # fmt: skip
    assert not found.outputs["dk"].any()


def test_what_is_empty_is_checked_too() -> None:
    q, k, v = np.ones((0, 2, 5, 16), np.float16), np.ones((0, 2, 7, 16), np.float16), np.ones((0, 2, 7, 16), np.float16)
    for wrong in (
        {"k": k[..., :8]},
        {"do": q[..., :8]},
        {"bias": "elementwise"},
        {"backend": "cpuu"},
        {"causal": "yes"},
    ):
        with pytest.raises(api.UsageError):
            api.attention(**{"q": q, "k": k, "v": v, **wrong})
    with pytest.raises(api.UsageError, match="whose axis heads is 0"):
        api.attention(q[:, :0], k, v)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("bias", [None, np.ones((5, 0), np.float32)])
def test_without_keys_o_is_zero(bias: Any) -> None:
    q, none = normal(1, 2, 2, 5, 16), np.empty((2, 2, 0, 16), np.float32)
    done = api.attention(q, none, none, lse=True, bias=bias, backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    assert not done.o.any()
    assert np.all(done.outputs["lse"] == -np.inf)
    found = api.attention(q, none, none, do=q, backend="cpu").outputs
    assert (found["dk"].shape, found["dv"].shape) == (none.shape, none.shape)
    assert not found["dq"].any()


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("lengths", [(0, 0), (), np.array([], np.int64)], ids=["zeros", "none", "empty array"])
def test_packed_sequences_without_queries(lengths: Any) -> None:
    empty = np.empty((2, 0, 16), np.float32)
    done = api.attention(empty, empty, empty, seqlens_q=lengths, lse=True, backend="cpu")
    assert {n: x.shape for n, x in done.outputs.items()} == {"o": (2, 0, 16), "lse": (2, 0)}
