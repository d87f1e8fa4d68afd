"""CK-Tile's dropout mask, bit for bit: kernels on emulated devices drop exactly what the oracle's stream ``ck`` drops.

If V is the identity, with as many keys as a head has elements of V, then O equals P after dropout, and its zeros are
the mask. In the backward pass, an identity dO makes dV the transpose of P.
"""

from __future__ import annotations

import shutil
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli import api
from fmha_cli.domain.tensors import offsets
from fmha_cli.oracle.dropout import ck_stream

SIZE = 64
CASES = {
    "batch": ("o", f"-b 2 -H 3 -s 100 --seqlen-k {SIZE} -d {SIZE} --splits 1"),
    "packed": ("o", f"--seqlens-q 70,1,130 --seqlens-k {SIZE},{SIZE},{SIZE} -H 2 -d {SIZE} --splits 1"),
    "backward": ("dv", f"-b 2 -H 2 -s {SIZE} --seqlen-k 100 -d {SIZE} --direction bwd"),
}
DROPOUT = "--dropout 0.3 --seed 20261121123456 --offset 5000000017"
"""A seed and an offset of more than 32 bits."""

OTHERS = [pair for pair in product(CASES, ("gfx1201", "gfx942")) if pair != ("batch", "gfx1201")]


def masks(problem: api.Problem) -> list[npt.NDArray[np.bool_]]:
    """The kept elements (heads, queries, keys) of each sequence."""
    out = []
    for b, (rows, keys) in enumerate(zip(problem.query_lengths(), problem.key_lengths(), strict=True)):
        h, i = (x.ravel() for x in np.indices((problem.heads, rows)))
        out.append(ck_stream(problem, b, h, i, 0, keys).reshape(problem.heads, rows, keys))
    return out


@pytest.mark.timeout(1800)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), [pytest.param("batch", "gfx1201", marks=pytest.mark.ci), *OTHERS])
def test_kernels_drop_what_the_stream_drops(name: str, arch: str, tmp_path: Path) -> None:
    for tool in ("clang-22", "ld.lld-22", "llvm-objdump-22"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    output, flags = CASES[name]
    problem = api.Problem.from_cli(f"{flags} --dtype fp16 {DROPOUT}")
    given, out = tmp_path / "identity.npy", tmp_path / "out.npz"
    one, count = np.eye(SIZE, dtype=np.float16), len(problem.key_lengths())
    repeats = (problem.heads, count, 1) if name == "packed" else (count, problem.heads, 1, 1)
    np.save(given, np.tile(one, repeats))
    (row,) = api.run(
        problem,
        backend="ck_tile",
        device=f"emu:{arch}",
        files={
            "q": "filled",
            "k": "filled",
            **({"v": "filled", "do": str(given)} if name == "backward" else {"v": str(given)}),
        },
        out=str(out),
    )
    assert not row.findings, row.notes
    values = np.load(out)[output]
    kept = masks(problem)
    if name == "packed":
        found = [values[:, start:end] for start, end in pairwise(offsets(problem.query_lengths()))]
    else:
        found = [v.transpose(0, 2, 1) if name == "backward" else v for v in values]
    for ours, theirs in zip(kept, found, strict=True):
        assert np.array_equal(theirs != 0, ours)
    share = np.mean(np.concatenate([k.ravel() for k in kept]))
    assert 0.67 < share < 0.73
