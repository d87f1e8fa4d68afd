"""FlashAttention-3's backward passes executed from their own PTX: right gradients under three seeds and both arithmetics.

NVRTC and ptxas compile a main kernel for 35 to 90 seconds of processor time and the two or three kernels around it for 5 to 25 each; a row then
takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli import api
from tests.checks.flash_attn_3_check import SEEDS, rows_of
from tests.checks.flash_attn_3_problems import PROBLEMS, Fa3Problem

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
BACKWARD = [problem for problem in PROBLEMS if "bwd" in problem.flags]


@pytest.mark.parametrize("problem", BACKWARD, ids=lambda problem: problem.name)
def test_gradients_pass(problem: Fa3Problem) -> None:
    rows = list(rows_of(problem))
    assert len(rows) == 2 * len(SEEDS)
    assert [row["verdict"] for row in rows] == ["PASSED"] * len(rows), rows[-1]["notes"]


def verdict(rows: int, keys: int, spoilt: str) -> api.Verdict:
    """Two packed sequences, of which the second has NaN in one tensor. The first has so many rows and keys."""
    flags = f"--seqlens-q {rows},64 --seqlens-k {keys},64 -H 4 --kv-heads 2 -d 128 --dtype bf16 --causal"
    rng, first = np.random.default_rng(1), {"q": rows, "do": rows, "k": keys, "v": keys}
    heads = {"q": 4, "do": 4, "k": 2, "v": 2}
    tensors: dict[str, Any] = {
        name: rng.standard_normal((n + 64, heads[name], 128)).astype(np.float32) for name, n in first.items()
    }
    tensors[spoilt][first[spoilt] :] = np.nan
    problem = api.Problem.from_cli(f"{flags} --deterministic --layout bshd --direction bwd")
    (row,) = api.run(problem, backend="flash_attn_3", device="emu:sm_90a", tensors=tensors)
    return row.verdict


@pytest.mark.parametrize("spoilt", ["q", "k", "v", "do"])
def test_nan_in_a_packed_sequence_reaches_the_one_before_it_in_a_shared_tile_alone(spoilt: str) -> None:
    """``_known_bad.json`` has it."""
    assert verdict(64, 128, spoilt) is api.Verdict.PASSED
    assert verdict(70, 100, spoilt) is api.Verdict.WRONG


def gradients(flags: str, seed: int, path: Path) -> bytes:
    (row,) = api.run(
        api.Problem.from_cli(f"{flags} --direction bwd"),
        backend="flash_attn_3",
        device="emu:sm_90a",
        emu_seed=seed,
        out=str(path),
    )
    assert row.verdict is api.Verdict.PASSED
    with np.load(path) as held:
        return b"".join(held[name].tobytes() for name in ("dq", "dk", "dv"))


def test_a_fixed_order_leaves_the_same_bits(tmp_path: Path) -> None:
    """In whatever order blocks run. Without one the bits differ."""
    fixed = "--seqlens-q 200,300 --seqlens-k 500,400 -H 4 --kv-heads 2 -d 128 --dtype bf16 --causal --deterministic"
    free = "-H 4 --kv-heads 1 -s 600 -d 128 --dtype bf16 --causal"
    assert len({gradients(fixed, seed, tmp_path / f"fixed{seed}.npz") for seed in range(4)}) == 1
    assert len({gradients(free, seed, tmp_path / f"free{seed}.npz") for seed in range(4)}) > 1
