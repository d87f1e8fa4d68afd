"""Real tensors through ``--q --k --v --out``: every kind of file, shapes, dtypes, contradictions, atomic results."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.domain.errors import FmhaError, ImpossibleProblem, UsageError
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.run.input_files import InputFiles, fitted, flags_from_files, read_input_files
from fmha_cli.run.tensor_files import read_tensor, write_tensors

LINE = "-b 2 -H 4 --kv-heads 2 -s 9 --seqlen-k 13 -d 16 --hdim-v 24"


def tensors(line: str = LINE, **extra: str) -> dict[str, np.ndarray[Any, Any]]:
    return fill(api.Problem.from_cli(line), "normal", 3)


FILES = list(product(("npy", "npz", "safetensors"), ("fp32", "fp16", "bf16"), ("bhsd", "bshd")))
OFTEN = {
    ("npy", "fp32", "bhsd"),
    ("npz", "fp16", "bshd"),
    ("safetensors", "bf16", "bhsd"),
    ("safetensors", "fp32", "bshd"),
    ("npy", "bf16", "bshd"),
}
"""In the default run: every kind of file, type and layout, and both files that hold bf16 in their own way."""


@pytest.mark.promise("Files supply real tensors.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("suffix", "dtype", "layout"),
    [pytest.param(*one, marks=[] if one in OFTEN else pytest.mark.slow) for one in FILES],
)
def test_a_run_on_files_gives_the_reference(tmp_path: Path, suffix: str, dtype: str, layout: str) -> None:
    problem = api.Problem.from_cli(f"{LINE} --dtype {dtype} --layout {layout} --causal")
    inputs = tensors(f"{LINE} --dtype {dtype} --layout {layout}")
    if suffix == "npy":
        for name in "qkv":
            np.save(tmp_path / f"{name}.npy", inputs[name].astype(np.float32))
        files = {name: str(tmp_path / f"{name}.npy") for name in "qkv"}
    else:
        write_tensors(tmp_path / f"t.{suffix}", inputs)
        files = {name: str(tmp_path / f"t.{suffix}") for name in "qkv"}
    raw = flags_from_files({"layout": layout, "causal": True, "dtype": dtype}, read_input_files(files))
    assert api.Problem.of(**raw) == problem
    out = tmp_path / f"o.{suffix}"
    (record,) = api.run(problem, backend="null", files=files, out=str(out))
    assert record.verdict is api.Verdict.PASSED
    expected = forward(problem, inputs).o_tensor(problem)
    got = read_tensor(str(out), "--out", "o")
    assert got.dtype == (ml_dtypes.bfloat16 if (dtype, suffix) == ("bf16", "safetensors") else got.dtype)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=2e-2, atol=2e-2)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_files_say_the_shapes_and_the_dtype(tmp_path: Path) -> None:
    inputs = tensors(f"{LINE} --dtype bf16")
    write_tensors(tmp_path / "t.safetensors", inputs)
    given = read_input_files({name: str(tmp_path / "t.safetensors") for name in "qkv"})
    problem = api.Problem.of(**flags_from_files({}, given))
    assert problem == api.Problem.from_cli(f"{LINE} --dtype bf16")


def test_with_v_in_k_the_files_are_q_and_k(tmp_path: Path) -> None:
    line = "-b 2 -H 4 --kv-heads 1 -s 9 --seqlen-k 13 -d 24 --mla-rope 8 --dtype bf16"
    inputs = tensors(line)
    assert {"q", "k"} <= set(inputs)
    write_tensors(tmp_path / "t.safetensors", inputs)
    files = {name: str(tmp_path / "t.safetensors") for name in "qk"}
    raw = flags_from_files({"mla_rope": "8"}, read_input_files(files))
    assert api.Problem.of(**raw) == api.Problem.from_cli(line)
    (record,) = api.run(api.Problem.from_cli(line), backend="cpu", files=files, out=str(tmp_path / "o.npy"))
    assert record.verdict is api.Verdict.PASSED
    assert np.load(tmp_path / "o.npy").shape == (2, 4, 9, 16)
    with pytest.raises(ImpossibleProblem, match="file of v"):
        flags_from_files({"mla_rope": "8"}, InputFiles({**inputs, "v": inputs["k"][..., :16]}, {}))


@pytest.mark.parametrize(
    "flags", [{"heads": "5"}, {"seqlen_k": "14"}, {"hdim": "17"}, {"batch": "3"}, {"kv_heads": "1"}]
)
def test_a_flag_that_was_given_contradicts(flags: dict[str, str]) -> None:
    inputs = tensors(f"{LINE} --dtype fp32")
    with pytest.raises(ImpossibleProblem, match="file"):
        flags_from_files(flags, InputFiles(inputs, {}))


def test_packed_files_follow_the_layout() -> None:
    for layout in ("bhsd", "bshd"):
        line = f"--seqlens-q 3,0,5 --seqlens-k 2,4,6 -H 4 --kv-heads 2 -d 16 --dtype fp16 --layout {layout}"
        raw = {"seqlens_q": "3,0,5", "seqlens_k": "2,4,6", "layout": layout}
        assert api.Problem.of(**flags_from_files(raw, InputFiles(tensors(line), {}))) == api.Problem.from_cli(line)


def test_float32_files_are_rounded_with_a_note_and_others_refused() -> None:
    problem = api.Problem.from_cli(f"{LINE} --dtype fp16")
    wide = {name: array.astype(np.float32) for name, array in tensors(f"{LINE} --dtype fp32").items()}
    rounded, notes = fitted(problem, InputFiles(wide, {}))
    assert all(array.dtype == np.float16 for array in rounded.values())
    assert len(notes) == 3
    with pytest.raises(UsageError, match="holds int8"):
        fitted(problem, InputFiles({"q": wide["q"].astype(np.int8)}, {}))
    with pytest.raises(ImpossibleProblem, match="shape"):
        fitted(problem, InputFiles({"q": wide["q"][:1]}, {}))


def test_keys_in_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.zeros(3))
    np.savez(tmp_path / "one.npz", whatever=np.ones(2))
    assert read_tensor(f"{tmp_path}/two.npz:b", "--q", "q").shape == (3,)
    assert read_tensor(f"{tmp_path}/one.npz", "--q", "q").shape == (2,)
    for spec in ("two.npz", "two.npz:c", "missing.npy", "text.txt", "bad.npy", "bad.safetensors"):
        (tmp_path / "bad.npy").write_bytes(b"nonsense")
        (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
        with pytest.raises(UsageError):
            read_tensor(f"{tmp_path}/{spec}", "--q", "q")


@pytest.mark.parametrize(
    ("points", "out", "code"),
    [
        (["--lse"], "o.npy", 2),
        ([""], "o.txt", 2),
        ([""], "nowhere/o.npz", 4),
        (["", "-s 8"], "o.npz", 2),
    ],
)
def test_an_out_that_cannot_hold_the_results_is_refused_first(
    tmp_path: Path, points: list[str], out: str, code: int
) -> None:
    problems = [api.Problem.from_cli(f"-H 1 -s 4 -d 8 {flags}") for flags in points]
    with pytest.raises(FmhaError) as caught:
        api.run(*problems, backend="null", out=str(tmp_path / out))
    assert caught.value.exit_code == code


def test_a_sweep_writes_numbered_files_with_lse(tmp_path: Path) -> None:
    problems = [api.Problem.from_cli(f"-H 1 -s {s} -d 8 --lse") for s in (3, 4)]
    records = api.run(*problems, backend="null", out=str(tmp_path / "o-{i}.npz"))
    assert [Path(str(r.out)).name for r in records] == ["o-1.npz", "o-2.npz"]
    with np.load(tmp_path / "o-2.npz") as archive:
        assert sorted(archive.files) == ["lse", "o"]


def test_the_file_of_a_padded_cache_holds_the_padding() -> None:
    line = "-b 2 -H 2 -s 1 -d 8 --kv-cache linear --cache-seqlens 5,9"
    cache = {name: array for name, array in tensors(line).items() if name != "q"}
    padded = {name: np.concatenate([np.full_like(a[:, :, :3], np.nan), a], axis=2) for name, a in cache.items()}
    problem = api.Problem.from_cli(f"{line} --cache-leftpad 3")
    assert fitted(problem, InputFiles(padded, {}))[0].keys() == {"k", "v"}
    with pytest.raises(ImpossibleProblem, match="the problem needs"):
        fitted(problem, InputFiles(cache, {}))


OTHER_LAYOUT = {
    "packed, heads": ({"seqlens_q": "100,77", "heads": "6"}, (177, 6, 64), "bshd"),
    "packed, lengths alone": ({"seqlens_q": "100,77"}, (177, 6, 64), "bshd"),
    "packed, the other way round": ({"seqlens_q": "100,77", "layout": "bshd"}, (6, 177, 64), "bhsd"),
    "batches": ({"heads": "6"}, (2, 177, 6, 64), "bshd"),
    "batches, a length": ({"seqlen": "177"}, (2, 177, 6, 64), "bshd"),
}


@pytest.mark.parametrize("name", OTHER_LAYOUT)
def test_axes_of_the_other_layout_are_named(name: str) -> None:
    raw, shape, layout = OTHER_LAYOUT[name]
    given = InputFiles({"q": np.zeros(shape, np.float16)}, {"q": "q.npy"})
    with pytest.raises(ImpossibleProblem) as caught:
        flags_from_files(raw, given)
    assert caught.value.code == "P015"
    assert f"--layout {layout}" in str(caught.value.help)
    assert api.Problem.of(**flags_from_files({**raw, "layout": layout}, given)).heads == 6


def test_a_file_that_fits_no_layout_names_none() -> None:
    given = InputFiles({"q": np.zeros((177, 6, 64), np.float16)}, {"q": "q.npy"})
    with pytest.raises(ImpossibleProblem) as caught:
        flags_from_files({"seqlens_q": "100,77", "heads": "5"}, given)
    assert "--layout" not in str(caught.value.help)
