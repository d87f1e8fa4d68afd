"""``api.attention`` on arrays: the outputs of the real CPU kernel, and the record that ``fmha run`` would print."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli import api
from fmha_cli.cli.app import run
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.verdict import Verdict


def tensors(*shape: int, dtype: Any = np.float32, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for _ in range(3))
    return q, k, v


def softmax_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """(..., s, d) float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores[..., np.triu_indices(q.shape[-2], 1)[0], np.triu_indices(q.shape[-2], 1)[1]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.promise("`api.attention` chooses, builds, runs and checks as `fmha run` does.")
@pytest.mark.parametrize("causal", [False, True])
def test_the_outputs_are_attention(causal: bool) -> None:
    q, k, v = tensors(2, 3, 17, 16)
    done = api.attention(q, k, v, causal=causal, lse=True, backend="cpu")
    np.testing.assert_allclose(done.o, softmax_attention(q, k, v, causal), rtol=1e-4, atol=1e-5)
    assert done.outputs["lse"].shape == (2, 3, 17)
    assert done.verdict is Verdict.PASSED
    assert done.record.backend == "cpu"
    assert done.record.problem["batch"] == 2
    assert done.record.inputs.files == {"q": "(array)", "k": "(array)", "v": "(array)"}


@pytest.mark.slow
@pytest.mark.ci
def test_the_line_that_repeats_a_row_asks_for_the_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It never runs on generated data instead: saved under these names, the same digests of the inputs; without one, exit 2."""
    arrays = dict(zip(("q", "k", "v"), tensors(1, 2, 9, 16), strict=True))
    arrays["bias"] = np.arange(81, dtype=np.float32).reshape(9, 9)
    done = api.attention(**arrays, backend="cpu", do="filled")
    monkeypatch.chdir(tmp_path)
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    words = [*shlex.split(done.record.repro), "--no-store", "--out", "out.npz", "--json", "-o", "again.json"]
    assert (words.pop(0), run(words, os.environ)) == ("fmha", 0)
    again = json.loads(Path("again.json").read_text())["records"][0]
    assert again["problem"] == done.record.to_dict()["problem"]
    assert again["repro"] == done.record.repro
    np.testing.assert_array_equal(np.load("out.npz")["o"], done.o)
    np.testing.assert_array_equal(np.load("out.npz")["dq"], done.outputs["dq"])
    Path("bias.npy").unlink()
    capfd.readouterr()
    assert run(words[:-1] + ["third.json"], os.environ) == 2
    assert "bias.npy" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.ci
def test_layouts_and_element_types_are_those_of_the_arrays() -> None:
    q, k, v = tensors(2, 9, 4, 16, dtype=ml_dtypes.bfloat16)
    done = api.attention(q, k[:, :, :2], v[:, :, :2], layout="bshd", backend="cpu")
    assert (done.o.shape, done.o.dtype) == ((2, 9, 4, 16), np.dtype(ml_dtypes.bfloat16))
    assert done.record.problem["kv_heads"] == 2
    again = api.attention(*(x.swapaxes(1, 2) for x in (q, k[:, :, :2], v[:, :, :2])), backend="cpu")
    np.testing.assert_array_equal(again.o.swapaxes(1, 2).astype(np.float32), done.o.astype(np.float32))


@pytest.mark.slow
@pytest.mark.ci
def test_a_caller_can_hear_of_long_work() -> None:
    """Nothing is printed unasked; an emulator's first build takes minutes."""
    heard: list[tuple[str, int, int]] = []
    api.attention(*tensors(1, 1, 8, 8), backend="cpu", phase=lambda *told: heard.append(told))
    assert [what for what, done, _ in heard if not done][:2] == ["build", "inputs"]
    count = len(heard)
    api.run(api.Problem.of(seqlen=8, hdim=8), backend="cpu", phase=lambda *told: heard.append(told))
    assert ("build", 1, 1) in heard[count:]


def test_without_a_check_the_verdict_says_so() -> None:
    done = api.attention(*tensors(1, 1, 8, 8), check=False, backend="cpu")
    assert done.verdict is Verdict.UNCHECKED
    assert done.record.comparisons == ()


def test_further_tensors() -> None:
    q, k, v = tensors(1, 2, 5, 8)
    bias = np.full((1, 1, 5, 5), -np.inf, np.float32)
    bias[..., range(5), range(5)] = 0
    done = api.attention(q, k, v, tensors={"bias": bias}, backend="cpu")
    np.testing.assert_allclose(done.o, v, rtol=1e-5)


def test_with_do_the_gradients_come_too() -> None:
    """They are the slopes of sum(O * dO) along any direction."""
    inputs, do = dict(zip("qkv", tensors(1, 2, 9, 8), strict=True)), tensors(1, 2, 9, 8, seed=1)[0]
    done = api.attention(**inputs, do=do, causal=True, backend="cpu")
    assert (done.verdict, done.record.problem["direction"]) == (Verdict.PASSED, "fwd+bwd")
    np.testing.assert_allclose(done.o, softmax_attention(**inputs, causal=True), rtol=1e-4, atol=1e-5)
    step, along = 1e-4, tensors(1, 2, 9, 8, seed=2)[0].astype(np.float64)
    for name in "qkv":
        ends = (softmax_attention(**{**inputs, name: inputs[name] + n * step * along}, causal=True) for n in (1, -1))
        upper, lower = ((o * do).sum() for o in ends)
        np.testing.assert_allclose((done.outputs[f"d{name}"] * along).sum(), (upper - lower) / (2 * step), rtol=1e-4)


def test_the_inputs_are_not_changed() -> None:
    given = tensors(1, 2, 5, 8)
    copies = [x.copy() for x in given]
    api.attention(*given, backend="cpu")
    for mine, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(mine, copy)


@pytest.mark.promise("`api.attention` chooses, builds, runs and checks as `fmha run` does.")
def test_a_wrong_kernel_is_seen() -> None:
    kernel = null_kernel(DType.FP32, Family.FWD, Behaviour.ZEROS).name
    done = api.attention(*tensors(1, 1, 8, 8), backend="null", kernel=kernel)
    assert done.verdict is Verdict.WRONG
    assert done.o.shape == (1, 1, 8, 8)


@pytest.mark.promise("`api.attention` takes host tensors of any library, and refuses others with what to write.")
def test_refusals_name_their_reason() -> None:
    q, k, v = tensors(1, 1, 8, 8)
    with pytest.raises(api.UnsupportedError, match="no kernel"):
        api.attention(q, k, v, backend="cpu", dtype="fp32:bf16")
    with pytest.raises(api.UsageError, match="no tensor mask"):
        api.attention(q, k, v, tensors={"mask": q})
    with pytest.raises(api.UsageError):
        api.attention(q, k, v, cauasl=True)
    with pytest.raises(api.UsageError, match=r"k has|q has"):
        api.attention(q, k[..., :4], v)
    crash = null_kernel(DType.FP32, Family.FWD, Behaviour.ABORT).name
    with pytest.raises(api.KernelFailure, match="CRASHED"):
        api.attention(q, k, v, backend="null", kernel=crash)
