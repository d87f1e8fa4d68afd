"""The fills are reproducible to the bit, differ for every tensor, and have their promised properties."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Role, shapes_of
from fmha_cli.oracle.coded import code, decode_coded, key_id, key_of
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.reference import forward
from fmha_cli.oracle.tensors import numpy_dtype

LINES = [
    "-b 2 -H 4 --kv-heads 2 -s 5 --seqlen-k 9 -d 8 --hdim-v 6 --dtype bf16 --bias elementwise:bhss",
    "--seqlens-q 3,0,4 --seqlens-k 6,2,5 -H 2 -d 8 --layout bshd --bias elementwise --direction bwd --sink-logits filled",
    "-b 2 -H 2 -s 2 -d 8 --kv-cache paged:4 --cache-seqlens 5,2 --append 3 --alibi-slopes filled:bh",
    "-b 2 -H 2 -s 2 -d 8 --kv-cache linear --cache-seqlens 5,2 --append 3 --dtype fp8_e4m3 --qscale head",
    "-b 2 -H 2 -s 2 -d 8 --kv-cache linear --cache-seqlens 5,2 --cache-leftpad 1,4 --append 3 --layout bshd",
    "-b 2 -H 2 -s 2 -d 9 --mla-rope 2 --kv-cache paged:4 --cache-seqlens 5,2 --append 3",
]

# made with numpy 2.4 on x86-64; independent of numpy's version, the platform and the date
DIGESTS = {
    "normal": "0e9a44dcc09a45e4",
    "sparse_int": "5f25018bfcb8684c",
    "coded": "d48909387c7e4a4a",
    "ties": "82845c013150b165",
    "large": "7bf004ccb0fd0ce7",
}


@pytest.mark.promise("The values of a fill are the same everywhere, and slots without a key hold NaN.")
@pytest.mark.parametrize("kind", FILLS)
def test_values_are_pinned(kind: str) -> None:
    inputs = fill(Problem.from_cli(LINES[0]), kind, 1)
    digest = sha256(b"".join(inputs[name].tobytes() for name in sorted(inputs))).hexdigest()[:16]
    assert digest == DIGESTS[kind]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", FILLS)
def test_every_input_is_there_in_its_shape(line: str, kind: str) -> None:
    problem = Problem.from_cli(line)
    inputs = fill(problem, kind)
    expected = {n: s for n, s in shapes_of(problem).items() if s.role is not Role.OUTPUT and n not in ("o", "lse")}
    assert set(inputs) == set(expected)
    for name, shape in expected.items():
        assert inputs[name].shape == shape.shape
        assert inputs[name].dtype == numpy_dtype(shape.dtype)
    assert np.isfinite(forward(problem, inputs).o).all()  # no poison in the place of a key


def test_streams_differ() -> None:
    problem = Problem.from_cli("-H 2 -s 8 -d 8 --dtype fp32 --direction bwd")
    inputs, others = fill(problem, seed=1), fill(problem, seed=2)
    names = sorted(inputs)
    for n, a in enumerate(names):
        assert not np.array_equal(inputs[a], others[a])
        assert all(not np.array_equal(inputs[a], inputs[b]) for b in names[n + 1 :])


def test_normal_is_bell_shaped() -> None:
    q = fill(Problem.from_cli("-H 4 -s 256 -d 128 --dtype fp32"))["q"].astype(np.float64)
    assert abs(q.mean()) < 0.01
    assert q.std() == pytest.approx(1, abs=0.01)
    assert (q**4).mean() == pytest.approx(2.7, abs=0.05)


def test_sparse_int_and_ties() -> None:
    problem = Problem.from_cli("-H 2 -s 64 -d 16 --dtype fp16")
    q = fill(problem, "sparse_int")["q"].astype(np.float64)
    assert set(np.unique(q)) == {-2, -1, 0, 1, 2}
    assert (q == 0).mean() == pytest.approx(0.625, abs=0.03)
    ties = fill(problem, "ties")
    assert len(np.unique(ties["k"].reshape(-1, 16), axis=0)) == 4
    scores = ties["q"][0, 0].astype(np.float64) @ ties["k"][0, 0].astype(np.float64).T
    assert ((scores == scores.max(axis=1, keepdims=True)).sum(axis=1) > 4).all()


def test_large_needs_a_running_maximum() -> None:
    problem = Problem.from_cli("-H 2 -s 128 -d 64 --dtype fp16 --lse")
    reference = forward(problem, fill(problem, "large"))
    assert reference.lse.max() > 88  # exp(88) overflows float32
    assert 0.5 < (reference.peak > 0.9).mean() < 1


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp8_e4m3"])
def test_coded_rows_spell_their_key(dtype: str) -> None:
    problem = Problem.from_cli(f"-b 2 -H 4 --kv-heads 2 -s 4 --seqlen-k 30 -d 16 --dtype {dtype}")
    v = fill(problem, "coded")["v"]
    for b, g, j in ((0, 0, 0), (1, 1, 29), (0, 1, 7)):
        number = decode_coded(v[b, g, j])
        assert number == key_id(problem, b, g, j)
        assert key_of(problem, int(number)) == (b, g, j)


def test_what_is_no_code_is_not_decoded() -> None:
    assert decode_coded(np.zeros(16)) is None
    assert decode_coded(np.full(16, np.nan)) is None
    assert decode_coded(np.full(16, 9.0)) is None
    assert decode_coded(code(5, 4)) is None
    ids = np.arange(0, 2**32, 123456789)
    assert [decode_coded(row) for row in code(ids, 12)] == ids.tolist()


@pytest.mark.promise("The values of a fill are the same everywhere, and slots without a key hold NaN.")
def test_unused_rows_are_nan() -> None:
    paged = Problem.from_cli(LINES[2])
    inputs = fill(paged, seed=3)
    table = inputs["block_table"]
    assert sorted(table[table >= 0]) != sorted(range(len(inputs["k"])))  # one page is unused
    assert len(set(table[table >= 0])) == (table >= 0).sum() == 4
    assert np.isfinite(inputs["k"]).all(axis=(2, 3)).sum() == 5 + 2
    padded = fill(Problem.from_cli(LINES[4]))["v"]  # 8 keys after 1 row of padding, and 5 after 4
    assert np.flatnonzero(np.isfinite(padded[0]).all(axis=(1, 2))).tolist() == [1, 2, 3, 4, 5]
    assert np.flatnonzero(np.isfinite(padded[1]).all(axis=(1, 2))).tolist() == [4, 5]
    assert np.isnan(padded[1, :4]).all()
    assert padded.shape[1] == 9
    packed = fill(Problem.from_cli(LINES[1]))["bias"][0, 0]
    assert np.isfinite(packed[:3, :6]).all()
    assert np.isnan(packed[3, 5])


def test_given_tensors_are_kept_and_custom_fills_used() -> None:
    problem = Problem.from_cli("-H 1 -s 4 -d 8 --dtype fp32")
    q = np.ones((1, 1, 4, 8), np.float32)
    assert fill(problem, given={"q": q})["q"] is q
    ones = fill(problem, "ones", custom={"ones": lambda shape, _: np.ones(shape, np.float32)})
    assert (ones["v"] == 1).all()
    with pytest.raises(UsageError, match="no such fill"):
        fill(problem, "uniform")
