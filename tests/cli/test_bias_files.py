"""A bias as a file of each kind: the values of the formula, dBias in the given shape, and the words of what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Fmha
from tests.support.referees.bias_values import FORMS, SIZES, attend, drawn

B, H, S, K = SIZES
_NAMES = {"float32": "F32", "bool": "BOOL"}


def written(path: Path, arrays: dict[str, Any]) -> None:
    """A file of the kind that its name says; safetensors by its own format."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return
    header: dict[str, Any] = {}
    at = 0
    for name, x in arrays.items():
        header[name] = {"dtype": _NAMES[str(x.dtype)], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(x.tobytes() for x in arrays.values()))


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("suffix", "form", "boolean"),
    [
        ("npy", "2-D keys", True),
        ("npy", "3-D", False),
        ("npz", "b1ss", False),
        ("npz", "rows", True),
        ("safetensors", "b11s", True),
        ("safetensors", "bh1s", False),
    ],
)
def test_a_file_has_the_values_of_the_formula(
    fmha: Fmha, tmp_path: Path, suffix: str, form: str, boolean: bool
) -> None:
    given = drawn(form, "fp32", boolean)
    arrays = {"q": given.q, "k": given.k, "v": given.v, "do": given.do, "bias": given.bias}
    if suffix == "npy":
        for name, x in arrays.items():
            np.save(tmp_path / f"{name}.npy", x)
        files = {name: str(tmp_path / f"{name}.npy") for name in arrays}
    else:
        written(tmp_path / f"t.{suffix}", arrays)
        files = dict.fromkeys(arrays, str(tmp_path / f"t.{suffix}"))
    words = [word for name, file in files.items() for word in (f"--{name if name != 'bias' else 'bias-file'}", file)]
    dbias = [] if boolean else ["--dbias"]
    out = tmp_path / "out.npz"
    flags = ("--backend", "cpu", "--direction", "fwd+bwd", *dbias, "--out", str(out), "--json")
    done = fmha("run", *words, *flags)
    assert done.code == 0, done.err
    (record,) = json.loads(done.out)["records"]
    assert (record["verdict"], record["problem"]["bias"]) == ("PASSED", FORMS[form].rank)
    assert "--bias-file" in record["repro"]
    got, want = np.load(out), attend(given)
    for name in ("o", "lse", "dq", "dk", "dv", *(("dbias",) if dbias else ())):
        assert got[name].shape == want[name].shape
        np.testing.assert_allclose(got[name], want[name], atol=5e-6, rtol=5e-6)


SHAPED = ("-b", "4", "-H", "2", "-s", "4", "--seqlen-k", "9", "-d", "8", "--backend", "cpu")


def test_two_meanings_and_none_are_usage_errors_that_name_the_forms(fmha: Fmha, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.ones((4, 9), np.bool_))
    both = fmha("run", *SHAPED, "--bias-file", str(tmp_path / "m.npy"))
    assert both.code == 2
    assert "(1, 1, 4, 9) or (4, 1, 1, 9)" in both.err
    np.save(tmp_path / "m.npy", np.ones((3, 9), np.float16))
    none = fmha("run", *SHAPED, "--bias-file", str(tmp_path / "m.npy"))
    assert none.code == 2
    assert "(3, 9), which does not broadcast to (4, 2, 4, 9)" in none.err


def test_a_mask_has_no_gradient_and_integers_are_no_mask(fmha: Fmha, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.ones((4, 1, 1, 9), np.bool_))
    mask = fmha("run", *SHAPED, "--bias-file", str(tmp_path / "m.npy"), "--direction", "bwd", "--dbias")
    assert mask.code == 2
    assert "--dbias and a boolean bias (a mask) contradict each other" in mask.err
    np.save(tmp_path / "m.npy", np.ones((4, 1, 1, 9), np.uint8))
    whole = fmha("run", *SHAPED, "--bias-file", str(tmp_path / "m.npy"))
    assert whole.code == 2
    assert "booleans: x != 0 if 1 is visible" in whole.err
    assert "the opposite of torch's key_padding_mask" in whole.err


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("rank", ["11ss", "1hss", "bhss", "b1ss", "111s", "b11s"])
def test_every_rank_of_the_contract_is_filled_and_repeated(fmha: Fmha, rank: str) -> None:
    done = fmha(
        "run",
        "-b",
        "2",
        "-H",
        "2",
        "-s",
        "9",
        "-d",
        "8",
        "--bias",
        f"elementwise:{rank}",
        "--backend",
        "null",
        "--json",
    )
    (record,) = json.loads(done.out)["records"]
    assert (done.code, record["verdict"], record["problem"]["bias"]) == (0, "PASSED", rank)
    assert ("--bias elementwise " if rank == "11ss" else f"--bias elementwise:{rank}") in record["repro"]
