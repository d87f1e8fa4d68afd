"""Files of narrow types: caches with their own type, both encodings of fp8, MX elements with their scales."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.domain.errors import UsageError
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.run.input_files import InputFiles, fitted, flags_from_files, read_input_files
from fmha_cli.run.tensor_files import write_tensors

CACHE = "-b 2 -H 4 --kv-heads 2 -s 3 -d 40 --kv-cache linear --cache-seqlens 70"


def read_back(tmp_path: Path, line: str, flags: dict[str, str | bool], suffix: str = "safetensors") -> InputFiles:
    problem = api.Problem.from_cli(line)
    path = tmp_path / f"t.{suffix}"
    inputs = fill(problem)
    write_tensors(path, inputs)
    given = read_input_files({name: str(path) for name in "qkv"})
    assert api.Problem.of(**flags_from_files(flags, given)) == problem
    got, _ = fitted(problem, given)
    for name, array in got.items():
        assert array.dtype == inputs[name].dtype
        np.testing.assert_array_equal(array.astype(np.float32), inputs[name].astype(np.float32))
    return given


@pytest.mark.parametrize("kv", ["int8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3 --fp8-encoding fnuz"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_type_of_a_cache_comes_from_its_files(tmp_path: Path, dtype: str, kv: str) -> None:
    flags: dict[str, str | bool] = {"kv_cache": "linear", "cache_seqlens": "70"}
    read_back(tmp_path, f"{CACHE} --dtype {dtype} --kv-dtype {kv}", flags)


@pytest.mark.parametrize("dtype", ["fp8_e4m3", "fp8_e5m2"])
def test_the_encoding_comes_from_the_files(tmp_path: Path, dtype: str) -> None:
    read_back(tmp_path, f"-H 2 -s 9 -d 16 --dtype {dtype} --fp8-encoding fnuz", {})


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("dtype", ["mxfp8", "mxfp4"])
def test_mx_files_hold_their_scales(tmp_path: Path, dtype: str, suffix: str) -> None:
    given = read_back(tmp_path, f"-H 2 -s 40 -d 40 --dtype {dtype}", {"dtype": dtype}, suffix)
    assert {"q_scale", "k_scale", "v_scale"} <= set(given.arrays)


def test_float32_files_are_converted_to_mx(tmp_path: Path) -> None:
    plain = fill(api.Problem.from_cli("-H 2 -s 40 -d 40 --dtype fp32"))
    for name, array in plain.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = read_input_files({name: str(tmp_path / f"{name}.npy") for name in "qkv"})
    problem = api.Problem.from_cli("-H 2 -s 40 -d 40 --dtype mxfp8")
    got, notes = fitted(problem, given)
    for name, array in fill(problem).items():
        np.testing.assert_array_equal(got[name].astype(np.float32), array.astype(np.float32))
    assert len(notes) == 3
    assert "section 6.3" in notes[0]


def test_mx_elements_without_scales_are_refused(tmp_path: Path) -> None:
    problem = api.Problem.from_cli("-H 2 -s 40 -d 40 --dtype mxfp8")
    inputs = fill(problem)
    write_tensors(tmp_path / "t.safetensors", {name: inputs[name] for name in "qkv"})
    given = read_input_files({"q": str(tmp_path / "t.safetensors")})
    with pytest.raises(UsageError, match="without their scales") as caught:
        fitted(problem, given)
    assert caught.value.code == "E032"


def test_scales_beside_other_types_are_not_looked_at(tmp_path: Path) -> None:
    problem = api.Problem.from_cli("-H 2 -s 40 -d 40 --dtype fp32")
    inputs = fill(problem)
    write_tensors(tmp_path / "t.npz", {**inputs, "q_scale": np.ones(3, np.float32)})
    got, _ = fitted(problem, read_input_files({"q": str(tmp_path / "t.npz")}))
    assert set(got) == {"q"}


def test_f4_files_hold_two_elements_in_a_byte(tmp_path: Path) -> None:
    """O against the formula in float64. The numbers are those of OCP Microscaling 1.0, E2M1 and E8M0."""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    rng, shape, header, data = np.random.default_rng(3), (1, 2, 32, 64), dict[str, object](), b""
    real = {}
    for name in "qkv":
        codes = rng.integers(0, 16, shape, np.uint8)
        blocks = (1, 2, 32, 2) if name != "v" else (1, 2, 1, 64)
        scales = rng.integers(125, 128, blocks, np.uint8)
        spread = scales.repeat(32, axis=3 if name != "v" else 2)
        real[name] = numbers[codes] * 2.0 ** (spread.astype(np.float64) - 127)
        packed = (codes[..., 0::2] | codes[..., 1::2] << 4).tobytes()
        for key, kind, size, held in (
            (name, "F4", shape, packed),
            (f"{name}_scale", "F8_E8M0", blocks, scales.tobytes()),
        ):
            header[key] = {"dtype": kind, "shape": size, "data_offsets": (len(data), len(data) + len(held))}
            data += held
    text = json.dumps(header).encode()
    file = tmp_path / "t.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)
    given = read_input_files(dict.fromkeys("qkv", str(file)))
    problem = api.Problem.of(**flags_from_files({"dtype": "mxfp4:fp32"}, given))
    got = forward(problem, fitted(problem, given)[0]).o_tensor(problem)
    scores = real["q"] @ real["k"].swapaxes(-1, -2) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ real["v"], rtol=1e-9, atol=1e-9)
    with pytest.raises(UsageError) as caught:
        api.attention(*[file] * 3)
    assert (caught.value.code, caught.value.help) == ("E035", 'dtype="mxfp4"')
